"""Several log directories: each has its object and its sentence, whatever is wrong with the others."""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from kafkalog import RecoveryRefused
from kafkalog.log.directories.selection import Selection
from kafkalog.recovery.act.fs import FileSystem
from kafkalog.recovery.act.lock import BrokerLock
from kafkalog.recovery.facts.recovery_request import Recovery
from kafkalog.recovery.facts.run_requests import Undo
from kafkalog.recovery.run import recover
from kafkalog.recovery.undoing import undo
from testkit.judging.trees import stamps
from testkit.made.scenes import metadata_elsewhere
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.recorded.fixture_data import recovery_case
from testkit.running.command import Finished, kafkalog

PLAIN = recovery_case("undamaged/full-scan-plain")
NAMES = {"path", "broker", "partitions", "run_id", "ways", "recommended", "recommended_needs", "changed", "findings",
         "refusal"}  # fmt: skip


@pytest.fixture
def roots(tmp_path: Path) -> list[Path]:
    """Three volumes after a crash: sound batches after damage in the first two, a torn tail in the third."""
    found = []
    for name in "abc":
        root = PLAIN.unpack_before(tmp_path / name)
        (root / "t-0").rename(root / f"{name}-0")
        for checkpoint in root.glob("*-checkpoint"):
            checkpoint.unlink()
        logs = sorted((root / f"{name}-0").glob("*.log"))
        data = bytearray(logs[0 if name in "ab" else -1].read_bytes())
        if name in "ab":
            data[70] ^= 3
            data[80] ^= 5
            logs[0].write_bytes(data)
        else:
            logs[-1].write_bytes(data[:-5])
        found.append(root)
    return found


def objects(finished: Finished, roots: list[Path]) -> list[dict[str, Any]]:
    """One for each directory, in their order, with the names that each has."""
    lines = finished.objects
    assert sorted(line["path"] for line in lines) == sorted(map(str, roots))
    assert all(line.keys() >= NAMES for line in lines)
    assert "Traceback" not in finished.err
    return sorted(lines, key=lambda line: str(line["path"]))


@pytest.mark.parametrize("words", [["--yes"], []])
def test_every_directory_is_planned_for_whichever_is_declined(words: list[str], roots: list[Path]) -> None:
    before = [stamps(root) for root in roots]
    finished = kafkalog("recover", "--json", *words, *roots)
    assert finished.code == 3
    assert [line["needs_consent"] for line in objects(finished, roots)] == [True, True, False]
    assert [line["changed"] for line in objects(finished, roots)] == [False] * 3
    for root in roots[:2]:
        assert f"{root}: this would drop " in finished.err
    assert f"{roots[2]}: " not in finished.err
    assert [stamps(root) for root in roots] == before
    text = kafkalog("recover", *words, *roots)
    assert all(f"plan for {root} in mode safe" in text.out for root in roots)
    assert text.err == finished.err


def test_python_names_all_of_them(roots: list[Path]) -> None:
    with pytest.raises(RecoveryRefused) as refused:
        recover(*roots)
    assert [each.directories for each in refused.value.each] == [(str(root),) for root in roots[:2]]
    assert [report.path for report in refused.value.reports] == list(map(str, roots))


def test_a_lock_that_is_held(roots: list[Path]) -> None:
    with FileSystem(str(roots[1])) as held, BrokerLock(held):
        finished = kafkalog("recover", "--json", "--yes", "--accept-loss", *roots)
    assert finished.code == 3
    lines = objects(finished, roots)
    assert str(roots[1]) in lines[1]["refusal"]
    assert lines[0]["refusal"] == f"{roots[0]}: another directory was declined before this one was examined"
    assert str(roots[1]) in finished.err


