"""Index, snapshot and checkpoint files whose bytes Kafka's own classes gave."""

from __future__ import annotations

import pytest

from kafkalog.codec import AbortedTransaction, ProducerEntry, Record, TimestampType, scan
from kafkalog.codec.encode import build_batch
from kafkalog.codec.files.index_files import (
    OffsetEntry,
    TimeEntry,
    decode_offset_index,
    decode_producer_snapshot,
    decode_time_index,
    decode_transaction_index,
    encode_offset_index,
    encode_producer_snapshot,
    encode_time_index,
    encode_transaction_index,
)
from kafkalog.codec.files.text import (
    CleanShutdown,
    LeaderEpoch,
    OffsetCheckpointEntry,
    PartitionMetadata,
    decode_clean_shutdown,
    decode_leader_epochs,
    decode_offset_checkpoint,
    decode_partition_metadata,
    encode_leader_epochs,
    encode_offset_checkpoint,
    encode_partition_metadata,
)

T = 1700000000000


def test_six_batches_and_their_index_entries() -> None:
    times = [T, T - 5, T + 7, T + 3, T + 9, T + 8]
    log = b"".join(
        build_batch([Record(offset, time, TimestampType.CREATE_TIME, None, bytes(3000))])
        for offset, time in enumerate(times)
    )
    batches = scan(log).batches
    assert [batch.size for batch in batches] == [3070] * 6
    position = {batch.last_offset: batch.position for batch in batches}
    entries = decode_offset_index(bytes.fromhex("00000002 000017fc 00000004 00002ff8"))
    assert entries == [OffsetEntry(2, position[2]), OffsetEntry(4, position[4])]
    assert encode_offset_index(entries) == bytes.fromhex("00000002 000017fc 00000004 00002ff8")
    # one append of two batches and one of four: the last offset of the second, the position of its first batch
    (chunked,) = decode_offset_index(bytes.fromhex("00000005 000017fc"))
    assert chunked == OffsetEntry(5, position[2])


def test_time_index() -> None:
    data = bytes.fromhex("0000018bcfe56807 00000002 0000018bcfe56809 00000004")
    assert decode_time_index(data) == [TimeEntry(T + 7, 2), TimeEntry(T + 9, 4)]
    assert encode_time_index([TimeEntry(T + 7, 2), TimeEntry(T + 9, 4)]) == data


def test_transaction_index() -> None:
    data = bytes.fromhex("0000 000000000000002a 0000000000000000 0000000000000003 0000000000000001")
    assert decode_transaction_index(data) == [AbortedTransaction(0, 42, 0, 3, 1)]
    assert encode_transaction_index([AbortedTransaction(0, 42, 0, 3, 1)]) == data


SNAPSHOTS = {
    "0001 48674bc7 00000000": [],
    """0001 829006ba 00000003
    000000000000002a 0001 00000001 0000000000000002 00000000 0000018bcfe56803 00000005 ffffffffffffffff
    000000000000002b 0001 00000000 0000000000000001 00000000 0000018bcfe56804 00000005 ffffffffffffffff
    000000000000002c 0000 00000000 0000000000000005 00000000 0000018bcfe56805 ffffffff 0000000000000005""": [
        ProducerEntry(42, 1, 1, 2, 0, T + 3, 5, -1),
        ProducerEntry(43, 1, 0, 1, 0, T + 4, 5, -1),
        ProducerEntry(44, 0, 0, 5, 0, T + 5, -1, 5),
    ],
    """0001 bafda3de 00000001
    000000000000002a 0002 ffffffff ffffffffffffffff 00000000 0000018bcfe56803 00000005 ffffffffffffffff""": [
        ProducerEntry(42, 2, -1, -1, 0, T + 3, 5, -1),
    ],
}


@pytest.mark.parametrize(("text", "entries"), SNAPSHOTS.items(), ids=["empty", "three", "bumped-epoch"])
def test_producer_snapshots(text: str, entries: list[ProducerEntry]) -> None:
    data = bytes.fromhex(text)
    assert len(data) == 10 + 46 * len(entries)
    assert decode_producer_snapshot(data) == entries
    assert encode_producer_snapshot(entries) == data


def test_text_files() -> None:
    assert decode_clean_shutdown(b'{"version":0,"brokerEpoch":42}') == CleanShutdown(0, 42)
    metadata = PartitionMetadata(0, "AAAAAAAAAAEAAAAAAAAAAg")
    assert decode_partition_metadata(b"version: 0\ntopic_id: AAAAAAAAAAEAAAAAAAAAAg") == metadata
    assert encode_partition_metadata(metadata) == b"version: 0\ntopic_id: AAAAAAAAAAEAAAAAAAAAAg"
    offsets = [OffsetCheckpointEntry("a-b", 1, 7), OffsetCheckpointEntry("c", 0, 9)]
    assert decode_offset_checkpoint(b"0\n2\na-b 1 7\nc 0 9\n") == offsets
    assert encode_offset_checkpoint(offsets) == b"0\n2\na-b 1 7\nc 0 9\n"
    assert decode_leader_epochs(b"0\n2\n3 0\n4 2\n") == [LeaderEpoch(3, 0), LeaderEpoch(4, 2)]
    assert encode_leader_epochs([LeaderEpoch(3, 0), LeaderEpoch(4, 2)]) == b"0\n2\n3 0\n4 2\n"
