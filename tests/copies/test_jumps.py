"""A base offset lies outside its batch's checksum: one that damage has raised makes no copy better or longer."""

from __future__ import annotations

from pathlib import Path

import pytest

import kafkalog.copies.copy_walk as copy_walk
from kafkalog import FindingCode, compare, merge_preview
from kafkalog.codec.plain.scanner import scan
from testkit.made.batches import record, records_batch
from testkit.recorded.fixture_data import broker_case

COUNT = 6
RECORDS = 3


def partition(root: Path, *segments: list[bytes], base: int = 0) -> Path:
    """A copy of t-0 in a directory of its own; segments are named after their first batches' rightful offsets."""
    directory = root / "t-0"
    directory.mkdir(parents=True)
    for segment in segments:
        (directory / f"{base:020}.log").write_bytes(b"".join(segment))
        base += RECORDS * len(segment)
    return directory


def batches(count: int = COUNT) -> list[bytes]:
    """Batches of three records each, of which no two are the same."""
    made = []
    for number in range(count):
        batch = records_batch(*(record(each, value=b"%d" % number) for each in range(RECORDS)))
        made.append(at(batch, number * RECORDS))
    return made


def at(batch: bytes, offset: int) -> bytes:
    """A batch at another offset, which its checksum does not cover."""
    return offset.to_bytes(8, "big") + batch[8:]


@pytest.fixture(params=[pytest.param("columns", marks=pytest.mark.compiled), "batches"], autouse=True)
def execution(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of reading give the same."""
    monkeypatch.setattr(copy_walk, "is_there", lambda: request.param == "columns")
    return str(request.param)


@pytest.mark.parametrize("raised", [40, 5_570_560, 1 << 40])
@pytest.mark.parametrize("number", range(COUNT))
@pytest.mark.parametrize("cut", [COUNT, 3])
def test_a_raised_offset_makes_no_copy_longer(number: int, raised: int, cut: int, tmp_path: Path) -> None:
    """Wherever the batch is: at the beginning or the end of a segment, of a log, or inside."""
    sound = batches()
    wrong = [at(batch, each * RECORDS + raised) if each == number else batch for each, batch in enumerate(sound)]
    damaged = partition(tmp_path / "damaged", *filter(None, (wrong[:cut], wrong[cut:])))
    whole = partition(tmp_path / "whole", *filter(None, (sound[:cut], sound[cut:])))
    (found,) = compare(damaged, whole).partitions
    assert found.best is not None
    assert found.best.path == str(whole)
    copy = found.copies[0]
    assert copy.damage is not None
    assert copy.damage.file is not None
    assert (copy.damage.offset, copy.damaged_places) == (number * RECORDS + raised, 1)
    assert copy.records == (COUNT - 1) * RECORDS
    assert copy.log_end_offset == COUNT * RECORDS - (RECORDS if number == COUNT - 1 else 0)
    for copies in ([damaged, whole], [whole, damaged]):
        merged = merge_preview(*copies)
        assert (merged.gaps, merged.log_end_offset, merged.records_kept) == ([], COUNT * RECORDS, COUNT * RECORDS)


def test_two_raised_offsets_at_the_end(tmp_path: Path) -> None:
    sound = batches()
    wrong = [*sound[:-2], at(sound[-2], 1 << 20), at(sound[-1], 1 << 21)]
    copies = [partition(tmp_path / "damaged", wrong), partition(tmp_path / "whole", sound)]
    (found,) = compare(*copies).partitions
    assert found.best is not None
    assert found.best.path == str(copies[1])
    merged = merge_preview(*copies)
    assert (merged.gaps, merged.records_kept) == ([], COUNT * RECORDS)


def test_a_raised_offset_of_one_copy_alone_is_told_by_what_follows(tmp_path: Path) -> None:
    """No other copy is there to disprove it: both have lost the batch in the same way."""
    sound = batches()
    wrong = [*sound[:2], at(sound[2], 5_570_560), *sound[3:]]
    copies = [partition(tmp_path / name, wrong) for name in ("one", "two")]
    (found,) = compare(*copies).partitions
    for copy in found.copies:
        assert copy.damage is not None
        assert copy.damage.code is FindingCode.OFFSET_DISPLACED
        assert copy.log_end_offset == COUNT * RECORDS
    assert merge_preview(*copies).gaps == [(6, 8)]


def test_offsets_that_jump_in_every_copy_are_as_they_should_be(tmp_path: Path) -> None:
    """As after compaction, or where a leader went on after offsets that no copy has."""
    sound = [at(batch, 0 if number == 0 else 1000 * number) for number, batch in enumerate(batches())]
    copies = [partition(tmp_path / name, sound) for name in ("one", "two")]
    (found,) = compare(*copies).partitions
    assert found.is_clean
    assert found.copies[0].log_end_offset == 1000 * (COUNT - 1) + RECORDS


def test_the_same_batch_sent_again_is_not_a_jump(tmp_path: Path) -> None:
    """Of equal batches each copy has lost another one."""
    same = batches(1)[0]
    first = [at(same, offset) for offset in (0, 6, 12)]
    second = [at(same, offset) for offset in (3, 9, 15)]
    copies = [partition(tmp_path / "first", first), partition(tmp_path / "second", second)]
    merged = merge_preview(*copies)
    assert (merged.gaps, merged.records_kept) == ([], 6 * RECORDS)


def test_a_recorded_log_with_a_raised_offset(tmp_path: Path) -> None:
    """One flipped byte of a broker's log, in the middle of its first segment."""
    copies = []
    for name in ("damaged", "whole"):
        root = broker_case("4.1.1", "segments").unpack(tmp_path / name) / "broker-12"
        copies.append(root / "orders-23-0")
    log = min(copies[0].glob("*.log"))
    data = bytearray(log.read_bytes())
    batch = scan(bytes(data)).batches[3]
    data[batch.position + 5] = 0x55
    log.write_bytes(data)
    (found,) = compare(*copies).partitions
    assert found.best is not None
    assert found.best.path == str(copies[1])
    assert {copy.last_epoch for copy in found.copies} == {0}
    merged = merge_preview(*copies)
    assert (merged.gaps, merged.log_end_offset, merged.records_kept) == ([], 260, 125)
