"""The walk over a copy, many batches at a time and one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.native import library
from kafkalog.copies.copy_walk import CopyWalk
from kafkalog.log import open_partition
from kafkalog.recovery.checks.verify import verify
from testkit.judging.executions import choose_execution
from testkit.made import damage

LAST = 2**63 - 1


@pytest.mark.parametrize("enough", [pytest.param(0, marks=pytest.mark.compiled), 1 << 62])
@pytest.mark.parametrize("behind", [0, 1])
def test_nothing_is_at_the_end_of_all_offsets(
    behind: int, enough: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No record can have the largest number of 64 bits, whatever checksum a batch there has."""
    choose_execution(monkeypatch, enough)
    at = [LAST - 3, LAST - 2, LAST - 1, LAST, *[LAST] * behind]
    batches = [damage.batch(offset, [damage.record(0)]) for offset in at]
    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / f"{LAST - 3:020}.log").write_bytes(b"".join(batches))
    assert library.is_there() is (enough == 0)
    walk = CopyWalk(open_partition(directory).segments)
    offsets = [stretch.row(number).first for stretch in walk for number in range(len(stretch))]
    assert offsets == [LAST - 3, LAST - 2, LAST - 1]
    assert walk.end_offset == LAST
    assert walk.damage is not None
    assert walk.damage.code is FindingCode.OFFSET_ABOVE_SEGMENT


@pytest.mark.parametrize("enough", [pytest.param(0, marks=pytest.mark.compiled), 1 << 62])
def test_nothing_there_is_sound_behind_damage(enough: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choose_execution(monkeypatch, enough)
    monkeypatch.setattr("kafkalog.log.walk.batches.SINGLY", 1)
    batches = [damage.batch(offset, [damage.record(0)]) for offset in range(LAST - 9, LAST + 1)]
    batches[3] = batches[3][:-1] + b"x"
    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / f"{LAST - 9:020}.log").write_bytes(b"".join(batches))
    (report,) = verify(directory).partitions
    assert (report.sound_batches_behind_damage, report.sound_records_behind_damage) == (5, 5)
