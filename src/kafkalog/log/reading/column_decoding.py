"""The interface through which a caller of `Partition.to_arrow` has keys and values decoded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow

    from kafkalog.codec.findings import Finding
    from kafkalog.log.reading.readable import ReadablePartition

__all__ = ["ColumnDecoding", "ReadColumns"]


class ReadColumns(Protocol):
    """Reads named columns of a partition, keys and values as bytes."""

    def __call__(
        self, columns: Iterable[str] | None, *, findings: list[Finding] | None = None
    ) -> pyarrow.RecordBatchReader:
        """Columns of that name, or all if None; see `Partition.to_arrow`."""


class ColumnDecoding(Protocol):
    """Turns keys and values from bytes into Arrow's own types; `kafkalog.DecodedValues` does so by their schemas."""

    def decoded(
        self,
        partition: ReadablePartition,
        read: ReadColumns,
        columns: Iterable[str] | None,
        findings: list[Finding] | None,
    ) -> pyarrow.RecordBatchReader:
        """Read `columns` of a partition through `read`, with decoded keys and values.

        Appends to `findings` one finding for each reason why values could not be decoded; None drops these.
        """
