"""Build record batches from rows. Data from Spark is encoded for Kafka only in this module."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from msgspec import Struct

from kafkalog.codec.encode import columns
from kafkalog.codec.model import BATCH, Codec

__all__ = ["BatchSettings", "BuiltBatch", "build_batches"]

_RECORDS = BATCH.position("records_count"), BATCH.end("records_count")


class BatchSettings(Struct, frozen=True):
    """Size and compression of batches."""

    codec: Codec
    level: int | None
    batch_bytes: int
    """size of the records before compression at which a batch is full"""


class BuiltBatch(Struct, frozen=True):
    """A batch that still lacks base offset and leader epoch. The commit sets both, which the checksum does not
    cover.
    """

    data: bytes
    records: int


def build_batches(rows: pa.RecordBatch, settings: BatchSettings, *, work_bytes: int) -> Iterator[BuiltBatch]:
    """Encode all rows (columns as in `sink_schema.ROWS`) as batches; yield them in order. `work_bytes` is the size of
    all rows of the job, which decides whether compiled code is loaded. Raises `UsageError` for rows that no producer
    could send.
    """
    for data in columns.build_batches(
        rows, batch_bytes=settings.batch_bytes, codec=settings.codec, level=settings.level, work_bytes=work_bytes
    ):
        yield BuiltBatch(data, int.from_bytes(data[slice(*_RECORDS)], "big"))
