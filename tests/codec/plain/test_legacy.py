"""Messages of magic 0 and 1 and the sets that wrappers hold: the special cases, and what cannot be read."""

from __future__ import annotations

import struct

import pytest
from msgspec.structs import replace

from kafkalog.codec import (
    DEFAULT_LIMITS,
    FindingCode,
    FormatError,
    Limits,
    RecordBatch,
    TimestampType,
    decode_batch,
    scan,
)
from kafkalog.codec.compression import compress
from kafkalog.codec.plain.decoding import PLAIN
from kafkalog.codec.plain.legacy import first_offset
from kafkalog.codec.rules.execution import Execution
from testkit.judging.reference_execution import REFERENCE
from testkit.made.batches import GZIP, LOG_APPEND_TIME, LZ4, SNAPPY, ZSTD, fix_crc, message, patch

EXECUTIONS = [pytest.param(REFERENCE, id="reference"), pytest.param(PLAIN, id="plain")]
CODECS = [GZIP, SNAPPY, LZ4]


def only(data: bytes) -> RecordBatch:
    (found,) = scan(data).batches
    return found


def wrapper(
    offset: int, inner: bytes, *, magic: int = 1, codec: int = GZIP, attributes: int = 0, timestamp: int = 0
) -> bytes:
    value = compress(codec, inner, magic=magic)
    return message(offset, None, value, magic=magic, attributes=codec | attributes, timestamp=timestamp)


def seen(data: bytes, execution: Execution, limits: Limits = DEFAULT_LIMITS) -> list[tuple[int, int]]:
    decoded = decode_batch(only(data), execution=execution, limits=limits)
    assert decoded.finding is None, decoded.finding
    return [(found.offset, found.timestamp) for found in decoded.records]


def fault(data: bytes, execution: Execution = PLAIN, limits: Limits = DEFAULT_LIMITS) -> FindingCode:
    decoded = decode_batch(only(data), execution=execution, limits=limits)
    assert decoded.finding is not None
    return decoded.finding.code


def inner(*offsets: int, magic: int = 1) -> bytes:
    return b"".join(message(offset, magic=magic, timestamp=100 + offset) for offset in offsets)


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("codec", CODECS)
def test_offsets_inside_a_wrapper(codec: int, execution: Execution) -> None:
    assert seen(wrapper(9, inner(0, 1, 2), codec=codec), execution) == [(7, 100), (8, 101), (9, 102)]
    absolute = wrapper(9, inner(7, 8, 9, magic=0), magic=0, codec=codec)
    assert seen(absolute, execution) == [(7, -1), (8, -1), (9, -1)]


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_gaps_of_compaction_stay(execution: Execution) -> None:
    assert seen(wrapper(9, inner(0, 4)), execution) == [(5, 100), (9, 104)]
    assert seen(wrapper(9, inner(3, 4)), execution) == [(8, 103), (9, 104)]


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_wrapper_offset_zero_means_absolute(execution: Execution) -> None:
    assert seen(wrapper(0, inner(0, 1, 2)), execution) == [(0, 100), (1, 101), (2, 102)]


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_a_wrapper_below_its_last_message_is_invalid(execution: Execution) -> None:
    assert fault(wrapper(1, inner(0, 1, 2)), execution) is FindingCode.MESSAGE_INVALID
    assert seen(wrapper(2, inner(0, 1, 2)), execution) == [(0, 100), (1, 101), (2, 102)]


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_append_time_is_the_wrappers(execution: Execution) -> None:
    data = wrapper(2, inner(0, 1, 2), attributes=LOG_APPEND_TIME, timestamp=777)
    assert seen(data, execution) == [(0, 777), (1, 777), (2, 777)]
    assert {found.timestamp_type for found in decode_batch(only(data)).records} == {TimestampType.LOG_APPEND_TIME}


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_the_type_is_always_the_wrappers(execution: Execution) -> None:
    stamped = message(0, attributes=LOG_APPEND_TIME, timestamp=5)
    (found,) = decode_batch(only(wrapper(3, stamped)), execution=execution).records
    assert (found.timestamp_type, found.timestamp) == (TimestampType.CREATE_TIME, 5)


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_messages_of_another_magic_inside(execution: Execution) -> None:
    assert seen(wrapper(1, inner(0, magic=0) + inner(1)), execution) == [(0, -1), (1, 101)]
    assert seen(wrapper(1, inner(0) + inner(1), magic=0), execution) == [(0, 100), (1, 101)]


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_bare_messages(execution: Execution) -> None:
    (found,) = decode_batch(only(message(4, None, b"", timestamp=-1)), execution=execution).records
    assert (found.offset, found.timestamp, found.key, found.value) == (4, -1, None, b"")
    (found,) = decode_batch(only(message(4, b"", None, magic=0)), execution=execution).records
    assert (found.timestamp_type, found.key, found.value) == (TimestampType.NO_TIMESTAMP_TYPE, b"", None)
    (found,) = decode_batch(only(message(4, attributes=LOG_APPEND_TIME, timestamp=9)), execution=execution).records
    assert (found.timestamp_type, found.timestamp) == (TimestampType.LOG_APPEND_TIME, 9)


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_a_broken_last_message_ends_the_set(execution: Execution) -> None:
    whole = inner(0, 1)
    for cut in range(1, len(inner(2))):
        assert len(seen(wrapper(5, whole + inner(2)[:cut]), execution)) == 2
    assert seen(wrapper(5, whole + inner(2)), execution) == [(3, 100), (4, 101), (5, 102)]


