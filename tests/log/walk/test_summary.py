"""What a walk over a segment says about it, many batches at a time and one by one: gaps above all."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kafkalog.codec.common.findings import FindingCode, Severity
from kafkalog.codec.native import library
from kafkalog.log import open_partition
from kafkalog.log.walk.summary import SegmentSummary, summarize
from testkit.made import damage


def summary_of(directory: Path, batches: list[bytes], base: int) -> SegmentSummary:
    directory.mkdir(parents=True)
    (directory / f"{base:020}.log").write_bytes(b"".join(batches))
    (segment,) = open_partition(directory).segments
    return summarize(segment)


@pytest.mark.compiled
@pytest.mark.parametrize("by_columns", [True, False], ids=["columns", "one by one"])
@pytest.mark.parametrize("seed", range(12))
def test_gaps_are_told_one_by_one_and_hide_nothing(
    seed: int, by_columns: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As compaction leaves them: before the first batch, between batches, and where a run of columns begins anew."""
    monkeypatch.setattr(library, "is_there", lambda: by_columns)
    choose = random.Random(seed)
    base, offset = 100, 100 + choose.choice([0, 5])
    batches, expected, before = [], [], None
    for _ in range(choose.choice([1, 40, 300])):
        count = choose.choice([1, 1, 3])
        if before is not None and offset > before + 1:
            expected.append((sum(map(len, batches)), offset, f"offsets {before + 1} to {offset - 1} are not there"))
        batches.append(damage.batch(offset, [damage.record(number) for number in range(count)]))
        before = offset + count - 1
        offset = before + 1 + choose.choice([0, 0, 0, 1, 9])
    found = summary_of(tmp_path / "t-0", batches, base)
    gaps = [each for each in found.findings if each.code is FindingCode.OFFSET_GAP]
    assert [(each.position, each.offset, each.detail) for each in gaps] == expected
    assert {each.severity for each in found.findings} <= {Severity.INFO}
    assert bool(found.gaps) is bool(expected)
    assert (found.batches, found.last_offset, found.valid_bytes) == (len(batches), before, sum(map(len, batches)))


@pytest.mark.compiled
@pytest.mark.parametrize("by_columns", [True, False], ids=["columns", "one by one"])
def test_the_offsets_of_a_displaced_batch_are_not_missing(
    by_columns: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "is_there", lambda: by_columns)
    batches = [damage.batch(offset, [damage.record(0)]) for offset in (0, 1, 2, 5, 6, 7, 8, 10, 11)]
    batches[4] = damage.put(batches[4], "base_offset", 1)
    findings = summary_of(tmp_path / "t-0", batches, 0).findings
    gaps = [each.detail for each in findings if each.code is FindingCode.OFFSET_GAP]
    assert gaps == ["offsets 3 to 4 are not there", "offsets 9 to 9 are not there"]
    assert [each.offset for each in findings if each.code is FindingCode.OFFSET_DISPLACED] == [6]


@pytest.mark.compiled
@pytest.mark.parametrize("by_columns", [True, False], ids=["columns", "one by one"])
def test_a_displaced_batch_among_gaps_moves_no_end(
    by_columns: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "is_there", lambda: by_columns)
    at = [0, 1, 2, 3, 5, 7, 9, 10]
    batches = [damage.batch(offset, [damage.record(0)]) for offset in at]
    batches[4] = damage.put(batches[4], "base_offset", 1000)
    found = summary_of(tmp_path / "t-0", batches, 0)
    displaced = [each for each in found.findings if each.code is FindingCode.OFFSET_DISPLACED]
    assert [(each.severity, each.offset) for each in displaced] == [(Severity.ERROR, 4)]
    assert found.last_offset == 10
    assert found.batches == len(at)


@pytest.mark.compiled
@pytest.mark.parametrize("by_columns", [True, False], ids=["columns", "one by one"])
def test_gaps_are_in_order_where_a_run_begins_with_one(
    by_columns: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch of an unknown compression ends a run of columns, and the next run begins with a gap."""
    monkeypatch.setattr(library, "is_there", lambda: by_columns)
    at = [*range(10), 15, 16, 22, 23]
    batches = [damage.batch(offset, [damage.record(0)]) for offset in at]
    batches[9] = damage.with_crc(damage.put(batches[9], "attributes", 5))
    found = summary_of(tmp_path / "t-0", batches, 0)
    assert [each.offset for each in found.findings if each.code is FindingCode.OFFSET_GAP] == [15, 22]
    assert found.gaps == ((9, 15), (16, 22))
