"""Batches and messages whose bytes Kafka's own classes gave: read, and written again."""

from __future__ import annotations

import struct
import zlib

import pytest

from kafkalog.codec import BatchHeader, Codec, Header, LegacyHeader, Record, RecordBatch, TimestampType, scan
from kafkalog.codec.encode import (
    ProducerState,
    build_batch,
    build_end_transaction_marker,
    build_messages,
    empty_batch,
    encode_raw_batch,
    encode_raw_message,
    read_raw_batch,
    read_raw_message,
)
from kafkalog.codec.model import ControlType, EndTransactionMarker
from kafkalog.codec.plain.control import end_transaction_marker
from kafkalog.codec.plain.decoding import PLAIN
from kafkalog.codec.plain.records import decode_batch
from kafkalog.codec.rules.execution import Execution
from testkit.judging.reference_execution import REFERENCE

EXECUTIONS = [pytest.param(REFERENCE, id="reference"), pytest.param(PLAIN, id="plain")]


def data_of(text: str) -> bytes:
    return bytes.fromhex(text)


def record(offset: int, timestamp: int, key: bytes | None, value: bytes | None, *headers: Header) -> Record:
    return Record(offset, timestamp, TimestampType.CREATE_TIME, key, value, headers)


def only(data: bytes, execution: Execution = PLAIN) -> RecordBatch:
    result = scan(data, execution=execution)
    assert result.findings == ()
    (batch,) = result.batches
    assert batch.size == len(data)
    return batch


def shown(batch: RecordBatch, execution: Execution = PLAIN) -> list[tuple[int, int, bytes | None, bytes | None]]:
    decoded = decode_batch(batch, execution=execution)
    assert decoded.finding is None
    return [(found.offset, found.timestamp, found.key, found.value) for found in decoded.records]


# --- two records in every format -------------------------------------------------------------------------------------

TWO = [record(0, 283843, b"key1", b"value1"), record(1, 1234, b"key2", b"value2")]
RAW_TWO = "20 00 00 00 08 6b657931 0c 76616c756531 00   24 00 e1bf22 02 08 6b657932 0c 76616c756532 00"

V0_FIRST = "0000000000000000 00000018 75f0f41d 00 00 00000004 6b657931 00000006 76616c756531"
V1_FIRST = "0000000000000000 00000020 0685b364 01 00 00000000000454c3 00000004 6b657931 00000006 76616c756531"
V2_NONE = f"""0000000000000000 00000055 ffffffff 02 e58cf1ff 0000 00000001 00000000000454c3 00000000000454c3
              ffffffffffffffff ffff ffffffff 00000002 {RAW_TWO}"""
V0_LZ4 = """0000000000000001 00000056 03fd7f3a 00 03 ffffffff 00000048 04224d18 60 40 1a 39000000
            16000100511875f0f41d0f00e0046b6579310000000676616c75650a0000020011012400301bc3a60d00012400b0320000000676616c
            756532 00000000"""
V1_LZ4 = """0000000000000001 0000006c 53e1bee7 01 03 00000000000454c3 ffffffff 00000056 04224d18 60 40 82 47000000
            1600010062200685b364011000f0050454c3000000046b6579310000000676616c75650a00000200002300502005093005090000020023
            04d22c00b0320000000676616c756532 00000000"""
PAYLOADS = {
    Codec.LZ4: f"04224d18 60 40 82 24000080 {RAW_TWO} 00000000",
    Codec.SNAPPY: f"82534e4150505900 00000001 00000001 00000026 24 8c {RAW_TWO}",
    Codec.ZSTD: f"28b52ffd 00 58 200100 {RAW_TWO} 010000",
}
CRC_OF_V2 = {Codec.LZ4: 2745969314, Codec.SNAPPY: 0xA729E9DF, Codec.ZSTD: 0x3E54590E}


