"""Columns of a partition, with keys and values as bytes or as what they say; the latter is a room's above this one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module

import pyarrow as pa

from kafkalog.codec.columnar.schema import COPY
from kafkalog.codec.errors import UsageError
from kafkalog.codec.findings import Finding
from kafkalog.log.reading.readable import ReadablePartition

__all__ = ["as_asked"]

BYTES, AUTO = "bytes", "auto"
_DECODING = "kafkalog.values.to_arrow"
"""asked for by its name when it is needed, since rooms import downwards only"""


def as_asked(
    partition: ReadablePartition,
    read: Callable[..., pa.RecordBatchReader],
    columns: Iterable[str] | None,
    findings: list[Finding] | None,
    asked: tuple[str, str, object, object, object],
) -> pa.RecordBatchReader:
    """What `Partition.to_arrow` gives; `asked` is what it was given of `values`, `layout` and schemas."""
    values, layout, *named = asked
    if values == BYTES:
        if any(each is not None for each in named):
            raise UsageError("schemas, key_schema and values_schema have no effect without values='auto'")
        return read(columns, findings=findings)
    if values != AUTO:
        raise UsageError(f"there are no values {values!r}; there are {BYTES} and {AUTO}")
    if layout != COPY:
        raise UsageError("values='auto' gives no views of bytes: leave out layout")
    decoded: pa.RecordBatchReader = import_module(_DECODING).decoded_reader(partition, read, columns, findings, *named)
    return decoded