@pytest.mark.parametrize("command", [["plan"], ["recover", "--yes", "--accept-loss"], ["recover"]])
def test_one_that_cannot_be_listed(command: list[str], roots: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    before = [stamps(root) for root in roots]
    real = os.scandir

    def scandir(path: Any = ".") -> Any:
        if os.path.realpath(path) == str(roots[0]):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), path)
        return real(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", scandir)
        finished = kafkalog(*command, "--json", *roots)
        text = kafkalog(*command, *roots)
    assert (finished.code, text.code) == (4, 4)
    lines = objects(finished, roots)
    assert f"{roots[0]}: " in lines[0]["refusal"]
    assert "Permission denied" in lines[0]["refusal"]
    assert [(each["code"], each["file"]) for each in lines[0]["findings"]] == [("unreadable", ".")]
    assert "Permission denied" in finished.err
    assert f"{roots[0]}" in text.err
    if command != ["recover", "--yes", "--accept-loss"]:
        assert [line["needs_consent"] for line in lines[1:]] == [True, False]
        assert all(f"plan for {root} in mode safe" in text.out for root in roots[1:])
    assert [stamps(root) for root in roots] == before


def test_one_that_is_no_log_directory_keeps_no_plan_from_the_others(roots: list[Path], tmp_path: Path) -> None:
    """As where a disk is not mounted: its mount point is empty."""
    empty = tmp_path / "empty"
    empty.mkdir()
    finished = kafkalog("plan", "--json", roots[2], empty)
    assert finished.code == 1
    found = objects(finished, [roots[2], empty])
    assert [line["refusal"] is None for line in found] == [True, False]
    assert str(empty) in finished.err
    before = stamps(roots[2])
    finished = kafkalog("recover", "--yes", "--json", roots[2], empty)
    assert finished.code == 3
    assert [str(empty) in line["refusal"] for line in objects(finished, [roots[2], empty])] == [False, True]
    assert stamps(roots[2]) == before


def test_a_partition_in_two_of_them_is_named_for_both(roots: list[Path]) -> None:
    (roots[0] / "a-0").rename(roots[0] / "c-0")
    pair = [roots[0], roots[2]]
    for command in (["plan"], ["recover", "--yes", "--accept-loss"]):
        finished = kafkalog(*command, "--json", *pair)
        assert finished.code == 3
        assert all("c-0 is in " in line["refusal"] for line in objects(finished, pair)), command


def test_an_undo_that_is_refused_on_one_directory_changes_no_other(roots: list[Path]) -> None:
    before = [stamps(root) for root in roots]
    request = Undo(run_ids=[done.run_id or "" for done in recover(Recovery(accept_loss=True), *roots)])
    log = next((roots[0] / "a-0").glob("*.log"))  # its run is the oldest, which is undone last
    left = log.stat()
    with log.open("ab") as file:
        file.write(b"written by another since")
    between = [stamps(root) for root in roots]
    with pytest.raises(RecoveryRefused):
        undo(request, *roots)
    assert [stamps(root) for root in roots] == between
    with log.open("rb+") as file:
        file.truncate(left.st_size)
    os.utime(log, ns=(left.st_atime_ns, left.st_mtime_ns))
    told: list[str] = []
    results = undo(request, *roots, on_undone=lambda result: told.append(result.root))
    assert told == [result.root for result in results] == list(map(str, reversed(roots)))
    assert [stamps(root) for root in roots] == before


def test_several_runs_on_several_directories_are_taken_back(roots: list[Path]) -> None:
    before = [stamps(root) for root in roots[:2]]
    ids = []
    for mode in ("salvage", "set-aside"):
        request = Recovery(mode=mode, select=Selection.of(["a", "b"]), accept_loss=True)
        ids += [done.run_id for done in recover(request, *roots[:2])]
    assert len(set(ids) - {None}) == 4
    words = [word for run_id in ids for word in ("--run", run_id)]
    finished = kafkalog("undo", "--yes", *words, *roots[:2])
    assert finished.code == 2, finished.err
    assert [stamps(root) for root in roots[:2]] == before


def test_of_several_runs_each_is_undone_by_the_command_that_is_printed(roots: list[Path]) -> None:
    before = [stamps(root) for root in roots[:2]]
    recover(Recovery(mode="salvage", accept_loss=True), *roots[:2])
    declined = kafkalog("undo", "--yes", *roots[:2])
    assert declined.code == 3
    printed = re.findall(r"`(kafkalog undo [^`]+)` undoes it", declined.err)
    assert len(printed) == 2
    assert [kafkalog(*shlex.split(line)[1:], "--yes").code for line in printed] == [2, 2]
    assert [stamps(root) for root in roots[:2]] == before


def test_one_command_is_printed_where_it_does_for_all_of_them(roots: list[Path]) -> None:
    """A directory that is recovered alone lacks what the metadata log in another one says of its topics."""
    plain = [PLAIN.unpack_before(root.parent / f"{root.name}-sound") for root in roots[:2]]
    for number, root in enumerate(plain):
        (root / "t-0").rename(root / f"s{number}-0")
        for checkpoint in root.glob("*-checkpoint"):
            checkpoint.unlink()
    printed = [line for line in kafkalog("plan", *plain).lines if line.startswith("  kafkalog recover ")]
    assert printed
    assert {line.split()[2:4] == [str(root) for root in plain] for line in printed} == {True}
    assert kafkalog(*printed[0].split()[1:]).code == 2
    assert "  kafkalog recover " not in kafkalog("plan", *plain).out


def test_each_has_its_own_command_where_they_need_different_ones(roots: list[Path]) -> None:
    printed = [line for line in kafkalog("plan", *roots).lines if line.startswith("  kafkalog recover ")]
    assert len(set(printed)) > 1
    assert all(sum(str(root) in line.split() for root in roots) == 1 for line in printed)


def test_the_last_line_is_about_the_directories_as_they_are_now(tmp_path: Path) -> None:
    """A second directory of one partition ends the start of 4.3.0; without it, it starts."""
    first = own_copy(brokers("4.3.0/metadata")[0], tmp_path / "a")
    second = metadata_elsewhere(first, tmp_path / "b")
    live = next(first.glob("orders*-0"))
    shutil.copytree(live, first / f"{live.name}0")
    assert "Duplicate log directories" in kafkalog("plan", first, second).out
    done = kafkalog("recover", "--yes", first, second)
    assert done.code == 2
    assert "still holds" not in done.out
    assert f"{second}: nothing to do" in done.out
