"""Index files and producer snapshots: whole, cut at every byte, with more after; and the old fetch results."""

from __future__ import annotations

import random
import struct

import pytest
from crc32c import crc32c
from msgspec.structs import astuple, replace

from kafkalog.codec import (
    DEFAULT_LIMITS,
    AbortedTransaction,
    FindingCode,
    FormatError,
    LimitExceeded,
    ProducerEntry,
    UsageError,
    scan,
)
from kafkalog.codec.files.fetch_result import (
    MessageSetSend,
    decode_message_set_send,
    decode_multi_message_set_send,
    encode_message_set_send,
    encode_multi_message_set_send,
)
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
    used_offset_entries,
    used_time_entries,
)
from testkit.made.batches import message, simple

# What a field may hold, by its `struct` letter: both ends and the middle.
LOWEST, HIGHEST = -(2**63), 2**63 - 1
OFFSETS = [OffsetEntry(0, 100), OffsetEntry(2**31 - 1, 2**31 - 1)]
TIMES = [TimeEntry(LOWEST, 0), TimeEntry(HIGHEST, 2**31 - 1)]
ABORTED = [AbortedTransaction(0, 1, 2, 3, 4), AbortedTransaction(-1, HIGHEST, LOWEST, 0, -1)]


@pytest.mark.parametrize("size", [8])
def test_offset_index(size: int) -> None:
    data = encode_offset_index(OFFSETS)
    assert data == struct.pack(">iiii", 0, 100, 2**31 - 1, 2**31 - 1)
    for end in range(len(data) + 1):
        assert decode_offset_index(data[:end]) == OFFSETS[: end // size]
    assert decode_offset_index(memoryview(data + b"xyz")) == OFFSETS


def test_time_index() -> None:
    data = encode_time_index(TIMES)
    assert data == struct.pack(">qiqi", LOWEST, 0, HIGHEST, 2**31 - 1)
    for end in range(len(data) + 1):
        assert decode_time_index(data[:end]) == TIMES[: end // 12]


def test_transaction_index() -> None:
    data = encode_transaction_index(ABORTED)
    assert data == b"".join(struct.pack(">hqqqq", *astuple(entry)) for entry in ABORTED)
    for end in range(len(data) + 1):
        assert decode_transaction_index(data[:end]) == ABORTED[: end // 34]


@pytest.mark.parametrize(
    ("entries", "used"),
    [
        ([], 0),
        ([(0, 0)], 0),
        ([(0, 0), (0, 0)], 0),
        ([(0, 70), (5, 140)], 2),
        ([(3, 70), (5, 140), (0, 0), (0, 0)], 2),
        ([(3, 70), (3, 140)], 1),
        ([(3, 70), (5, 70)], 1),
        ([(3, 70), (2, 90), (9, 120)], 1),
        ([(-1, 70)], 0),
        ([(5, -3)], 0),
    ],
)
def test_how_many_offset_entries_were_written(entries: list[tuple[int, int]], used: int) -> None:
    assert used_offset_entries([OffsetEntry(*entry) for entry in entries]) == used


@pytest.mark.parametrize(
    ("entries", "used"),
    [
        ([], 0),
        ([(0, 0), (0, 0)], 0),
        ([(5, 0), (0, 0)], 1),
        ([(5, 0), (6, 0), (7, 3), (7, 4)], 3),
        ([(5, 3), (6, 2)], 1),
        ([(-7, 0), (-6, 1)], 2),
    ],
)
def test_how_many_time_entries_were_written(entries: list[tuple[int, int]], used: int) -> None:
    assert used_time_entries([TimeEntry(*entry) for entry in entries]) == used


# --- producer snapshots ----------------------------------------------------------------------------------------------

ENTRIES = [
    ProducerEntry(1, 2, 3, 4, 5, 6, 7, 8),
    ProducerEntry(HIGHEST, -(2**15), -(2**31), LOWEST, 2**31 - 1, -1, -1, -1),
]


def snapshot(
    count: int | None = None, version: int = 1, entries: list[ProducerEntry] = ENTRIES, extra: bytes = b""
) -> bytes:
    body = struct.pack(">i", len(entries) if count is None else count)
    body += b"".join(struct.pack(">qhiqiqiq", *astuple(entry)) for entry in entries) + extra
    return struct.pack(">hI", version, crc32c(body)) + body


def test_producer_snapshots() -> None:
    assert decode_producer_snapshot(snapshot()) == ENTRIES
    assert encode_producer_snapshot(ENTRIES) == snapshot()
    assert decode_producer_snapshot(snapshot(1)) == ENTRIES[:1]  # the checksum holds, and the broker reads one


@pytest.mark.parametrize(
    ("data", "field", "position"),
    [
        (b"", None, 0),
        (snapshot()[:9], None, 0),
        (snapshot(version=0), "version", 0),
        (snapshot(version=2), "version", 0),
        (snapshot()[:-1], "crc", 2),
        (snapshot() + b"\0", "crc", 2),
        (snapshot(3), "count", 6),
        (snapshot(-1), "count", 6),
        (snapshot(2**31 - 1), "count", 6),
    ],
)
def test_producer_snapshots_that_cannot_be_read(data: bytes, field: str | None, position: int) -> None:
    with pytest.raises(FormatError) as caught:
        decode_producer_snapshot(data, source="here")
    error = caught.value
    assert (error.code, error.field, error.position, error.source) == (
        FindingCode.SNAPSHOT_INVALID, field, position, "here",
    )  # fmt: skip


def test_producer_snapshots_cut_at_every_byte_or_with_a_flipped_bit() -> None:
    data = snapshot()
    damaged = [data[:cut] for cut in range(len(data))]
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        damaged.append(bytes(changed))
    for each in damaged:
        with pytest.raises(FormatError):
            decode_producer_snapshot(each)


def test_producer_snapshots_have_a_cap() -> None:
    with pytest.raises(LimitExceeded):
        decode_producer_snapshot(snapshot(), limits=replace(DEFAULT_LIMITS, snapshot_bytes=len(snapshot()) - 1))


# --- fetch results ---------------------------------------------------------------------------------------------------

MESSAGES = message(0) + message(1)


def test_a_fetch_result_counts_what_follows_its_length() -> None:
    data = encode_message_set_send(MessageSetSend(0, MESSAGES))
    assert data == struct.pack(">ih", len(MESSAGES) + 2, 0) + MESSAGES
    send = decode_message_set_send(data)
    assert (send.error_code, bytes(send.messages)) == (0, MESSAGES)
    assert [batch.last_offset for batch in scan(memoryview(send.messages)).batches] == [0, 1]


def test_a_multi_fetch_result_holds_whole_fetch_results() -> None:
    parts = [MessageSetSend(0, MESSAGES), MessageSetSend(1, b""), MessageSetSend(-1, simple())]
    data = encode_multi_message_set_send(parts)
    whole = b"".join(encode_message_set_send(part) for part in parts)
    assert data == struct.pack(">ih", 2 + len(whole), 0) + whole
    assert decode_multi_message_set_send(data) == (0, parts)
    assert decode_multi_message_set_send(encode_multi_message_set_send([], error_code=3)) == (3, [])


def test_fetch_results_cut_at_every_byte_and_longer_ones() -> None:
    single = encode_message_set_send(MessageSetSend(0, MESSAGES))
    multi = encode_multi_message_set_send([MessageSetSend(0, MESSAGES)] * 2)
    for cut in range(len(single)):
        with pytest.raises(FormatError):
            decode_message_set_send(single[:cut])
    for cut in range(len(multi)):
        with pytest.raises(FormatError):
            decode_multi_message_set_send(multi[:cut])
    for data in (single, multi):
        with pytest.raises(FormatError):
            decode_message_set_send(data + b"x")
        with pytest.raises(FormatError):
            decode_multi_message_set_send(data + b"x")


@pytest.mark.parametrize("total", [-1, 0, 1, 2**31 - 1, -(2**31)])
def test_lengths_of_fetch_results_that_cannot_be(total: int) -> None:
    for decode in (decode_message_set_send, decode_multi_message_set_send):
        with pytest.raises(FormatError) as caught:
            decode(struct.pack(">ih", total, 0))
        assert (caught.value.field, caught.value.position) == ("total_length", 0)


def test_a_part_that_reaches_out_of_a_multi_fetch_result() -> None:
    inner = struct.pack(">ih", 50, 0)
    with pytest.raises(FormatError) as caught:
        decode_multi_message_set_send(struct.pack(">ih", 2 + len(inner), 0) + inner)
    assert caught.value.position == 6


def test_error_codes_have_16_bits() -> None:
    with pytest.raises(UsageError):
        encode_message_set_send(MessageSetSend(2**15, b""))


def test_random_bytes_give_entries_or_our_error() -> None:
    choose = random.Random(11)
    decoders = [decode_offset_index, decode_time_index, decode_transaction_index, decode_producer_snapshot,
                decode_message_set_send, decode_multi_message_set_send]  # fmt: skip
    for _ in range(3000):
        data = choose.choice([b"", b"\0\1", b"\0\0\0"]) + choose.randbytes(choose.randrange(100))
        for decode in decoders:
            try:
                decode(data)
            except FormatError as error:
                assert error.message  # noqa: PT017
