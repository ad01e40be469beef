"""Writing batches and messages: what is refused, what is kept, and conversions between the formats.

What a conversion must give is Kafka's rule, and the bytes are read back by kafka-python, not only by ourselves.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from kafkalog.codec import (
    BatchHeader,
    Codec,
    ControlType,
    EndTransactionMarker,
    FormatError,
    Header,
    LegacyHeader,
    Record,
    RecordBatch,
    TimestampType,
    UsageError,
    decode_batch,
    iter_records,
    parse_end_transaction_marker,
    scan,
)
from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.encode import (
    ProducerState,
    build_batch,
    build_control_batch,
    build_end_transaction_marker,
    build_messages,
    down_convert,
    empty_batch,
    encode_raw_batch,
    encode_raw_message,
    read_raw_batch,
    read_raw_message,
    up_convert,
)
from kafkalog.codec.encode import batch as encode_batch
from kafkalog.codec.encode.columns import build_batches
from kafkalog.codec.encode.records import write_records
from kafkalog.codec.encode.reencode import RawBatch
from kafkalog.codec.layout import record_batch
from kafkalog.codec.model import ControlRecordType
from kafkalog.codec.parsing.reference import build
from kafkalog.codec.rules.execution import RawRecord
from testkit.kafka.peers import kafka_python_reads
from testkit.made.batches import CONTROL, GZIP, LOG_APPEND_TIME, LZ4, SNAPPY, ZSTD, batch, message, simple
from testkit.made.batches import record as raw_record

TYPE = TimestampType.CREATE_TIME
CODECS = list(Codec)
OLD_CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]


def record(
    offset: int, timestamp: int = 1000, key: bytes | None = b"k", value: bytes | None = b"v", *headers: Header
) -> Record:
    return Record(offset, timestamp, TYPE, key, value, headers)


THREE = [record(7, 1000), record(8, 990, None, b""), record(10, 1010, b"", None)]


def only(data: bytes) -> RecordBatch:
    (found,) = scan(data).batches
    return found


def theirs(data: bytes) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """The records as kafka-python reads them."""
    return [(found.offset, found.timestamp, found.key, found.value) for found in kafka_python_reads(data)]


# --- writing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_of_every_compression(codec: Codec) -> None:
    data = build_batch(THREE, codec=codec, base_offset=5, last_offset=12)
    header = only(data).header
    assert isinstance(header, BatchHeader)
    assert (header.base_offset, header.last_offset, header.records_count, header.codec) == (5, 12, 3, codec)
    assert (header.base_timestamp, header.max_timestamp) == (1000, 1010)
    wanted = [(found.offset, found.timestamp, found.key, found.value) for found in THREE]
    assert theirs(data) == wanted
    assert [(found.offset, found.timestamp, found.key, found.value) for found in iter_records(only(data))] == wanted


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", OLD_CODECS)
def test_messages_of_every_compression(codec: Codec, magic: int) -> None:
    data = build_messages(THREE, magic=magic, codec=codec)
    wanted = [(found.offset, found.timestamp if magic else -1, found.key, found.value) for found in THREE]
    ours = [
        (found.offset, found.timestamp, found.key, found.value)
        for each in scan(data).batches
        for found in iter_records(each)
    ]
    assert ours == wanted
    if (codec, magic) != (Codec.LZ4, 0):  # kafka-python needs one more package to read the historic header
        assert theirs(data) == wanted


@pytest.mark.parametrize("codec", OLD_CODECS)
def test_log_append_time_of_messages(codec: Codec) -> None:
    data = build_messages(
        THREE, magic=1, codec=codec, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=5555
    )
    for each in scan(data).batches:
        assert each.header.timestamp_type is TimestampType.LOG_APPEND_TIME
        assert each.header.max_timestamp == 5555
        assert {found.timestamp for found in iter_records(each)} == {5555}
        if codec is not Codec.NONE:
            # the inner messages carry it too (MemoryRecordsBuilder.appendLegacyRecord)
            inner = read_raw_message(each).inner
            assert [(found.header.attributes, found.header.timestamp) for found in inner] == [(8, 5555)] * 3


def test_inner_offsets_are_relative_in_magic_1_only() -> None:
    for magic, wanted in ((0, [7, 8, 10]), (1, [0, 1, 3])):
        inner = read_raw_message(only(build_messages(THREE, magic=magic, codec=Codec.GZIP))).inner
        assert [found.header.offset for found in inner] == wanted


def test_no_message_is_no_bytes() -> None:
    assert build_messages([], magic=1, codec=Codec.GZIP) == b""


@pytest.mark.parametrize(
    "attempt",
    [
        lambda: build_batch([]),
        lambda: build_batch([record(1), record(1)]),
        lambda: build_batch([record(2), record(1)]),
        lambda: build_batch([record(1, -2)]),
        lambda: build_batch([record(1)], codec=5),
        lambda: build_batch([record(1)], base_offset=2),
        lambda: build_batch([record(1), record(2)], last_offset=1),
        lambda: build_batch([record(0), record(2**31)]),
        lambda: build_batch([record(1)], timestamp_type=TimestampType.NO_TIMESTAMP_TYPE),
        lambda: build_batch([record(1)], producer=ProducerState(is_transactional=True)),
        lambda: build_batch([record(1)], producer=ProducerState(producer_id=5, producer_epoch=-1, base_sequence=0)),
        lambda: build_batch([record(1)], producer=ProducerState(producer_id=5, producer_epoch=0, base_sequence=-1)),
        lambda: build_batch([record(1)], partition_leader_epoch=2**31),
        lambda: empty_batch(5, 4, max_timestamp=0),
        lambda: build_messages([record(1)], magic=2),
        lambda: build_messages([record(1)], magic=1, codec=Codec.ZSTD),
        lambda: build_messages([record(1, 0, b"", b"", Header("h", None))], magic=1),
        lambda: build_messages([record(1, -2)], magic=1),
        lambda: build_messages([record(2), record(2)], magic=0),
        lambda: build_messages([record(1)], magic=1, timestamp_type=TimestampType.NO_TIMESTAMP_TYPE),
        lambda: build_end_transaction_marker(
            EndTransactionMarker(ControlType.LEADER_CHANGE, 0),
            base_offset=0,
            timestamp=0,
            producer_id=1,
            producer_epoch=0,
        ),
        lambda: build_end_transaction_marker(
            EndTransactionMarker(ControlType.COMMIT, 2**31), base_offset=0, timestamp=0, producer_id=1, producer_epoch=0
        ),
        lambda: build_control_batch([(ControlRecordType(0, 2**15), b"")], base_offset=0, timestamp=0),
        lambda: up_convert(only(simple()), 2),
        lambda: up_convert(only(simple()), 3),
        lambda: up_convert(only(message()), 3),
        lambda: down_convert([], 3),
        lambda: read_raw_batch(only(message())),
        lambda: read_raw_message(only(simple())),
        lambda: parse_end_transaction_marker(ControlRecordType(0, ControlType.LEADER_CHANGE), bytes(6)),
        lambda: parse_end_transaction_marker(ControlRecordType(0, 99), bytes(6)),
        lambda: build_messages([record(1)], magic=1, codec=Codec.GZIP, level=99),
    ],
)
def test_what_kafkas_builder_refuses(attempt: object) -> None:
    with pytest.raises(UsageError):
        attempt()  # type: ignore[operator]


@pytest.mark.parametrize("write", [
    lambda: build_batch(THREE),
    lambda: empty_batch(3, 5, max_timestamp=1000),
    lambda: list(build_batches(pa.RecordBatch.from_pydict({"value": [b"v"]}))),
])  # fmt: skip
def test_a_writer_refuses_a_header_that_readers_would_report(
    write: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert write()
    rule = Finding.of(FindingCode.RECORDS_COUNT_INVALID, 0, 0, "a rule of another day")
    monkeypatch.setattr(encode_batch, "header_findings", lambda header, position: iter([rule]))
    with pytest.raises(UsageError, match="records_count_invalid, a rule of another day"):
        write()


def test_a_marker_with_a_delete_horizon_is_three_bytes_longer() -> None:
    marker = EndTransactionMarker(ControlType.ABORT, 5)
    plain = build_end_transaction_marker(marker, base_offset=3, timestamp=1000, producer_id=9, producer_epoch=1)
    late = build_end_transaction_marker(
        marker, base_offset=3, timestamp=1700000000000, producer_id=9, producer_epoch=1, delete_horizon_ms=1700086400000
    )
    assert (len(plain), len(late)) == (78, 81)
    assert only(late).header.attributes == 0x70
    assert only(late).header.delete_horizon_ms == 1700086400000
    assert iter_records(only(late))[0].timestamp == 1700000000000


def test_the_derived_writer_and_the_declaration_write_the_same() -> None:
    raw = [
        RawRecord(-128, -(2**63), -(2**31), None, None, ()),
        RawRecord(127, 2**63 - 1, 2**31 - 1, b"", b"", ((b"", None), (b"h", b""))),
        RawRecord(0, 0, 0, b"k" * 100, b"v" * 20_000, ((b"h" * 70, b"x" * 300),) * 70),
    ]
    for each in raw:
        fields = {**each._asdict(), "headers": [{"key": key, "value": value} for key, value in each.headers]}
        body = build(record_batch.RECORD, {**fields, "length": 0}, "record")[1:]
        assert write_records([each]) == build(record_batch.RECORD, {**fields, "length": len(body)}, "record")


@pytest.mark.parametrize(
    "raw",
    [
        RawRecord(128, 0, 0, None, None, ()),
        RawRecord(0, 2**63, 0, None, None, ()),
        RawRecord(0, 0, 2**31, None, None, ()),
        RawRecord(0, 0, 0, None, None, ((None, None),)),  # type: ignore[arg-type]
    ],
)
def test_fields_that_do_not_fit_are_not_written(raw: RawRecord) -> None:
    with pytest.raises(FormatError):
        write_records([raw])


# --- reading and writing again ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_compressed_batch_keeps_its_bytes_while_its_payload_is_kept(codec: int) -> None:
    data = build_batch(
        [record(n, value=b"some words " * n) for n in range(50)], codec=codec, level=1 if codec == GZIP else None
    )
    raw = read_raw_batch(only(data))
    assert encode_raw_batch(raw) == data
    again = encode_raw_batch(RawBatch(raw.header, raw.records))
    assert iter_records(only(again)) == iter_records(only(data))
    if codec == GZIP:  # another level was used
        assert again != data


def test_what_a_record_does_not_show_survives() -> None:
    odd = raw_record(3, attributes=5, timestamp_delta=-9)
    data = batch(odd, 1, attributes=LOG_APPEND_TIME | 0x7F00, last_offset_delta=9, max_timestamp=77)
    assert encode_raw_batch(read_raw_batch(only(data))) == data


def test_records_of_a_batch_can_be_left_out() -> None:
    raw = read_raw_batch(only(build_batch(THREE)))
    kept = only(encode_raw_batch(RawBatch(raw.header, raw.records[1:])))
    assert isinstance(kept.header, BatchHeader)
    assert (kept.header.records_count, kept.header.last_offset) == (2, 10)
    assert [found.offset for found in iter_records(kept)] == [8, 10]


@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper_can_be_compressed_anew(magic: int) -> None:
    data = build_messages([record(n) for n in range(30)], magic=magic, codec=Codec.GZIP, level=1)
    raw = read_raw_message(only(data))
    assert encode_raw_message(raw) == data
    again = encode_raw_message(raw, keep_value=False)
    assert read_raw_message(only(again)).inner == raw.inner


def test_a_batch_that_cannot_be_read_cannot_be_taken_apart() -> None:
    with pytest.raises(FormatError):
        read_raw_batch(only(batch(raw_record(), 2)))
    with pytest.raises(FormatError):
        read_raw_message(only(message(body=b"\0\0\0\x63xxxx")))
    with pytest.raises(FormatError):
        read_raw_message(only(message(3, None, None, attributes=GZIP)))


# --- conversions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", OLD_CODECS)
def test_down(codec: Codec, magic: int) -> None:
    headers = [record(7, 1000, b"a", b"1", Header("h", b"x")), *THREE[1:]]
    source = only(
        build_batch(headers, codec=codec, producer=ProducerState(producer_id=3, producer_epoch=0, base_sequence=0))
    )
    data = down_convert([source], magic)
    result = scan(data)
    assert {found.header.magic for found in result.batches} == {magic}
    assert {found.header.codec for found in result.batches} == {codec}
    assert len(result.batches) == (3 if codec is Codec.NONE else 1)
    assert [found.offset for each in result.batches for found in iter_records(each)] == [7, 8, 10]
    assert data == build_messages([record(7, 1000, b"a", b"1"), *THREE[1:]], magic=magic, codec=codec)


def test_down_keeps_append_time() -> None:
    source = only(build_batch(THREE, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=5555))
    result = scan(down_convert([source], 1))
    assert {found.header.max_timestamp for found in result.batches} == {5555}
    assert {found.header.timestamp_type for found in result.batches} == {TimestampType.LOG_APPEND_TIME}


def test_down_leaves_older_formats_alone_and_control_batches_out() -> None:
    old, control = message(1), batch(raw_record(key=bytes(4)), 1, base_offset=2, attributes=CONTROL)
    batches = scan(old + control + simple(1, 3)).batches
    assert down_convert(batches, 1) == old + build_messages(iter_records(batches[2]), magic=1)
    assert down_convert(batches[:2], 2) == old + control


def test_down_drops_single_messages_below_the_wanted_offset_but_keeps_wrappers_whole() -> None:
    plain, packed = only(build_batch(THREE)), only(build_batch(THREE, codec=Codec.GZIP))
    assert [found.last_offset for found in scan(down_convert([plain], 1, first_offset=8)).batches] == [8, 10]
    assert down_convert([plain], 1, first_offset=11) == b""
    (wrapper,) = scan(down_convert([packed], 1, first_offset=8)).batches
    assert [found.offset for found in iter_records(wrapper)] == [7, 8, 10]


def test_zstd_does_not_go_down() -> None:
    with pytest.raises(FormatError):
        down_convert([only(build_batch(THREE, codec=Codec.ZSTD))], 1)


@pytest.mark.parametrize("codec", OLD_CODECS)
def test_from_magic_1_to_0_timestamps_are_lost(codec: Codec) -> None:
    source = scan(build_messages(THREE, magic=1, codec=codec)).batches
    assert down_convert(source, 0) == build_messages(THREE, magic=0, codec=codec)


@pytest.mark.parametrize("codec", OLD_CODECS)
@pytest.mark.parametrize(("magic", "to"), [(0, 1), (0, 2), (1, 2)])
def test_up(magic: int, to: int, codec: Codec) -> None:
    for source in scan(build_messages(THREE, magic=magic, codec=codec)).batches:
        before = iter_records(source)
        data = up_convert(source, to)
        assert only(data).header.magic == to
        assert only(data).header.codec == codec
        after = iter_records(only(data))
        assert [(f.offset, f.key, f.value) for f in after] == [(f.offset, f.key, f.value) for f in before]
        assert [f.timestamp for f in after] == [f.timestamp if magic else -1 for f in before]
        assert {f.timestamp_type for f in after} == {TYPE}


def test_up_with_the_fields_of_the_newest_format() -> None:
    source = only(build_messages(THREE, magic=1, codec=Codec.GZIP))
    data = up_convert(
        source,
        codec=Codec.ZSTD,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        log_append_time=5555,
        producer=ProducerState(producer_id=3, producer_epoch=1, base_sequence=0),
        partition_leader_epoch=4,
    )
    header = only(data).header
    assert isinstance(header, BatchHeader)
    assert (header.codec, header.max_timestamp, header.producer_id, header.partition_leader_epoch) == (4, 5555, 3, 4)
    assert {found.timestamp for found in iter_records(only(data))} == {5555}


def test_a_batch_without_timestamps_says_so() -> None:
    header = only(up_convert(only(message(5, magic=0)))).header
    assert isinstance(header, BatchHeader)
    assert (header.base_timestamp, header.max_timestamp) == (-1, -1)


def test_headers_of_messages_mirror_those_of_batches() -> None:
    assert isinstance(only(message()).header, LegacyHeader)
    assert decode_batch(only(message(3))).records[0].sequence == -1
