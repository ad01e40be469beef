"""The contents `batches`: what headers say, as columns where batches are sound, and row by row elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import StructType, TimestampType

from kafkalog.codec.findings import Finding
from kafkalog.codec.model import (
    CODEC_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    LAST_CODEC,
    MAX_SEQUENCE,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    RecordBatch,
    codec_label,
)
from kafkalog.codec.names import without_surrogates
from kafkalog.log import Partition
from kafkalog.log.reading.batch_words import batch_words
from kafkalog.spark.contents_files import named
from kafkalog.spark.contents_rows import LARGEST_MS, MICROSECONDS, ROWS, Row, arrow_batches
from kafkalog.spark.schema import arrow_schema

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from kafkalog.codec.headers.runs import BatchRun

    Column = tuple[npt.NDArray[np.generic], npt.NDArray[np.bool_] | None]

__all__ = ["batches_of"]


def batches_of(partition: Partition, schema: StructType, findings: list[Finding]) -> Iterator[pa.RecordBatch]:
    """A row for each batch that can be read, through damage, which is appended to `findings` at the end."""
    reader = partition.batches(through_damage=True)
    single: list[Row] = []
    for found in reader.by_run():
        file = reader.segment.path if reader.segment is not None else partition.path
        if isinstance(found, RecordBatch):
            single.append(named(partition, file, _row(found)))
        if single and (not isinstance(found, RecordBatch) or len(single) == ROWS):
            yield from arrow_batches(iter(single), schema)
            single = []
        if not isinstance(found, RecordBatch):
            yield _columns(found, partition, file, schema)
    yield from arrow_batches(iter(single), schema)
    findings.extend(reader.findings)


def _row(batch: RecordBatch) -> Row:
    words = batch_words(batch)
    kind = batch.header.timestamp_type
    words["timestamp"] = words.pop(kind.label)
    words["timestampType"] = int(kind)
    words.setdefault("lastOffset", words.pop("offset", None))
    return words


def _columns(run: BatchRun, partition: Partition, file: str, schema: StructType) -> pa.RecordBatch:
    """The same rows of sound batches of version 2."""
    constant = {"topic": partition.topic, "partition": partition.partition, "file": file, "isvalid": True}
    times = {field.name for field in schema.fields if isinstance(field.dataType, TimestampType)}
    target = arrow_schema(schema)
    arrays = []
    for field in target:
        if field.name in constant:
            value = constant[field.name]
            value = without_surrogates(value) if isinstance(value, str) else value
            arrays.append(pa.repeat(pa.scalar(value, field.type), len(run)))
        elif field.name == "compresscodec":
            labels = pa.array([codec_label(codec) for codec in range(LAST_CODEC + 1)], field.type)
            arrays.append(labels.take(pa.array(run["attributes"] & CODEC_MASK)))
        else:
            values, absent = _OF_RUNS[field.name](run)
            arrays.append(_times(values, absent, field.type) if field.name in times else pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def _times(values: npt.NDArray[np.generic], absent: npt.NDArray[np.bool_] | None, kind: pa.DataType) -> pa.Array:
    """Milliseconds as Spark counts; null where no calendar of Spark's reaches."""
    import numpy as np

    beyond = (values > np.int64(LARGEST_MS)) | (values < np.int64(-LARGEST_MS))
    nothing = beyond if absent is None else beyond | absent
    return pa.array(np.where(nothing, 0, values) * MICROSECONDS, pa.int64(), mask=nothing).cast(kind)


def _field(name: str) -> Callable[[BatchRun], Column]:
    return lambda run: (run[name], None)


def _flag(flag: int) -> Callable[[BatchRun], Column]:
    return lambda run: (run["attributes"] & flag != 0, None)


def _last_sequences(run: BatchRun) -> Column:
    """`codec.model.increment_sequence` where no delta is negative."""
    import numpy as np

    first = run["base_sequence"]
    last = first + run["last_offset_delta"]
    wrapped = np.where(last > MAX_SEQUENCE, last - MAX_SEQUENCE - 1, last)
    return np.where(first == NO_SEQUENCE, NO_SEQUENCE, wrapped), None


_OF_RUNS: dict[str, Callable[[BatchRun], Column]] = {
    "position": lambda run: (run.positions, None),
    "size": lambda run: (run.sizes, None),
    "magic": _field("magic"),
    "baseOffset": _field("base_offset"),
    "lastOffset": lambda run: (run.last_offsets, None),
    "count": _field("records_count"),
    "baseSequence": _field("base_sequence"),
    "lastSequence": _last_sequences,
    "producerId": _field("producer_id"),
    "producerEpoch": _field("producer_epoch"),
    "partitionLeaderEpoch": _field("partition_leader_epoch"),
    "isTransactional": _flag(TRANSACTIONAL_FLAG),
    "isControl": _flag(CONTROL_FLAG),
    "deleteHorizonMs": lambda run: (run["base_timestamp"], run["attributes"] & DELETE_HORIZON_FLAG == 0),
    "timestamp": _field("max_timestamp"),
    "timestampType": lambda run: ((run["attributes"] & TIMESTAMP_TYPE_FLAG != 0).astype("int32"), None),
    "crc": _field("crc"),
}
"""Column -> its values, and where there is none."""
