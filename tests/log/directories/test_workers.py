"""Several partitions at a time give what one after the other gives, and progress ends where the work ends."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kafkalog.log.directories import workers
from kafkalog.log.directories.workers import ProgressState, Workers, groups_of
from kafkalog.recovery import Recovery, plan, recover
from kafkalog.recovery.checks.verify import verify
from testkit.judging.trees import contents, copy_tree, first_difference
from testkit.recorded.fixture_data import broker_case, recovery_case
from testkit.recorded.recovery_settings import given
from testkit.running.command import kafkalog

UNIQUE = re.compile(r"[0-9a-f]{32}")
DIRECTORIES = [("4.1.1", "crash"), ("3.9.1", "torn"), ("2.8.2", "crash"), ("4.3.0", "txn")]
REFUSED = ["log_dir/non-topic-dir", "log_dir/duplicate-dirs"]


@pytest.fixture
def several(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes are started for the smallest directory too."""
    monkeypatch.setattr(workers, "_WORTHWHILE_BYTES", 0)


@pytest.mark.usefixtures("several")
@pytest.mark.parametrize("mode", ["safe", "kafka", "salvage"])
@pytest.mark.parametrize(("version", "name"), DIRECTORIES)
def test_the_plan_is_the_same(version: str, name: str, mode: str, tmp_path: Path) -> None:
    root = next(
        path for path in sorted(broker_case(version, name).unpack(tmp_path).iterdir()) if path.name.startswith("broker")
    )
    one, four = (plan(Recovery(mode=mode, at=1_700_000_000_000), root, jobs=jobs)[0] for jobs in (1, 4))
    assert len(one.partitions) > 3
    assert UNIQUE.sub("", str(four.as_dict())) == UNIQUE.sub("", str(one.as_dict()))


@pytest.mark.usefixtures("several")
def test_what_is_done_is_the_same(tmp_path: Path) -> None:
    root = next(broker_case("4.1.1", "crash").unpack(tmp_path / "data").iterdir())
    copy = copy_tree(root, tmp_path / "copy")
    recover(Recovery(at=1_700_000_000_000), root)
    recover(Recovery(at=1_700_000_000_000), copy, jobs=3)
    assert first_difference(dict(contents(copy)), dict(contents(root))) == ""


@pytest.mark.usefixtures("several")
@pytest.mark.parametrize("mode", ["kafka", "safe"])
def test_every_case_with_several_directories(mode: str, tmp_path: Path) -> None:
    """Where the broker fails, its order decides which failure is told."""
    from testkit.recorded.fixture_data import recovery_cases

    compared = failing = 0
    for number, case in enumerate(recovery_cases(["log_dir"])):
        root = case.unpack_before(tmp_path / str(number))
        if sum(path.is_dir() for path in root.iterdir()) < 2:
            continue
        one, three = (plan(Recovery(mode=mode, **given(case)), root, jobs=jobs)[0] for jobs in (1, 3))
        assert UNIQUE.sub("", str(three.as_dict())) == UNIQUE.sub("", str(one.as_dict())), case.id
        compared += 1
        failing += one.broker.outcome != "loaded"
    assert compared > 5
    assert failing > 1


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.usefixtures("several")
def test_progress_ends_where_the_work_ends(jobs: int, tmp_path: Path) -> None:
    root = next(broker_case("4.1.1", "crash").unpack(tmp_path / "data").iterdir())
    seen: list[ProgressState] = []
    plan(root, jobs=jobs, on_progress=seen.append)
    phases = list(dict.fromkeys(state.phase for state in seen))
    assert phases == ["what Kafka and recovery would do"]
    logs = [path for path in root.glob("*/*.log") if not path.parent.name.startswith("__cluster_metadata")]
    for phase in phases:
        states = [state for state in seen if state.phase == phase]
        for before, after in itertools.pairwise(states):
            assert before.bytes_done <= after.bytes_done
            assert before.segments_done <= after.segments_done
            assert before.partitions_done <= after.partitions_done
        last = states[-1]
        assert last.segments_done == len(logs)
        assert last.bytes_done == sum(path.stat().st_size for path in logs)
        assert last.partitions_done == len({path.parent for path in logs})
        assert last.bytes >= last.bytes_done


@pytest.mark.usefixtures("several")
def test_what_fails_in_another_process_is_done_here() -> None:
    here = os.getpid()

    def work(group: tuple[str, ...]) -> int:
        if os.getpid() != here:
            os._exit(9) if group == ("b-0",) else None
            raise OSError("not here")
        return len(group)

    pool = Workers(2)
    assert list(pool.each([("a-0",), ("b-0",), ("c-0", "c-0.x-delete")], work)) == [1, 1, 2]


def test_directories_of_a_partition_stay_together() -> None:
    future = "a-0.0123456789abcdef0123456789abcdef-future"
    assert groups_of(["a-0", "a-1", future, "lost+found"]) == [("a-0", future), ("a-1",), ("lost+found",)]


def test_a_small_directory_starts_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = recovery_case("undamaged/crash-single")
    root = case.unpack_before(tmp_path / "logs")
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("a process was started"))
    plan(Recovery(**given(case)), root, jobs=8)


PROGRAM = """
import os, sys, time
from kafkalog.recovery.checks import verify
from kafkalog.log.directories import workers

def work(group):
    os.write(1, f"{os.getpid()}\\n".encode())  # in one piece: two processes write to one pipe
    time.sleep(60)

workers._WORTHWHILE_BYTES = 0
list(workers.Workers(2).each([["t-0"], ["t-1"]], work))
"""


def test_a_kill_leaves_no_process_behind() -> None:
    """Those that a killed recovery had forked end by themselves."""
    parent = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    children = [int(parent.stdout.readline()) for _ in range(2)]
    parent.kill()
    parent.wait()
    parent.stdout.close()
    for _ in range(300):
        if not any(Path(f"/proc/{child}").exists() and _is_awake(child) for child in children):
            return
        time.sleep(0.1)
    raise AssertionError(f"processes {children} are still there")


def _is_awake(process: int) -> bool:
    """It is there, and no more than a name that nobody has asked for yet."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.sweep
@pytest.mark.usefixtures("several")
@pytest.mark.parametrize(("version", "name"), DIRECTORIES)
def test_ls_and_verify_say_the_same(version: str, name: str, tmp_path: Path) -> None:
    unpacked = broker_case(version, name).unpack(tmp_path)
    root = next(path for path in sorted(unpacked.iterdir()) if path.name.startswith("broker"))
    for command in (
        ["ls"],
        ["ls", "--segments"],
        ["verify"],
        ["verify", "--shallow"],
        ["ls", "--json"],
        ["verify", "--json"],
    ):
        one, four = (kafkalog(*command, root, "--jobs", jobs) for jobs in (1, 4))
        assert (four.code, four.out, four.err) == (one.code, one.out, one.err), command
        assert one.out


@pytest.mark.usefixtures("several")
def test_a_comparison_is_the_same_and_every_byte_is_told_once(tmp_path: Path) -> None:
    roots = [
        each for each in sorted(broker_case("2.8.2", "zkhist").unpack(tmp_path).iterdir()) if "broker" in each.name
    ]
    one, four = (kafkalog("compare", "--json", *roots, "--jobs", jobs) for jobs in (1, 4))
    assert (four.code, four.out, four.err) == (one.code, one.out, one.err)
    told: dict[int, int] = {}
    for jobs in (1, 4):
        read: list[int] = []
        verify(*roots, jobs=jobs, on_read=read.append)
        told[jobs] = sum(read)
    assert told[4] == told[1] > 0
