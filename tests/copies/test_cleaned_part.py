"""A segment that one copy of a compacted log has lost is not taken for what the cleaner removed."""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from kafkalog import merge_directories, offsets
from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.model import BatchHeader
from kafkalog.codec.plain.scanner import scan
from kafkalog.copies.compare import compare
from kafkalog.recovery import Recovery, plan, recover
from kafkalog.recovery.checks.verify import verify
from kafkalog.recovery.decide.ways import recommended
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog

NAME = "__consumer_offsets-1"
CHECKPOINT = "cleaner-offset-checkpoint"


def log_of(directory: Path) -> bytes:
    return b"".join(log.read_bytes() for log in sorted(directory.glob("*.log")))


class Copies:
    """A recorded directory whose `__consumer_offsets-1` has four segments, and its copy without the third."""

    def __init__(self, base: Path) -> None:
        self.whole, self.damaged = base / "b", base / "a"
        own_copy(brokers("4.1.1/groups")[0], self.whole)
        (log,) = (self.whole / NAME).glob("*.log")
        self.recorded = log.read_bytes()
        batches = scan(self.recorded).batches
        for path in (self.whole / NAME).glob("0*.*"):
            path.unlink()
        numbers = [0, *(len(batches) * quarter // 4 for quarter in (1, 2, 3)), len(batches)]
        self.segments = []
        for first, end in pairwise(numbers):
            part = batches[first:end]
            path = self.whole / NAME / f"{part[0].header.first_offset:020d}.log"
            path.write_bytes(self.recorded[part[0].position : part[-1].position + part[-1].size])
            self.segments.append(path.name)
        lost = batches[numbers[2] : numbers[3]]
        self.first, self.last = lost[0].header.first_offset, lost[-1].header.last_offset
        headers = [batch.header for batch in lost if isinstance(batch.header, BatchHeader)]
        assert len(headers) == len(lost)
        self.records = sum(header.records_count for header in headers if not header.is_control)
        shutil.copytree(self.whole, self.damaged)
        (self.damaged / NAME / self.segments[2]).unlink()

    def cleaned_to(self, offset: int) -> None:
        (self.damaged / CHECKPOINT).write_text(f"0\n1\n__consumer_offsets 1 {offset}\n")


@pytest.fixture
def copies(tmp_path: Path) -> Copies:
    made = Copies(tmp_path)
    assert (made.whole / CHECKPOINT).read_bytes() == b"", "the recorded cleaner never ran"
    assert log_of(made.whole / NAME) == made.recorded
    return made


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_the_order_of_copies_decides_nothing(
    has_checkpoint: bool, is_turned: bool, copies: Copies, tmp_path: Path
) -> None:
    if not has_checkpoint:
        for root in (copies.damaged, copies.whole):
            (root / CHECKPOINT).unlink()
    order = [copies.damaged, copies.whole]
    merged = merge_directories(*(reversed(order) if is_turned else order), target=tmp_path / "merged")
    assert log_of(tmp_path / "merged" / NAME) == copies.recorded
    (partition,) = [each for each in merged.partitions if (each.topic, each.partition) == ("__consumer_offsets", 1)]
    lacking = {Path(copy.path).parent.name: copy.lacks_records for copy in partition.copies}
    assert lacking == {"a": copies.records if has_checkpoint else 0, "b": 0}


@pytest.mark.parametrize("is_turned", [False, True])
def test_what_the_cleaners_checkpoint_covers_does_not_come_back(
    is_turned: bool, copies: Copies, tmp_path: Path
) -> None:
    left = log_of(copies.damaged / NAME)
    copies.cleaned_to(copies.last + 1)
    order = [copies.damaged, copies.whole]
    merge_directories(*(reversed(order) if is_turned else order), target=tmp_path / "merged")
    assert log_of(tmp_path / "merged" / NAME) == left


@pytest.mark.parametrize("is_turned", [False, True])
def test_a_gap_inside_a_segment_shows_that_the_log_was_copied_from_a_cleaned_one(
    is_turned: bool, copies: Copies, tmp_path: Path
) -> None:
    """A follower has the gaps of its leader, and no entry in its own checkpoint."""
    log = copies.damaged / NAME / copies.segments[3]
    data = log.read_bytes()
    second = scan(data).batches[1]
    log.write_bytes(data[: second.position] + data[second.position + second.size :])
    left = log_of(copies.damaged / NAME)
    order = [copies.damaged, copies.whole]
    merge_directories(*(reversed(order) if is_turned else order), target=tmp_path / "merged")
    assert log_of(tmp_path / "merged" / NAME) == left
    codes = {finding.code for finding in verify(copies.damaged).findings}
    assert FindingCode.SEGMENT_MISSING not in codes


def test_compare_says_what_is_missing(copies: Copies) -> None:
    (found,) = [
        each
        for each in compare(copies.damaged, copies.whole).partitions
        if each.topic == "__consumer_offsets" and each.partition == 1
    ]
    by_root = {Path(copy.path).parent.name: copy for copy in found.copies}
    assert found.best is by_root["b"]
    difference = by_root["a"].difference
    assert difference is not None
    assert difference.lacks is not None
    assert (difference.lacks.offset, difference.lacks_records) == (copies.first, copies.records)


def test_a_merge_in_place_puts_it_back(copies: Copies) -> None:
    here = copies.damaged / NAME
    ways = plan(Recovery(copies=[copies.whole]), copies.damaged)[0].choice.by_partition[NAME]
    best = recommended(ways)
    assert best is not None
    assert best.way == "merge"
    recover(Recovery(mode="merge", copies=[copies.whole / NAME]), here)
    assert log_of(here) == copies.recorded


def test_every_command_says_the_same(copies: Copies) -> None:
    def found() -> dict[str, set[tuple[object, object]]]:
        said = {
            command: {
                (row["offset"], row["detail"])
                for row in rows(kafkalog(command, "--json", copies.damaged).objects)
                if row.get("code") == FindingCode.SEGMENT_MISSING
            }
            for command in ("verify", "plan", "ls")
        }
        told = offsets(copies.damaged).findings
        said["offsets"] = {(each.offset, each.detail) for each in told if each.code is FindingCode.SEGMENT_MISSING}
        return said

    def rows(value: object) -> list[dict[str, object]]:
        if isinstance(value, dict):
            return [value, *(row for inner in value.values() for row in rows(inner))]
        return [row for inner in value for row in rows(inner)] if isinstance(value, list) else []

    def detail(first: int) -> tuple[int, str]:
        what = "where the cleaner has not been: a segment before this one is gone, or the end of it"
        return first, f"offsets {first} to {copies.last} are missing, {what}"

    expected = {name: {detail(copies.first)} for name in ("verify", "plan", "offsets", "ls")}
    assert found() == expected
    copies.cleaned_to(copies.first + 3)
    assert found() == {name: {detail(copies.first + 3)} for name in expected}
    copies.cleaned_to(copies.last + 1)
    assert found() == {name: set() for name in expected}
