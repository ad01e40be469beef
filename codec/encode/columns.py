"""Build record batches from Arrow columns without an object for each record, as a producer's accumulator does. The
bytes equal those of `build_batch` for the same records (a test compares them). Records are split into batches as a
producer splits uncompressed ones by `batch.size` (`MemoryRecordsBuilder.hasRoomFor`): sizes are counted before
compression.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.limits import KIB
from kafkalog.codec.encode.batch import NO_PRODUCER, ProducerState, build_batch
from kafkalog.codec.encode.sizes import content_size, record_size
from kafkalog.codec.model import (
    BATCH,
    NO_PARTITION_LEADER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Codec,
    Header,
    Record,
    TimestampType,
    increment_sequence,
    to_int64,
)
from kafkalog.codec.native.thresholds import kernel_is_worth_it

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["DEFAULT_BATCH_BYTES", "build_batches", "divided_down", "record_columns"]

DEFAULT_BATCH_BYTES = 16 * KIB
"""Default of a producer's `batch.size`, in bytes."""

_HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
_RAW_HEADERS = pa.list_(pa.struct([pa.field("key", pa.binary()), pa.field("value", pa.binary())]))
_COLUMNS = {
    "key": pa.binary(), "value": pa.binary(), "timestamp": pa.int64(), "headers": _HEADERS, "offset": pa.int64(),
}  # fmt: skip


def _has_raw_names(headers: pa.Array) -> bool:
    """Whether a `headers` column is of lists of structs whose field `key` has the type binary or large binary, which
    may be invalid UTF-8. False for any other type, also for large lists.
    """
    type = headers.type
    inner = type.value_type if pa.types.is_list(type) else None
    return inner is not None and pa.types.is_struct(inner) and inner.get_field_index("key") >= 0 and (
        pa.types.is_binary(inner.field("key").type) or pa.types.is_large_binary(inner.field("key").type)
    )  # fmt: skip


