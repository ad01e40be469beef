"""From rows to record batches: the one place where what Spark hands over becomes Kafka's bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from kafkalog.codec.encode import build_batch
from kafkalog.codec.errors import UsageError
from kafkalog.codec.model import Codec, Header, Record, TimestampType

__all__ = ["BatchSettings", "BuiltBatch", "build_batches"]

_OVERHEAD = 20
"""About what a record takes beside its key, value and headers."""


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """How batches are cut and packed."""

    codec: Codec
    level: int | None
    batch_bytes: int
    """a batch is full when its records have so many bytes, before compression"""


@dataclass(frozen=True, slots=True)
class BuiltBatch:
    """A batch from offset 0 on, without a leader epoch: both lie outside its checksum and are set when it is kept."""

    data: bytes
    records: int


def build_batches(rows: pa.RecordBatch, settings: BatchSettings) -> Iterator[BuiltBatch]:
    """All rows (`sink_schema.ROWS`) in order as batches; `UsageError` for what no producer could send."""
    records: list[Record] = []
    held = 0
    for key, value, timestamp, headers in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        found = _headers(headers)
        size = (
            _OVERHEAD
            + len(key or b"")
            + len(value or b"")
            + sum(len(each.key) + len(each.value or b"") for each in found)
        )
        if records and held + size > settings.batch_bytes:
            yield _built(records, settings)
            records, held = [], 0
        records.append(Record(len(records), timestamp, TimestampType.CREATE_TIME, key, value, found))
        held += size
    if records:
        yield _built(records, settings)


def _headers(headers: list[dict[str, object]] | None) -> tuple[Header, ...]:
    if not headers:
        return ()
    for each in headers:
        if each is None or each["key"] is None:
            raise UsageError("a header without a key; Kafka's headers have one")
    return tuple(Header(each["key"], each["value"]) for each in headers)  # type: ignore[arg-type]


def _built(records: list[Record], settings: BatchSettings) -> BuiltBatch:
    return BuiltBatch(build_batch(records, codec=settings.codec, level=settings.level), len(records))
