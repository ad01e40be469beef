"""Batches that lie where a copy of another batch of the log lies now, as after a lost or misdirected write: their
offsets are lost, whichever way is taken.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import kafkalog
from kafkalog.codec.common.findings import FindingCode, Severity
from kafkalog.recovery import Recovery, plan, recover
from kafkalog.recovery.checks.verify import verify
from kafkalog.recovery.decide.ways import Measured
from testkit.made.tens import log_of_tens, ten

EPOCH = 3
INDEX_INTERVAL = 4096  # index.interval.bytes


def overwritten(root: Path, at: int, source: int, batches: int = 8, segments: int = 2, *, and_not: int = -1) -> Path:
    """All of the log is committed. The batch at offset `at` has the bytes of the one at `source`, and the batch at
    `and_not` is left out. Returns the log that has it.
    """
    logs = log_of_tens(root, batches, segments, EPOCH)
    (root / "replication-offset-checkpoint").write_text(f"0\n1\nt 0 {batches * segments * 10}\n")
    path = logs[at // (batches * 10)]
    base = int(path.stem)
    path.write_bytes(
        b"".join(
            ten(source if offset == at else offset, EPOCH)
            for offset in range(base, base + batches * 10, 10)
            if offset != and_not
        )
    )
    return path


def counts(root: Path, **options: object) -> dict[str, Measured]:
    return {str(way.way): way.measured for way in plan(Recovery(**options), root)[0].choice.ways}  # type: ignore[arg-type]


def lost(measured: Measured) -> list[tuple[int, int | None]]:
    return [(offsets.first, offsets.last) for offsets in measured.lost]


def offsets_of(root: Path) -> list[int]:
    return [record.offset for record in kafkalog.open(root)["t", 0].records()]


@pytest.mark.parametrize(
    ("at", "source"), [(120, 100), (120, 110), (30, 10), (70, 10), (100, 60), (80, 70)],
    ids=["in a segment", "twice in a row", "first segment", "end of a segment", "other segment", "begin of a segment"],
)  # fmt: skip
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("recovery_point", [0, 80])
def test_no_way_keeps_what_was_overwritten(
    at: int, source: int, full: bool, recovery_point: int, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    overwritten(root, at, source)
    (root / "recovery-point-offset-checkpoint").write_text(f"0\n1\nt 0 {recovery_point}\n")
    ways = counts(root, full=full)
    known = {name: measured for name, measured in ways.items() if measured.records_lost is not None}
    assert {"safe", "salvage"} <= {*known}
    for name, measured in known.items():
        cut_from = 160 if measured.records_kept == 150 else at
        expected = [(at, at + 9)] if cut_from == 160 else [(at, 159)]
        assert (name, lost(measured)) == (name, expected)
        assert measured.records_lost == expected[0][1] - at + 1
        assert measured.records_kept == 160 - measured.records_lost
        assert measured.sound_lost == measured.records_lost - 10
        assert measured.below_high_watermark
        assert measured.is_estimate
    assert ways["salvage"].records_kept == 150
    assert ways["salvage"].sound_lost == 0


def test_plan_names_the_copy_below_the_recovery_point(tmp_path: Path) -> None:
    """It named only what the recovery changes, and said that nothing is lost."""
    root = tmp_path / "root"
    path = overwritten(root, 30, 10)
    (root / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 80\n")
    (error,) = [found for found in verify(root).findings if found.severity is Severity.ERROR]
    made = plan(root)[0]
    position = sum(len(ten(base, EPOCH)) for base in (0, 10, 20))
    assert (error.code, error.file, error.position) == (FindingCode.OFFSET_DISPLACED, str(path), position)
    assert (error.code, f"t-0/{path.name}", position) in {
        (found.code, found.file, found.position) for found in made.findings
    }
    assert made.choice.own.records_lost == 10


def second_index_entry(batches: int) -> int:
    """First offset of the batch of which `LogSegment.recover` makes the second entry of the offset index."""
    entries, since = [], 0
    for base in range(0, batches * 10, 10):
        if since > INDEX_INTERVAL:
            entries.append(base)
            since = 0
        since += len(ten(base, EPOCH))
    return entries[1]


def test_salvage_takes_out_a_copy_at_which_kafka_empties_the_segment(tmp_path: Path) -> None:
    """It cut the log there, as mode safe does."""
    root, at = tmp_path / "root", second_index_entry(80)
    path = overwritten(root, at, 100, 80, 1)
    for index in ("index", "timeindex"):
        path.with_suffix(f".{index}").touch()  # without them the start fails
    ways = counts(root)
    assert {name: (way.records_kept, way.records_lost, way.sound_lost) for name, way in ways.items()} == {
        "safe": (at, 800 - at, 800 - at - 10),
        "salvage": (790, 10, 0),
        "kafka": (0, 800, 790),
    }
    assert [lost(ways[name]) for name in ("safe", "salvage", "kafka")] == [[(at, 799)], [(at, at + 9)], [(0, 799)]]
    recover(Recovery(mode="salvage"), root)
    assert path.read_bytes() == b"".join(ten(base, EPOCH) for base in range(0, 800, 10) if base != at)
    assert offsets_of(root) == [offset for offset in range(800) if not at <= offset < at + 10]


def test_a_second_copy_in_front_of_what_continues_is_no_loss(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (path,) = log_of_tens(root, 8, 1, EPOCH)
    path.write_bytes(b"".join(ten(base, EPOCH) for base in (0, 10, 20, 10, 30, 40, 50, 60, 70)))
    for name, measured in counts(root).items():
        assert (name, measured.records_kept, measured.records_lost, lost(measured)) == (name, 80, 0, [])


def test_a_log_with_other_gaps_may_be_compacted(tmp_path: Path) -> None:
    """Then the gap behind the copy may be of the cleaner."""
    root = tmp_path / "root"
    overwritten(root, 120, 100, and_not=140)
    assert {name: (way.records_lost, lost(way)) for name, way in counts(root).items()} == {
        "safe": (0, []), "kafka": (0, [])
    }  # fmt: skip
