"""Several partitions compacted at a time give what one after the other gives; what processes compute is in one file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import kafkalog
from kafkalog.cli.shapes.compact_lines import CompactLine
from kafkalog.codec.common.shapes import shaped
from kafkalog.jobs.compact import cleaning
from kafkalog.log.directories import workers
from kafkalog.log.directories.workers import ProgressState
from kafkalog.recovery.facts.scratch import Scratch
from testkit.judging.trees import contents, copy_tree, first_difference
from testkit.made.compactable import CONFIG, T0, compactable
from testkit.running.command import kafkalog as command


def several(root: Path) -> Path:
    """Partitions of which one is damaged, and one was cleaned before the log's end is known."""
    for name in ("t-0", "t-1", "u-0", "v-3", "v-12"):
        compactable(root, name, count=20)
    damaged = root / "u-0" / f"{0:020d}.log"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"\1")
    (root / "cleaner-offset-checkpoint").write_text("0\n3\nt 1 4\nv 12 99999\ngone 1 1\n")
    return root


@pytest.fixture
def in_processes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Processes are started for the smallest directory too; the partitions that were cleaned in this one."""
    monkeypatch.setattr(workers, "_WORTHWHILE_BYTES", 0)
    here: list[str] = []
    result, parent = cleaning._Pass.result, os.getpid()

    def noted(self: Any) -> Any:
        if os.getpid() == parent:
            here.append(self._directory)
        return result(self)

    monkeypatch.setattr(cleaning._Pass, "result", noted)
    return here


def comparable(root: Path) -> dict[str, object]:
    return {path: what for path, what in contents(root).items() if not path.startswith(".kafkalog")}


def test_the_result_is_the_same(tmp_path: Path, in_processes: list[str]) -> None:
    one = several(tmp_path / "one")
    four = copy_tree(one, tmp_path / "four")
    want = shaped(kafkalog.compact(kafkalog.Compaction(config=CONFIG, at=T0 + 5), one)[0].done, CompactLine)
    assert len(in_processes) == 5
    got = shaped(kafkalog.compact(kafkalog.Compaction(config=CONFIG, at=T0 + 5), four, jobs=4)[0].done, CompactLine)
    assert len(in_processes) == 5, "all of them were cleaned in other processes"
    assert list(got.declined) == list(want.declined) == ["u-0"]
    assert replace(got, root="", declined={}) == replace(want, root="", declined={})
    assert first_difference(comparable(four), comparable(one)) == ""
    kafkalog.undo(four)
    kafkalog.undo(one)
    assert first_difference(comparable(four), comparable(one)) == ""


def test_plans_are_the_same_and_progress_ends_where_the_work_ends(tmp_path: Path, in_processes: list[str]) -> None:
    root = several(tmp_path / "data")
    seen: list[ProgressState] = []
    plans = [
        shaped(
            kafkalog.plan_compaction(
                kafkalog.Compaction(config=CONFIG, at=T0 + 5), root, jobs=jobs, on_progress=seen.append
            )[0],
            CompactLine,
        )
        for jobs in (1, 3)
    ]
    assert plans[0] == plans[1]
    assert len(in_processes) == 5
    last = seen[-1]
    assert (last.phase, last.partitions_done, last.bytes_done) == ("cleaning", 5, last.bytes)


def test_a_partition_that_finds_no_room_is_cleaned_here(
    tmp_path: Path, in_processes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaning, "_MOST_GROWTH", 0)
    monkeypatch.setattr(cleaning, "MIB", 40)
    one = several(tmp_path / "one")
    two = copy_tree(one, tmp_path / "two")
    kafkalog.compact(kafkalog.Compaction(config=CONFIG, at=T0 + 5), one)
    in_processes.clear()
    kafkalog.compact(kafkalog.Compaction(config=CONFIG, at=T0 + 5), two, jobs=2)
    assert sorted(in_processes) == ["t-0", "t-1", "v-12", "v-3"]
    assert first_difference(comparable(two), comparable(one)) == ""


@pytest.mark.usefixtures("in_processes")
def test_the_command(tmp_path: Path) -> None:
    one = several(tmp_path / "one")
    two = copy_tree(one, tmp_path / "two")
    words = [word for name, value in CONFIG.items() for word in ("--config", f"{name}={value}")]
    done = [
        command("compact", "--yes", "--json", *words, "--at", T0 + 5, "--jobs", jobs, root)
        for jobs, root in ((1, one), (2, two))
    ]
    assert [each.code for each in done] == [2, 2]
    assert done[0].objects[0]["partitions"] == done[1].objects[0]["partitions"]
    assert first_difference(comparable(two), comparable(one)) == ""


def test_stretches_of_scratch_are_apart() -> None:
    scratch = Scratch()
    first = scratch.keep(b"before")
    starts = scratch.divide([10, 1 << 40, 10])
    assert starts == [6, 16, 16 + (1 << 40)]
    after = scratch.keep(b"after")
    child = os.fork()
    if child == 0:
        scratch.stay_in(starts[2], 10)
        scratch.keep(b"child")
        try:
            scratch.keep(b"too much")
        except kafkalog.StorageError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert scratch.read(starts[2], 5) == b"child"
    assert [scratch.read(each.start, each.length) for each in (first, after)] == [b"before", b"after"]
    scratch.close()