def _as_milliseconds(column: pa.Array) -> pa.Array:
    """Convert timestamps to ms since 1970 as int64, rounded down (also before 1970). A column of another type, such as
    integers that already are ms, is cast to int64. Nulls stay null. Raises `pa.ArrowInvalid` for times of day and
    durations, and if a number of ms needs more than 64 bits. Raises `pa.ArrowInvalid` or `pa.ArrowNotImplementedError`,
    which `record_columns` catches, if Arrow cannot cast the column.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_time(column.type) or pa.types.is_duration(column.type):
        raise pa.ArrowInvalid(f"{column.type} is no point in time")
    if not pa.types.is_timestamp(column.type):
        return column.cast(pa.int64())
    numbers = column.view(pa.int64())
    if column.type.unit == "s":
        return pc.multiply_checked(numbers, pa.scalar(1_000, pa.int64()))
    if column.type.unit == "ms":
        return numbers
    return divided_down(numbers, {"us": 1_000, "ns": 1_000_000}[column.type.unit])


def divided_down(numbers: pa.Array, divisor: int) -> pa.Array:
    """Return int64 numbers divided by a positive number, rounded down, also if they are negative. Nulls stay null."""
    by = pa.scalar(divisor, pa.int64())
    rounded = pc.divide(numbers, by)
    if (pc.min(numbers).as_py() or 0) >= 0:
        return rounded
    is_above = pc.greater(pc.multiply(rounded, by), numbers)  # Arrow rounds towards zero
    return pc.subtract(rounded, is_above.cast(pa.int64()))


def record_columns(records: pa.RecordBatch) -> pa.RecordBatch:
    """Return a record batch with only those of the columns `key`, `value`, `timestamp`, `headers` and `offset` that
    `records` has, in this order. The columns are converted to the types from which log batches are built. Timestamps
    become ms since 1970, with -1 for null. Raises `UsageError` if `value` is missing, one of these columns occurs
    twice, or a header or its key is null. It is raised too for a column that cannot be converted, also for seconds
    whose ms need more than 64 bits.
    """
    if "value" not in records.schema.names:
        raise UsageError(f"there is no column value, only {', '.join(records.schema.names)}")
    converted = {}
    for name, kind in _COLUMNS.items():
        if name not in records.schema.names:
            continue
        if records.schema.names.count(name) > 1:
            raise UsageError(f"there are several columns {name}")
        column = records[name]
        try:
            if pa.types.is_list_view(column.type) or pa.types.is_large_list_view(column.type):
                raise pa.ArrowInvalid("it is a list view, of which pyarrow makes wrong lists")
            if name == "timestamp":
                column = pc.fill_null(_as_milliseconds(column), NO_TIMESTAMP)
            converted[name] = column.cast(_RAW_HEADERS if name == "headers" and _has_raw_names(column) else kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise UsageError(f"column {name} cannot be read as {kind}: {str(error).splitlines()[0]}") from None
    if "headers" in converted:
        keys = converted["headers"].flatten()
        if keys.null_count or keys.field("key").null_count:
            raise UsageError("a header or its key is null")
    return pa.RecordBatch.from_pydict(converted)


def build_batches(
    records: pa.RecordBatch,
    *,
    base_offset: int = 0,
    keep_offsets: bool = False,
    batch_bytes: int = DEFAULT_BATCH_BYTES,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    producer: ProducerState = NO_PRODUCER,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    work_bytes: int | None = None,
) -> Iterator[bytes]:
    """Yield batches of magic 2 as bytes from the columns `key`, `value`, `timestamp` (ms or an Arrow timestamp) and
    `headers`. Yield nothing if there are no rows. Offsets count from `base_offset`. With `keep_offsets` they are those
    of the column `offset`. Sequence numbers continue from batch to batch. A batch has at most `batch_bytes` bytes
    before compression, unless a single record is larger. If these rows are part of a larger job, `work_bytes` is the
    size of all its rows: it decides whether compiled code is loaded. Errors are raised on the first step of the
    iterator. They are `UsageError` if a needed column is missing or cannot be converted, or if `build_batch` would
    refuse the records. They are `StorageError` if compiled code cannot be loaded.
    """
    columns = record_columns(records)
    rows = columns.num_rows
    if rows == 0:
        return
    if keep_offsets and ("offset" not in columns.schema.names or columns["offset"].null_count):
        raise UsageError("there is no column offset, or one is null")
    if base_offset < 0 or base_offset > 2**63 - 1 - rows:
        raise UsageError(f"offsets from {base_offset} on do not fit")
    offsets = columns["offset"] if keep_offsets else _counted(base_offset, rows)
    has_times = "timestamp" in columns.schema.names
    times = columns["timestamp"] if has_times else pa.repeat(pa.scalar(NO_TIMESTAMP, pa.int64()), rows)
    _check(offsets, times)
    if kernel_is_worth_it(columns.nbytes if work_bytes is None else work_bytes):
        from kafkalog.codec.encode.compiled import encode_columns

        batches = encode_columns(columns, offsets, times, batch_bytes, codec, level, producer, partition_leader_epoch)
        yield from batches
        return
    sequence = producer.base_sequence
    for batch in _split(columns, offsets, times, batch_bytes):
        state = ProducerState(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=sequence,
            is_transactional=producer.is_transactional,
        )
        yield build_batch(
            batch, codec=codec, level=level, producer=state, partition_leader_epoch=partition_leader_epoch
        )
        if sequence != NO_SEQUENCE:
            sequence = increment_sequence(sequence, len(batch))


def _counted(start: int, rows: int) -> pa.Array:
    """Return consecutive numbers from `start` on, one for each row."""
    ones = pa.repeat(pa.scalar(1, pa.int64()), rows)
    return pc.cumulative_sum(ones, start=start - 1)


def _check(offsets: pa.Array, times: pa.Array) -> None:
    if len(offsets) > 1 and not pc.all(pc.greater(offsets[1:], offsets[:-1])).as_py():
        raise UsageError("offsets do not increase")
    if offsets[0].as_py() < 0:
        raise UsageError(f"offset {offsets[0].as_py()} is negative")
    smallest = pc.min(times).as_py()
    if smallest < NO_TIMESTAMP:
        raise UsageError(f"timestamp {smallest} is negative")


def _name(key: str | bytes) -> str:
    return key if isinstance(key, str) else key.decode("utf-8", "surrogateescape")


def _split(columns: pa.RecordBatch, offsets: pa.Array, times: pa.Array, batch_bytes: int) -> Iterator[Sequence[Record]]:
    """Divide the rows into batches; yield the records of each batch as a list, which is never empty. A new batch begins
    before a record that would make the batch larger than `batch_bytes` before compression. It does also before an
    offset too far from the base offset. There must be at least one row.
    """
    names = columns.schema.names
    nothing = [None] * columns.num_rows
    keys = columns["key"].to_pylist() if "key" in names else nothing
    lists = columns["headers"].to_pylist() if "headers" in names else nothing
    batch: list[Record] = []
    size = BATCH.size
    rows = zip(keys, columns["value"].to_pylist(), lists, offsets.to_pylist(), times.to_pylist(), strict=True)
    for key, value, pairs, offset, time in rows:
        headers = tuple(Header(_name(pair["key"]), pair["value"]) for pair in pairs or ())
        record = Record(offset, time, TimestampType.CREATE_TIME, key, value, headers)
        more = _size(record, batch[0] if batch else record)
        if batch and (size + more > batch_bytes or offset - batch[0].offset > 2**31 - 1):
            yield batch
            batch, size = [], BATCH.size
            more = _size(record, record)
        batch.append(record)
        size += more
    yield batch


def _size(record: Record, first: Record) -> int:
    delta = min(record.offset - first.offset, 2**31 - 1)
    content = content_size(record.key, record.value, record.headers)
    return record_size(content, delta, to_int64(record.timestamp - first.timestamp))
