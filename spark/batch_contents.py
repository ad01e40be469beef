"""Produce the rows of `contents=batches`, the header fields of batches: by columns for sound batches, and row by row
for others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import StructType, TimestampType

from kafkalog.codec.common.findings import Finding
from kafkalog.codec.model import RecordBatch
from kafkalog.codec.names import without_surrogates
from kafkalog.codec.rules.batch_fields import BATCH_FIELDS, POSITION
from kafkalog.log import Partition
from kafkalog.log.reading.batch_words import batch_words
from kafkalog.log.walk.on_damage import SKIP
from kafkalog.spark.contents_files import named
from kafkalog.spark.contents_rows import LARGEST_MS, MICROSECONDS, ROWS, arrow_batches
from kafkalog.spark.schema import arrow_schema
from kafkalog.spark.struct_columns import Row

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from kafkalog.codec.headers.runs import BatchRun

__all__ = ["batches_of"]


def batches_of(partition: Partition, schema: StructType, findings: list[Finding]) -> Iterator[pa.RecordBatch]:
    """Yield Arrow batches with one row for each sound batch of the log, in log order; reading continues after damage.
    When all are read, the findings of the reader are appended to `findings`. Raises `StorageError` if a file cannot be
    read.
    """
    reader = partition.batches(on_damage=SKIP)
    single: list[Row] = []
    for run in reader.by_run():
        file = reader.segment.path if reader.segment is not None else partition.path
        columns = run.columns()
        if columns is None:
            single.append(named(partition, file, _row(run.batch(0))))
        if single and (columns is not None or len(single) == ROWS):
            yield from arrow_batches(iter(single), schema)
            single = []
        if columns is not None:
            yield _columns(columns, partition, file, schema)
    yield from arrow_batches(iter(single), schema)
    findings.extend(reader.findings)


def _row(batch: RecordBatch) -> Row:
    words = batch_words(batch)
    kind = batch.header.timestamp_type
    words["timestamp"] = words.pop(kind.label)
    words["timestampType"] = int(kind)
    if "offset" in words:  # of magic 0 and 1
        words["baseOffset"] = words["lastOffset"] = words.pop("offset")
    return words


def _columns(run: BatchRun, partition: Partition, file: str, schema: StructType) -> pa.RecordBatch:
    """Return the rows of a run of sound batches (magic 2) as one Arrow batch with the columns of `schema`, computed
    by column.
    """
    constant = {"topic": partition.topic, "partition": partition.partition, "file": file, "isvalid": True}
    times = {field.name for field in schema.fields if isinstance(field.dataType, TimestampType)}
    target = arrow_schema(schema)
    arrays = []
    for field in target:
        if field.name in constant:
            value = constant[field.name]
            value = without_surrogates(value) if isinstance(value, str) else value
            arrays.append(pa.repeat(pa.scalar(value, field.type), len(run)))
            continue
        header = BATCH_FIELDS[field.name]
        values = run.positions if field.name == POSITION else header.of_columns(run.__getitem__)
        if header.labels:
            arrays.append(pa.array(header.labels, field.type).take(pa.array(values)))
        elif field.name in times:
            absent = None if header.is_absent is None else header.is_absent(run.__getitem__)
            arrays.append(_times(values, absent, field.type))
        else:
            arrays.append(pa.array(values).cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def _times(values: npt.NDArray[np.generic], absent: npt.NDArray[np.bool_] | None, kind: pa.DataType) -> pa.Array:
    """Convert milliseconds to an Arrow array of Spark timestamps in microseconds. Values are null if `absent` is True
    for them (None: for none) or if they do not fit into 64 bits of microseconds.
    """
    import numpy as np

    beyond = (values > np.int64(LARGEST_MS)) | (values < np.int64(-LARGEST_MS))
    nothing = beyond if absent is None else beyond | absent
    return pa.array(np.where(nothing, 0, values) * MICROSECONDS, pa.int64(), mask=nothing).cast(kind)
