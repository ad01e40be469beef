"""From rows to record batches: the one place where what Spark hands over becomes Kafka's bytes."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from msgspec import Struct

from kafkalog.codec.encode import columns
from kafkalog.codec.model import BATCH, Codec

__all__ = ["BatchSettings", "BuiltBatch", "build_batches"]

_RECORDS = BATCH.position("records_count"), BATCH.end("records_count")


class BatchSettings(Struct, frozen=True):
    """How batches are cut and packed."""

    codec: Codec
    level: int | None
    batch_bytes: int
    """a batch is full when its records have so many bytes, before compression"""


class BuiltBatch(Struct, frozen=True):
    """A batch without its base offset and leader epoch: both lie outside its checksum and are set when it is kept."""

    data: bytes
    records: int


def build_batches(rows: pa.RecordBatch, settings: BatchSettings, *, work_bytes: int) -> Iterator[BuiltBatch]:
    """All rows (`sink_schema.ROWS`) in order as batches; `UsageError` for what no producer could send."""
    for data in columns.build_batches(
        rows, batch_bytes=settings.batch_bytes, codec=settings.codec, level=settings.level, work_bytes=work_bytes
    ):
        yield BuiltBatch(data, int.from_bytes(data[slice(*_RECORDS)], "big"))