LENGTH = struct.Struct(">i")
INVALID: dict[str, bytes] = {
    "a key past the end": message(body=LENGTH.pack(50) + bytes(4)),
    "a value past the end": message(body=LENGTH.pack(-1) + LENGTH.pack(50)),
    "no value length": message(body=LENGTH.pack(-1)),
    "a key length that ends early": message(body=bytes(3), magic=0) + bytes(0),
    "a largest key length": message(body=LENGTH.pack(2**31 - 1) + bytes(4)),
    "a wrapper without a value": message(3, None, None, attributes=GZIP),
    "a wrapper that holds nothing": wrapper(3, b""),
    "a wrapper that holds half a message": wrapper(3, inner(0)[:20]),
    "an inner size of 13": wrapper(3, patch(inner(0), 8, LENGTH.pack(13))),
    "a negative inner size": wrapper(3, patch(inner(0), 8, LENGTH.pack(-1))),
    "a wrapper in a wrapper": wrapper(3, wrapper(0, inner(0))),
    "a wrapper in a wrapper, magic 0": wrapper(3, wrapper(0, inner(0, magic=0), magic=0), magic=0),
    "inner magic 2": wrapper(3, patch(inner(0), 16, b"\x02")),
    "inner magic -1": wrapper(3, patch(inner(0), 16, b"\xff")),
    "an inner key past the end": wrapper(3, message(body=LENGTH.pack(50) + bytes(4))),
}


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("name", [name for name in INVALID if "ends early" not in name])
def test_messages_that_cannot_be_read(name: str, execution: Execution) -> None:
    assert fault(INVALID[name], execution) is FindingCode.MESSAGE_INVALID


def test_the_smallest_message_of_magic_1_has_no_room_for_its_lengths() -> None:
    data = fix_crc(struct.pack(">qiIbbq", 5, 14, 0, 1, 0, 0))
    assert fault(data) is FindingCode.MESSAGE_INVALID  # its checksum is right, so a walk goes on after it


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [ZSTD, 5, 6, 7])
def test_compressions_that_old_messages_must_not_use(codec: int, magic: int) -> None:
    assert fault(message(value=b"x", magic=magic, attributes=codec)) is FindingCode.CODEC_UNKNOWN


@pytest.mark.parametrize("codec", CODECS)
def test_a_stream_that_is_none(codec: int) -> None:
    assert fault(message(3, None, b"\xff" * 30, attributes=codec)) is FindingCode.DECOMPRESSION_FAILED


@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrong_checksum_of_an_inner_message_is_a_fault_as_for_consumers(magic: int) -> None:
    """`AbstractLegacyRecordBatch.ensureValid` compares the wrapper's; `CompletedFetch` that of each record."""
    assert fault(wrapper(5, patch(inner(0, magic=magic), 12, b"\xde\xad\xbe\xef"))) is FindingCode.MESSAGE_INVALID


def test_lz4_headers_with_the_historic_checksum() -> None:
    good = compress(LZ4, inner(0, magic=0), magic=1)
    historic = compress(LZ4, inner(0, magic=0), magic=0)
    assert (good[6], historic[6]) == (0x82, 0x1A)
    for value in (good, historic, patch(good, 6, b"\x00")):
        assert seen(message(0, None, value, magic=0, attributes=LZ4), PLAIN) == [(0, -1)]
    for value in (historic, patch(good, 6, b"\x00")):
        assert fault(message(0, None, value, magic=1, attributes=LZ4)) is FindingCode.DECOMPRESSION_FAILED


def test_caps_hold_inside_wrappers() -> None:
    data = wrapper(3, inner(0, 1, 2, 3))
    assert fault(data, limits=replace(DEFAULT_LIMITS, records_per_batch=3)) is FindingCode.LIMIT_EXCEEDED
    assert len(seen(data, PLAIN, replace(DEFAULT_LIMITS, records_per_batch=4))) == 4
    size = len(inner(0, 1, 2, 3))
    assert fault(data, limits=replace(DEFAULT_LIMITS, decompressed_batch_bytes=size - 1)) is FindingCode.LIMIT_EXCEEDED
    assert len(seen(data, PLAIN, replace(DEFAULT_LIMITS, decompressed_batch_bytes=size))) == 4


def test_the_first_offset_of_an_entry_needs_its_content() -> None:
    assert first_offset(only(wrapper(9, inner(0, 1, 2))), DEFAULT_LIMITS, PLAIN) == 7
    assert first_offset(only(message(9)), DEFAULT_LIMITS, PLAIN) == 9
    with pytest.raises(FormatError) as caught:
        first_offset(only(wrapper(3, b"")), DEFAULT_LIMITS, PLAIN)
    assert caught.value.code == FindingCode.MESSAGE_INVALID
