"""The same rows and the same complaint of any bytes, whoever reads; a small part of the sweep's pairs each time."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

import damage
import reading_pairs
from kafkalog.codec.findings import FindingCode, Severity
from kafkalog.log import open_partition


@pytest.mark.parametrize("first", [0, 1000])
def test_pairs_of_a_damaged_log_and_a_reader(first: int) -> None:
    wrong: list[str] = []
    counts = reading_pairs.run(range(first, first + 60), wrong.append)
    assert wrong == []
    assert counts["pairs"] >= 200


DATA = damage.Header(attributes=0x10, producer_id=7, producer_epoch=0, base_sequence=0)


def transaction(first: int, *, commit: bool) -> list[bytes]:
    batches = [damage.batch(first + number, [damage.record(0)], DATA) for number in range(4)]
    return [*batches, damage.marker(first + 4, 7, 0, commit=commit)]


def partition_of(path: Path, batches: list[bytes], listed: tuple[int, int, int] | None = None) -> Path:
    directory = path / "t-0"
    directory.mkdir()
    (directory / f"{0:020}.log").write_bytes(b"".join(batches))
    if listed is not None:
        entry = struct.pack(">hqqqq", 0, *listed, listed[2] + 1)
        (directory / f"{0:020}.txnindex").write_bytes(entry)
    return directory


def broken(batch: bytes) -> bytes:
    return batch[:-1] + bytes([batch[-1] ^ 1])


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("damaged", [4, 6])
def test_a_transaction_whose_end_lies_behind_damage_is_undecided(commit: bool, damaged: int, tmp_path: Path) -> None:
    """As one that is open it would be held back without a word, and all that was committed after it with it."""
    plain = [damage.batch(number, [damage.record(0)]) for number in range(10, 20)]
    batches = [*transaction(0, commit=commit), *transaction(5, commit=True), *plain]
    batches[damaged] = broken(batches[damaged])
    reader = open_partition(partition_of(tmp_path, batches)).records(isolation_level="read_committed")
    first = 0 if damaged == 4 else 5
    assert [each.offset for each in reader] == ([*range(4)] if damaged == 6 and commit else [])
    assert reader.ended_by is not None
    assert (reader.ended_by.code, reader.ended_by.offset) == (FindingCode.TRANSACTION_UNDECIDED, first)
    assert reader.ended_by.severity is Severity.ERROR


def test_one_that_is_open_without_damage_is_held_back_as_by_a_broker(tmp_path: Path) -> None:
    batches = [damage.batch(0, [damage.record(0)]), damage.batch(1, [damage.record(0)], DATA)]
    reader = open_partition(partition_of(tmp_path, batches)).records(isolation_level="read_committed")
    assert [each.offset for each in reader] == [0]
    assert reader.findings == []
    assert reader.ended_by is None


@pytest.mark.parametrize(
    ("listed", "is_decided"),
    [((7, 0, 4), True), ((8, 0, 4), False), ((7, 1, 4), False), ((7, 0, 5), False), (None, False)],
)
def test_an_index_decides_a_damaged_marker_where_all_of_it_fits(
    listed: tuple[int, int, int] | None, is_decided: bool, tmp_path: Path
) -> None:
    batches = transaction(0, commit=False)
    batches[4] = broken(batches[4])
    batches += [damage.batch(number, [damage.record(0)]) for number in range(5, 9)]
    directory = partition_of(tmp_path, batches, listed)
    reader = open_partition(directory).records(isolation_level="read_committed")
    assert [each.offset for each in reader] == []
    assert reader.ended_by is not None
    wanted = FindingCode.CRC_MISMATCH if is_decided else FindingCode.TRANSACTION_UNDECIDED
    assert reader.ended_by.code is wanted
