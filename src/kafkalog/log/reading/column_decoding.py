"""Interface for decoding keys and values in `Partition.to_arrow`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow

    from kafkalog.codec.common.findings import Finding
    from kafkalog.log.reading.readable import ReadablePartition

__all__ = ["ColumnDecoding", "ReadColumns"]


class ReadColumns(Protocol):
    """Function that reads named columns of a partition, with keys and values as bytes."""

    def __call__(
        self, columns: Iterable[str] | None, *, findings: list[Finding] | None = None
    ) -> pyarrow.RecordBatchReader:
        """Return the columns of these names, or the default ones if None; see `Partition.to_arrow`."""


class ColumnDecoding(Protocol):
    """Decoder of keys and values from bytes to Arrow's own types; `kafkalog.DecodedValues` decodes by their schemas."""

    def decoded(
        self,
        partition: ReadablePartition,
        read: ReadColumns,
        columns: Iterable[str] | None,
        findings: list[Finding] | None,
    ) -> pyarrow.RecordBatchReader:
        """Return `columns` of a partition, read with `read`, with decoded keys and values. One finding for each reason
        why values could not be decoded is appended to `findings`, if that is a list; with None they become warnings.
        """
