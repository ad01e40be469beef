"""Batches whose offsets are not those of their place: what is forecast of them is what becomes of them, and by name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import kafkalog
from kafkalog.codec.common.findings import FindingCode, Severity
from kafkalog.codec.model import BATCH
from kafkalog.log import open_segment
from kafkalog.recovery import Recovery, plan, recover
from kafkalog.recovery.checks.verify import verify
from kafkalog.recovery.damage.bit_repair import Proof
from kafkalog.recovery.decide.ways import RecoveryWay
from testkit.judging.ways_taken import options_of
from testkit.made.tens import flip, log_of_tens, ten
from testkit.recorded.broker_dirs import brokers, own_copy

EPOCH = 3


def log(root: Path, batches: int = 8, segments: int = 1) -> list[Path]:
    """All of it is committed; returns the logs."""
    logs = log_of_tens(root, batches, segments, EPOCH)
    (root / "replication-offset-checkpoint").write_text(f"0\n1\nt 0 {batches * segments * 10}\n")
    return logs


def ways_of(root: Path, **options: object) -> dict[str, RecoveryWay]:
    return {str(way.way): way for way in plan(Recovery(**options), root)[0].choice.ways}  # type: ignore[arg-type]


def offsets(root: Path) -> list[int]:
    return [record.offset for record in kafkalog.open(root)["t", 0].records()]


@pytest.mark.parametrize("batch", [0, 2, 6])
@pytest.mark.parametrize("byte", range(7))
def test_one_wrong_offset_takes_one_batch_at_most(batch: int, byte: int, tmp_path: Path) -> None:
    """A base offset beyond what a segment holds was kept by mode salvage, which left out all that came after it."""
    (path,) = log(tmp_path / "root")
    root, sound = tmp_path / "root", path.read_bytes()
    (root / "t-0" / f"{80:020}.log").touch()
    (root / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 80\n")
    flip(path, (batch, byte, 1))
    ways = ways_of(root)
    best = plan(root)[0].choice.recommended
    assert best is not None
    assert (str(best.way), best.measured.records_lost, best.measured.records_hidden) == ("repair_bits", 0, 0)
    lost = ways["salvage"].measured
    assert (lost.records_kept, lost.records_lost, lost.records_hidden) == (70, 10, 0)
    assert [(each.first, each.last) for each in lost.lost] == [(batch * 10, batch * 10 + 9)], "not what the header says"
    assert lost.below_high_watermark
    other = shutil.copytree(root, tmp_path / "other")
    recover(Recovery(**options_of(ways["salvage"])), other)
    assert offsets(other) == [n for n in range(80) if n // 10 != batch]
    recover(Recovery(**options_of(best)), root)
    assert path.read_bytes() == sound


def test_two_bits_in_batches_that_prove_each_other_are_turned_back_in_one_run(tmp_path: Path) -> None:
    """The batch behind the wrong epoch was damaged itself: what it will be was not asked, and the epoch stayed."""
    (path,) = log(tmp_path / "root")
    root, sound = tmp_path / "root", path.read_bytes()
    epoch = BATCH["partition_leader_epoch"]
    flip(path, (4, BATCH["batch_length"].position + 1, 0x40), (3, epoch.position + epoch.size - 1, 0x40))
    recover(Recovery(repair_bits=Proof.STRUCTURE, accept_loss=True), root)
    assert path.read_bytes() == sound
    assert "67" not in (root / "t-0" / "leader-epoch-checkpoint").read_text()
    assert not plan(Recovery(repair_bits=Proof.STRUCTURE), root)[0].changes


def test_no_offset_is_lost_twice(tmp_path: Path) -> None:
    """Batches below the base of a segment that was renamed, and the gap before it, are the same offsets."""
    logs = log(tmp_path / "root", 3, segments=2)
    logs[1].rename(logs[1].with_name(f"{70:020}.log"))
    for way in plan(tmp_path / "root")[0].choice.ways:
        found = way.measured
        if found.records_lost:
            gone = sum(each.last - each.first + 1 for each in found.lost if each.last is not None)
            assert found.records_lost <= gone, way.way


def test_row_and_ways_agree_where_a_repeated_segment_goes(tmp_path: Path) -> None:
    """The row of the partition said that committed records are lost, and the table of ways that none is. The segment
    that only repeats is removed: empty, it would make the log end at its base offset.
    """
    _first, second = log(tmp_path / "root", segments=2)
    batches = second.read_bytes()
    second.write_bytes(batches + b"\0")
    second.with_name(f"{70:020}.log").write_bytes(batches + b"\1")
    made = plan(Recovery(mode="salvage"), tmp_path / "root")[0]
    (row,) = made.partitions
    assert not row.is_cut_below_high_watermark
    assert made.choice.own.records_lost == 0
    assert made.choice.own.below_high_watermark is None, "the byte behind the last batch may be the rest of another"
    assert row.log_end_offset == 160


def test_a_plan_names_what_it_leaves(tmp_path: Path) -> None:
    """It named what is wrong before the recovery point only where nothing was to be changed."""
    first, _ = log(tmp_path / "root", segments=2)
    parts = [ten(base, EPOCH) for base in range(0, 80, 10)]
    parts[0], parts[3] = parts[3], parts[0]
    first.write_bytes(b"".join(parts))
    root = tmp_path / "root"
    (root / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 100\n")
    checked = {(each.code, each.position) for each in verify(root, deep=False).findings
               if each.severity is Severity.ERROR}  # fmt: skip
    made = plan(root)[0]
    assert made.changes
    assert {code for code, _ in checked} == {FindingCode.OFFSET_DISPLACED}
    assert {(each.code, each.position) for each in made.findings} >= checked


def test_a_segment_of_another_moment_is_not_said_to_have_a_wrong_offset(tmp_path: Path) -> None:
    """What the cleaner replaced is put back beside its output: every base offset is as a broker wrote it."""
    root = own_copy(brokers("4.1.1/compact")[0], tmp_path / "root")
    folder = root / "clicks-0-0"
    replaced = sorted(folder.glob("*.log.deleted"))[1]
    replaced.rename(replaced.with_suffix(""))
    cleaned = min(folder.glob("*.log"))
    *_, last = open_segment(cleaned).batches(on_damage="skip")
    after = sorted(int(path.stem) for path in folder.glob("*.log"))[1]
    assert last.header.first_offset > after
    findings = [each for each in verify(root).findings if each.code is FindingCode.OFFSET_DISPLACED]
    (finding,) = [each for each in findings if (each.file, each.position) == (str(cleaned), last.position)]
    assert f"offset {last.header.first_offset} where" in finding.detail
    assert finding.detail.endswith(
        f"but the next segment begins at {after}: the base offset, which no checksum covers, is wrong, or the segments "
        "are of different moments"
    )


@pytest.mark.parametrize("batch", [2, 7])
def test_a_wrong_offset_names_what_follows_it(batch: int, tmp_path: Path) -> None:
    """A batch in the same segment, or the next segment."""
    path, _ = log(tmp_path / "root", segments=2)
    flip(path, (batch, 6, 1))
    (finding,) = [each for each in verify(tmp_path / "root").findings if each.code is FindingCode.OFFSET_DISPLACED]
    follows = {2: "and 30 follows: its", 7: "but the next segment begins at 80: the"}[batch]
    assert f"offset {batch * 10 + 256} where {batch * 10} should come, {follows} base offset" in finding.detail