def v2_vector(codec: Codec) -> bytes:
    payload = data_of(PAYLOADS[codec])
    head = struct.pack(">qiibIhiqqqhii", 0, 49 + len(payload), -1, 2, CRC_OF_V2[codec], codec, 1, 283843, 283843,
                       -1, -1, -1, 2)  # fmt: skip
    return head + payload


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("codec", PAYLOADS)
def test_v2_compressed(codec: Codec, execution: Execution) -> None:
    data = v2_vector(codec)
    batch = only(data, execution)
    assert shown(batch, execution) == [(0, 283843, b"key1", b"value1"), (1, 1234, b"key2", b"value2")]
    assert build_batch(TWO, codec=codec) == data
    assert encode_raw_batch(read_raw_batch(batch, execution=execution)) == data


def test_lengths_of_the_compressed_v2_batches() -> None:
    assert struct.unpack_from(">i", v2_vector(Codec.LZ4), 8) == (0x64,)
    assert struct.unpack_from(">i", v2_vector(Codec.ZSTD), 8) == (0x61,)


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_v2_plain(execution: Execution) -> None:
    data = data_of(V2_NONE)
    batch = only(data, execution)
    assert batch.header.crc == 3851219455
    assert shown(batch, execution) == [(0, 283843, b"key1", b"value1"), (1, 1234, b"key2", b"value2")]
    assert build_batch(TWO) == data
    assert encode_raw_batch(read_raw_batch(batch, execution=execution)) == data


@pytest.mark.parametrize(
    ("magic", "first", "crc"), [(0, V0_FIRST, 1978725405), (1, V1_FIRST, 109425508)], ids=["v0", "v1"]
)
@pytest.mark.parametrize("execution", EXECUTIONS)
def test_bare_messages(magic: int, first: str, crc: int, execution: Execution) -> None:
    written = build_messages(TWO, magic=magic)
    assert written.startswith(data_of(first))
    result = scan(written, execution=execution)
    assert result.findings == ()
    assert result.batches[0].header.crc == crc
    times = (283843, 1234) if magic else (-1, -1)
    assert [shown(batch, execution) for batch in result.batches] == [
        [(0, times[0], b"key1", b"value1")],
        [(1, times[1], b"key2", b"value2")],
    ]
    assert b"".join(encode_raw_message(read_raw_message(batch)) for batch in result.batches) == written


@pytest.mark.parametrize(("magic", "text", "crc"), [(0, V0_LZ4, 66944826), (1, V1_LZ4, 1407303399)], ids=["v0", "v1"])
@pytest.mark.parametrize("execution", EXECUTIONS)
def test_wrapper_messages(magic: int, text: str, crc: int, execution: Execution) -> None:
    data = data_of(text)
    batch = only(data, execution)
    assert isinstance(batch.header, LegacyHeader)
    assert (batch.header.crc, batch.header.codec, batch.header.offset) == (crc, Codec.LZ4, 1)
    times = (283843, 1234) if magic else (-1, -1)
    assert shown(batch, execution) == [(0, times[0], b"key1", b"value1"), (1, times[1], b"key2", b"value2")]
    raw = read_raw_message(batch, execution=execution)
    assert encode_raw_message(raw) == data
    assert [message.header.crc for message in raw.inner] == [
        zlib.crc32(build_messages([one], magic=magic)[16:]) for one in TWO
    ]
    # another lz4 library may find other matches, so what is rewritten is compared after decompression
    ours = only(build_messages(TWO, magic=magic, codec=Codec.LZ4), execution)
    assert read_raw_message(ours).inner == raw.inner
    assert ours.data[16 : 30 if magic else 22] == data[16 : 30 if magic else 22]  # magic to the null key
    assert bytes(ours.data)[-4:] == bytes(4)


# --- what is special in v2 ------------------------------------------------------------------------------------------

NULLS_AND_HEADERS = """0000000000000064 0000004a 00000007 02 37fb47b3 0000 00000001 00000000000003e8 00000000000003e8
    000000000000002a 0003 0000000a 00000002
    1e 00 00 00 01 01 04 04 6831 02 01 04 6832 01    10 00 c701 02 02 6b 00 00"""
COMMIT = """0000000000000005 00000042 00000007 02 2f182b27 0030 00000000 00000000000003e8 00000000000003e8
    000000000000002a 0003 ffffffff 00000001 20 00 00 00 08 0000 0001 0c 0000 00000009 00"""
