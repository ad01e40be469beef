"""From a batch to its records: what comes after a valid checksum and still cannot be read, and where."""

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
    decode_batch,
    iter_records,
    scan,
)
from kafkalog.codec.compression import compress
from kafkalog.codec.model import ControlRecordType
from kafkalog.codec.plain.control import end_transaction_marker, parse_control_key
from kafkalog.codec.plain.decoding import PLAIN
from kafkalog.codec.rules.execution import Execution
from testkit.judging.reference_execution import REFERENCE
from testkit.made.batches import GZIP, LZ4, SNAPPY, ZSTD, batch, record, records_batch, sized, varint

EXECUTIONS = [pytest.param(REFERENCE, id="reference"), pytest.param(PLAIN, id="plain")]


def only(data: bytes) -> RecordBatch:
    (found,) = scan(data).batches
    return found


def whole(body: bytes, length: int | None = None) -> bytes:
    """A record whose body is written out, under its own or another length."""
    return varint(len(body) if length is None else length) + body


HEAD = b"\x00\x00\x00"  # attributes, timestamp delta, offset delta
K, V = sized(b"k"), sized(b"v")
FIRST = record(0)

# payload -> code, position after the batch header, records read before
FAULTS: dict[str, tuple[bytes, FindingCode, int, int]] = {
    "no second record": (FIRST, FindingCode.RECORD_TRUNCATED, len(FIRST), 1),
    "a length that ends early": (FIRST + b"\x80", FindingCode.RECORD_TRUNCATED, len(FIRST), 1),
    "a length longer than 5 bytes": (FIRST + b"\x80" * 5 + b"\x00", FindingCode.VARINT_TOO_LONG, len(FIRST), 1),
    "a negative length": (FIRST + varint(-1), FindingCode.RECORD_LENGTH_MISMATCH, len(FIRST), 1),
    "a length past the end": (FIRST + varint(100) + bytes(9), FindingCode.RECORD_TRUNCATED, len(FIRST), 1),
    "a length of zero": (FIRST + varint(0), FindingCode.RECORD_TRUNCATED, len(FIRST) + 1, 1),
    "nothing but attributes": (FIRST + whole(b"\x00"), FindingCode.RECORD_TRUNCATED, len(FIRST) + 2, 1),
    "an endless timestamp": (
        FIRST + whole(b"\x00" + b"\x80" * 10 + b"\x00"), FindingCode.VARINT_TOO_LONG, len(FIRST) + 2, 1,
    ),
    "an endless offset": (
        FIRST + whole(b"\x00\x00" + b"\x80" * 5 + b"\x00"), FindingCode.VARINT_TOO_LONG, len(FIRST) + 3, 1,
    ),
    "a key past the record": (
        FIRST + whole(HEAD + varint(50) + bytes(4)), FindingCode.RECORD_TRUNCATED, len(FIRST) + 4, 1,
    ),
    "a value past the record": (
        FIRST + whole(HEAD + K + varint(50) + b"x" + varint(0)), FindingCode.RECORD_TRUNCATED, len(FIRST) + 6, 1,
    ),
    "a negative header count": (
        FIRST + whole(HEAD + K + V + varint(-1)), FindingCode.HEADER_COUNT_INVALID, len(FIRST) + 8, 1,
    ),
    "more headers than bytes": (
        FIRST + whole(HEAD + K + V + varint(2) + bytes(3)), FindingCode.HEADER_COUNT_INVALID, len(FIRST) + 8, 1,
    ),
    "a header without a key": (
        FIRST + whole(HEAD + K + V + varint(1) + varint(-1) + varint(-1)), FindingCode.HEADER_KEY_INVALID,
        len(FIRST) + 9, 1,
    ),
    "a header key past the record": (
        FIRST + whole(HEAD + K + V + varint(1) + varint(9) + b"h"), FindingCode.RECORD_TRUNCATED, len(FIRST) + 9, 1,
    ),
    "a body longer than its fields": (
        FIRST + whole(HEAD + K + V + varint(0) + b"?"), FindingCode.RECORD_LENGTH_MISMATCH, len(FIRST) + 9, 1,
    ),
    "bytes after the last record": (
        FIRST + record(1) + b"?", FindingCode.RECORDS_TRAILING_BYTES, 2 * len(FIRST), 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("name", FAULTS)
def test_faults_in_a_plain_batch(name: str, execution: Execution) -> None:
    payload, code, position, before = FAULTS[name]
    decoded = decode_batch(only(batch(payload, 2, base_offset=7)), execution=execution)
    assert decoded.finding is not None
    assert (decoded.finding.code, decoded.finding.position, decoded.finding.offset) == (code, 61 + position, 7)
    assert [found.offset for found in decoded.records] == list(range(7, 7 + before))


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("name", FAULTS)
def test_the_same_faults_in_a_compressed_batch(name: str, codec: int, execution: Execution) -> None:
    payload, code, position, before = FAULTS[name]
    data = records_batch(record()) + batch(compress(codec, payload), 2, attributes=codec, base_offset=1)
    second = scan(data).batches[1]
    decoded = decode_batch(second, execution=execution)
    assert decoded.finding is not None
    assert (decoded.finding.code, decoded.finding.position) == (code, second.position)
    assert f"byte {position} of" in decoded.finding.detail
    assert len(decoded.records) == before


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_no_declared_record_means_none_is_read(execution: Execution) -> None:
    assert decode_batch(only(batch(b"whatever", 0)), execution=execution).records == ()
    assert decode_batch(only(batch(b"whatever", 0)), execution=execution).finding is None


@pytest.mark.parametrize(
    ("count", "code"), [(-1, FindingCode.RECORDS_COUNT_INVALID), (2**31 - 1, FindingCode.LIMIT_EXCEEDED)]
)
def test_counts_that_cannot_be(count: int, code: FindingCode) -> None:
    decoded = decode_batch(only(batch(record(), count, last_offset_delta=0)))
    assert decoded.finding is not None
    assert decoded.finding.code is code


def test_more_records_than_there_are_bytes_end_where_the_bytes_end() -> None:
    decoded = decode_batch(only(batch(record() * 3, 1_000_000)))
    assert decoded.finding is not None
    assert (decoded.finding.code, len(decoded.records)) == (FindingCode.RECORD_TRUNCATED, 3)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_compression_is_a_finding(codec: int) -> None:
    decoded = decode_batch(only(batch(record(), 1, attributes=codec)))
    assert decoded.finding is not None
    assert decoded.finding.code is FindingCode.CODEC_UNKNOWN


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_stream_that_is_none_is_a_finding(codec: int) -> None:
    decoded = decode_batch(only(batch(b"\xff" * 40, 1, attributes=codec)))
    assert decoded.finding is not None
    assert decoded.finding.code is FindingCode.DECOMPRESSION_FAILED


def limited(**caps: int) -> Limits:
    return replace(DEFAULT_LIMITS, **caps)


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("codec", [0, GZIP, SNAPPY, LZ4, ZSTD])
def test_caps_on_the_size_of_a_batch(codec: int, execution: Execution) -> None:
    payload = record(value=bytes(5000))
    found = only(batch(compress(codec, payload), 1, attributes=codec))
    exact = limited(decompressed_batch_bytes=len(payload))
    assert decode_batch(found, limits=exact, execution=execution).finding is None
    decoded = decode_batch(found, limits=limited(decompressed_batch_bytes=len(payload) - 1), execution=execution)
    assert decoded.finding is not None
    assert decoded.finding.code is FindingCode.LIMIT_EXCEEDED
    assert decoded.records == ()


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_caps_on_counts(execution: Execution) -> None:
    headers = [(b"", None)] * 3
    found = only(records_batch(record(0), record(1, headers=headers)))
    assert decode_batch(found, limits=limited(headers_per_record=3), execution=execution).finding is None
    decoded = decode_batch(found, limits=limited(headers_per_record=2), execution=execution)
    assert decoded.finding is not None
    assert (decoded.finding.code, len(decoded.records)) == (FindingCode.LIMIT_EXCEEDED, 1)
    decoded = decode_batch(found, limits=limited(records_per_batch=1), execution=execution)
    assert decoded.finding is not None
    assert decoded.finding.code is FindingCode.LIMIT_EXCEEDED


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_any_negative_length_reads_as_null(execution: Execution) -> None:
    body = HEAD + varint(-7) + varint(-(2**31)) + varint(1) + sized(b"h") + varint(-2)
    (found,) = decode_batch(only(batch(whole(body), 1)), execution=execution).records
    assert (found.key, found.value, found.headers[0].value) == (None, None, None)


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_null_and_empty_stay_apart(execution: Execution) -> None:
    data = records_batch(record(0, b"", None), record(1, None, b""))
    first, second = decode_batch(only(data), execution=execution).records
    assert (first.key, first.value, second.key, second.value) == (b"", None, None, b"")


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_headers_keep_order_repeats_and_odd_bytes(execution: Execution) -> None:
    headers = [(b"a", b"1"), (b"a", None), (b"", b""), (b"\xff\xfe", b"2"), ("é".encode(), b"3")]
    (found,) = decode_batch(only(records_batch(record(headers=headers))), execution=execution).records
    assert [(header.key.encode("utf-8", "surrogateescape"), header.value) for header in found.headers] == headers
    assert found.headers[4].key == "é"


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_sequences_wrap_to_zero(execution: Execution) -> None:
    data = batch(record(0) + record(1) + record(2), 3, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)
    assert [found.sequence for found in decode_batch(only(data), execution=execution).records] == [
        2**31 - 2,
        2**31 - 1,
        0,
    ]
    assert only(data).header.last_sequence == 0


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_sums_beyond_64_bits_wrap_as_those_of_java(execution: Execution) -> None:
    data = batch(record(5, timestamp_delta=2**63 - 1), 1, base_offset=2**63 - 1, base_timestamp=2**63 - 1)
    (found,) = decode_batch(only(data), execution=execution).records
    assert (found.offset, found.timestamp) == (-(2**63) + 4, -2)


def test_whoever_asks_for_records_gets_an_error_instead_of_half_of_them() -> None:
    assert [found.offset for found in iter_records(only(records_batch(record(0), record(1))))] == [0, 1]
    with pytest.raises(FormatError) as caught:
        iter_records(only(batch(record(), 2)))
    assert caught.value.code == FindingCode.RECORD_TRUNCATED


@pytest.mark.parametrize(
    "cut", range(len(record(3, b"key", b"value", [(b"h", b"1"), (b"", None)], timestamp_delta=-9)))
)
def test_a_record_cut_at_every_byte_reads_the_same_in_both(cut: int) -> None:
    data = record(3, b"key", b"value", [(b"h", b"1"), (b"", None)], timestamp_delta=-9)
    for piece in (data[:cut], whole(data[1:cut]), data + data[:cut]):
        for count in (1, 2):
            wanted = REFERENCE.records(piece, count, DEFAULT_LIMITS)
            assert PLAIN.records(piece, count, DEFAULT_LIMITS) == wanted
            assert wanted[1] is not None or piece == data


# --- control records -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00", struct.pack(">hh", -1, 0)])
def test_control_keys_that_cannot_be_read(key: bytes | None) -> None:
    with pytest.raises(FormatError) as caught:
        parse_control_key(key)
    assert caught.value.code == FindingCode.CONTROL_RECORD_INVALID


def test_control_keys_may_be_longer_and_newer() -> None:
    assert parse_control_key(struct.pack(">hh", 3, 1) + b"more") == ControlRecordType(3, 1)
    assert ControlRecordType(0, 9).label == "UNKNOWN"
    assert ControlRecordType(0, 6).label == "KRAFT_VOTERS"


@pytest.mark.parametrize("value", [None, b"", bytes(5), struct.pack(">hi", -1, 0)])
def test_marker_values_that_cannot_be_read(value: bytes | None) -> None:
    (found,) = decode_batch(only(records_batch(record(0, struct.pack(">hh", 0, 1), value)))).records
    with pytest.raises(FormatError) as caught:
        end_transaction_marker(found)
    assert caught.value.code == FindingCode.CONTROL_RECORD_INVALID


def test_other_control_records_are_no_markers() -> None:
    (found,) = decode_batch(only(records_batch(record(0, struct.pack(">hh", 0, 9), None)))).records
    assert end_transaction_marker(found) is None
