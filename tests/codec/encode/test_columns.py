"""Batches from columns are, byte for byte, those that the readable builder makes of the same records."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.codec.columnar.schema import TYPES
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.encode import ProducerState, build_batch
from kafkalog.codec.encode.columns import build_batches, record_columns
from kafkalog.codec.model import BATCH, Codec, Header, Record, TimestampType
from kafkalog.codec.plain.records import iter_records
from kafkalog.codec.plain.scanner import scan
from testkit.judging.executions import choose_execution
from testkit.running.examples import examples

BYTES = st.none() | st.binary(max_size=80)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "key": BYTES,
            "value": BYTES,
            "timestamp": st.integers(-1, 2**62) | st.integers(0, 300) | st.sampled_from([-1, 2**63 - 1]),
            "headers": st.none()
            | st.lists(st.fixed_dictionaries({"key": st.text(max_size=5), "value": BYTES}), max_size=3),
            "gap": st.integers(1, 3) | st.sampled_from([1, 1, 2**31]),
        }
    ),
    min_size=1,
    max_size=12,
)
NUMBERS = {"timestamp": pa.int64(), "offset": pa.int64()}
TYPES_BUILT = {name: TYPES[name] for name in ("key", "value", "headers")} | NUMBERS


def columns_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    arrays = {name: pa.array([row[name] for row in rows], kind) for name, kind in TYPES_BUILT.items()}
    return pa.RecordBatch.from_pydict(arrays)


def with_offsets(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    offset, found = 5, []
    for row in rows:
        found.append(row | {"offset": offset})
        offset += row["gap"]
    return found


def record_of(row: dict[str, Any]) -> Record:
    pairs = row["headers"] or ()
    headers = tuple(Header(pair["key"], pair["value"]) for pair in pairs)
    return Record(
        row["offset"],
        row["timestamp"],
        TimestampType.CREATE_TIME,
        row["key"],
        row["value"],
        headers,
    )


@examples(150)
@given(
    ROWS,
    st.integers(60, 400),
    st.sampled_from(list(Codec)),
    st.sampled_from(
        [
            ProducerState(),
            ProducerState(producer_id=7, producer_epoch=1, base_sequence=2**31 - 3, is_transactional=True),
        ]
    ),
    st.booleans(),
    st.integers(0, 2),
)
def test_bytes_are_those_of_the_readable_builder(
    rows: list[dict[str, Any]], batch_bytes: int, codec: Codec, producer: ProducerState, kernel: bool, cut: int
) -> None:
    rows = with_offsets(rows)
    columns = columns_of(rows).slice(min(cut, len(rows) - 1))
    records = [record_of(row) for row in rows[min(cut, len(rows) - 1) :]]
    with pytest.MonkeyPatch.context() as patch:
        choose_execution(patch, 0 if kernel else 2**62)
        made = list(
            build_batches(
                columns, keep_offsets=True, batch_bytes=batch_bytes, codec=codec, producer=producer,
                partition_leader_epoch=3,
            )
        )  # fmt: skip
    at, sequence = 0, producer.base_sequence
    for data in made:
        (batch,) = scan(data).batches
        count = len(iter_records(batch))
        mine = records[at : at + count]
        state = ProducerState(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=sequence,
            is_transactional=producer.is_transactional,
        )
        assert data == build_batch(mine, codec=codec, producer=state, partition_leader_epoch=3)
        more = records[at : at + count + 1]
        if len(more) > count and more[-1].offset - more[0].offset < 2**31:
            assert len(build_batch(more)) > batch_bytes, "another record would have fitted"
        assert count == 1 or len(build_batch(mine)) <= batch_bytes
        at += count
        if sequence >= 0:
            sequence = (sequence + count) % 2**31
    assert at == len(records)


def test_many_rows_are_split_as_if_they_were_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [b"%d" % number * (number % 50) for number in range(3000)]
    columns = pa.RecordBatch.from_pydict({"value": pa.array(values), "timestamp": pa.array(range(3000), pa.int64())})
    for batch_bytes in (200, 5000, 10**7):
        choose_execution(monkeypatch, 2**62)
        plain = list(build_batches(columns, batch_bytes=batch_bytes))
        choose_execution(monkeypatch, 0)
        assert list(build_batches(columns, batch_bytes=batch_bytes)) == plain


def test_only_values_and_offsets_assigned() -> None:
    columns = pa.RecordBatch.from_pydict({"value": pa.array(["a", None, "ccc"])})
    (data,) = build_batches(columns, base_offset=40)
    (batch,) = scan(data).batches
    assert [(each.offset, each.timestamp, each.value) for each in iter_records(batch)] == [
        (40, -1, b"a"), (41, -1, None), (42, -1, b"ccc"),
    ]  # fmt: skip
    assert len(data) == BATCH.size + sum(len(b"123456" + (each or b"")) + 1 for each in (b"a", None, b"ccc"))


@pytest.mark.parametrize(
    "columns",
    [
        {"key": ["a"]},
        {"value": ["a"], "timestamp": [-2]},
        {"value": ["a", "b"], "offset": [2, 2]},
        {"value": [1.5]},
    ],
)
def test_what_no_batch_can_hold_is_refused(columns: dict[str, list[object]]) -> None:
    with pytest.raises(UsageError):
        list(build_batches(pa.RecordBatch.from_pydict(columns), keep_offsets="offset" in columns))


@pytest.mark.parametrize(
    ("unit", "numbers", "milliseconds"),
    [
        ("s", [-1, 2, 9223372036854775], [-1000, 2000, 9223372036854775000]),
        ("us", [-1, -1000, -1001, 1999], [-1, -1, -2, 1]),
        ("ns", [-(2**63), -1_000_000, 2**63 - 1], [-9223372036855, -1, 9223372036854]),
    ],
)
def test_timestamps_are_rounded_down_to_milliseconds(unit: str, numbers: list[int], milliseconds: list[int]) -> None:
    times = pa.array([None, *numbers], pa.timestamp(unit, "UTC"))
    made = record_columns(pa.RecordBatch.from_pydict({"value": [b""] * len(times), "timestamp": times}))
    assert made["timestamp"].to_pylist() == [-1, *milliseconds]
    made = record_columns(
        pa.RecordBatch.from_pydict({"value": [b""] * len(times), "timestamp": times.dictionary_encode()})
    )
    assert made["timestamp"].to_pylist() == [-1, *milliseconds]


@pytest.mark.parametrize("kind", [pa.time64("us"), pa.time32("ms"), pa.duration("s")], ids=str)
def test_a_time_of_day_or_a_duration_is_no_timestamp(kind: pa.DataType) -> None:
    times = pa.array([1], kind)
    with pytest.raises(UsageError, match="column timestamp cannot be read as int64"):
        record_columns(pa.RecordBatch.from_pydict({"value": [b"a"], "timestamp": times}))


@pytest.mark.parametrize("seconds", [9223372036854776, 10**16, -(10**16)])
def test_seconds_of_which_the_milliseconds_do_not_fit_are_refused(seconds: int) -> None:
    times = pa.array([seconds, None], pa.timestamp("s"))
    with pytest.raises(UsageError, match="column timestamp cannot be read as int64: overflow"):
        record_columns(pa.RecordBatch.from_pydict({"value": [b"a", b"b"], "timestamp": times}))


def test_a_column_that_is_there_twice_is_refused() -> None:
    twice = pa.RecordBatch.from_arrays([pa.array([b"a"]), pa.array([b"b"])], ["value", "value"])
    with pytest.raises(UsageError, match="several columns value"):
        list(build_batches(twice))


@pytest.mark.parametrize("kernel", [False, True])
@pytest.mark.parametrize(
    "header",
    [
        {"partition_leader_epoch": 2**31},
        {"producer": ProducerState(producer_id=1, producer_epoch=2**15, base_sequence=0)},
        {"producer": ProducerState(producer_id=1, producer_epoch=0, base_sequence=2**31)},
    ],
)
def test_a_number_that_does_not_fit_the_header_is_refused(header: dict[str, Any], kernel: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        choose_execution(patch, 0 if kernel else 2**62)
        with pytest.raises(UsageError, match="does not fit"):
            list(build_batches(pa.RecordBatch.from_pydict({"value": [b"a"]}), **header))


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_header_names_may_be_any_bytes(kind: pa.DataType) -> None:
    headers = pa.list_(pa.struct([("key", kind), ("value", pa.binary())]))
    rows = pa.array([[{"key": b"\xff", "value": b"1"}]], headers)
    records = record_columns(pa.RecordBatch.from_pydict({"value": pa.array([b"v"]), "headers": rows}))
    assert records["headers"].to_pylist() == [[{"key": b"\xff", "value": b"1"}]]


@pytest.mark.parametrize("view", [pa.list_view, pa.large_list_view])
def test_headers_in_list_views_are_refused(view: Any) -> None:
    pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
    rows = pa.array([[{"key": "k", "value": b"1"}]], view(pair))
    with pytest.raises(UsageError, match="it is a list view"):
        record_columns(pa.RecordBatch.from_pydict({"value": pa.array([b"v"]), "headers": rows}))