ABORT = COMMIT.replace("2f182b27", "db26fd6f").replace("0000 0001 0c", "0000 0000 0c")
EMPTY = """0000000000000064 00000031 00000007 02 dcccf35a 0010 00000004 ffffffffffffffff 00000000000003e8
    000000000000002a 0003 0000000a 00000000"""
HORIZON = """0000000000000064 00000044 00000005 02 0a347558 0040 00000002 0000000000001770 00000000000003f2
    ffffffffffffffff ffff ffffffff 00000002 10 00 854e 02 02 62 01 00    12 00 fb4d 04 02 61 02 32 00"""
APPEND_TIME = """000000000000000a 00000043 ffffffff 02 aaa755a3 0008 00000001 00000000000003e8 0000000000001e61
    ffffffffffffffff ffff ffffffff 00000002 10 00 00 00 02 6b 02 76 00   10 00 02 02 02 6b 02 77 00"""

PRODUCER = ProducerState(producer_id=42, producer_epoch=3, base_sequence=10)
SPECIALS = [NULLS_AND_HEADERS, COMMIT, ABORT, EMPTY, HORIZON, APPEND_TIME]


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("text", SPECIALS, ids=["nulls", "commit", "abort", "empty", "horizon", "append-time"])
def test_what_is_read_is_written_again(text: str, execution: Execution) -> None:
    data = data_of(text)
    assert encode_raw_batch(read_raw_batch(only(data, execution), execution=execution)) == data


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_nulls_headers_and_sequences(execution: Execution) -> None:
    data = data_of(NULLS_AND_HEADERS)
    batch = only(data, execution)
    first, second = decode_batch(batch, execution=execution).records
    headers = (Header("h1", b"\x01"), Header("h2", None))
    assert first == Record(100, 1000, TimestampType.CREATE_TIME, None, None, headers, 10, 7)
    assert second == Record(101, 900, TimestampType.CREATE_TIME, b"k", b"", (), 11, 7)
    assert build_batch([first, second], producer=PRODUCER, partition_leader_epoch=7) == data


@pytest.mark.parametrize(("text", "kind"), [(COMMIT, ControlType.COMMIT), (ABORT, ControlType.ABORT)])
def test_transaction_markers(text: str, kind: ControlType) -> None:
    data = data_of(text)
    assert len(data) == 78
    batch = only(data)
    assert batch.header.is_control
    assert batch.header.is_transactional
    (marker,) = decode_batch(batch).records
    assert end_transaction_marker(marker) == EndTransactionMarker(kind, 9)
    assert data == build_end_transaction_marker(
        EndTransactionMarker(kind, 9),
        base_offset=5,
        timestamp=1000,
        producer_id=42,
        producer_epoch=3,
        partition_leader_epoch=7,
    )


def test_an_emptied_batch() -> None:
    data = data_of(EMPTY)
    batch = only(data)
    assert isinstance(batch.header, BatchHeader)
    assert (batch.header.base_offset, batch.header.last_offset, batch.header.records_count) == (100, 104, 0)
    assert (batch.header.base_timestamp, batch.header.max_timestamp, batch.header.next_offset) == (-1, 1000, 105)
    assert decode_batch(batch).records == ()
    transactional = ProducerState(producer_id=42, producer_epoch=3, base_sequence=10, is_transactional=True)
    assert empty_batch(100, 104, max_timestamp=1000, producer=transactional, partition_leader_epoch=7) == data


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_a_delete_horizon(execution: Execution) -> None:
    data = data_of(HORIZON)
    batch = only(data, execution)
    assert batch.header.delete_horizon_ms == 6000
    assert shown(batch, execution) == [(101, 1005, b"b", None), (102, 1010, b"a", b"2")]
    kept = [record(101, 1005, b"b", None), record(102, 1010, b"a", b"2")]
    assert build_batch(kept, base_offset=100, last_offset=102, delete_horizon_ms=6000, partition_leader_epoch=5) == data


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_log_append_time(execution: Execution) -> None:
    data = data_of(APPEND_TIME)
    batch = only(data, execution)
    assert batch.header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert shown(batch, execution) == [(10, 7777, b"k", b"v"), (11, 7777, b"k", b"w")]
    produced = [record(10, 1000, b"k", b"v"), record(11, 1001, b"k", b"w")]
    assert build_batch(produced, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=7777) == data
