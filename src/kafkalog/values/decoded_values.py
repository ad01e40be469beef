"""Settings for decoding keys and values of a partition's columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from kafkalog.codec.common.arguments import check_fields
from kafkalog.values.column_schema import ColumnSchema, NamedSchema
from kafkalog.values.registry import SchemaRegistry

if TYPE_CHECKING:
    import pyarrow

    from kafkalog.codec.common.findings import Finding
    from kafkalog.log.reading.column_decoding import ReadColumns
    from kafkalog.log.reading.readable import ReadablePartition

__all__ = ["DecodedValues"]



class DecodedValues(Struct, frozen=True, kw_only=True):
    """Keys and values of `Partition.to_arrow` as Arrow's own types, by their schemas; see docs/values.md."""

    schemas: SchemaRegistry | None = None
    """the schemas; None: those in the topic `_schemas` beside the partition"""
    key_schema: NamedSchema | ColumnSchema | None = None
    """schema for keys: a subject, an id, or a `Schema`; None: the latest version of the subject of the first keys"""
    values_schema: NamedSchema | ColumnSchema | None = None
    """schema for values, in the same way"""

    def __post_init__(self) -> None:
        check_fields(self)

    def decoded(
        self,
        partition: ReadablePartition,
        read: ReadColumns,
        columns: Iterable[str] | None = None,
        findings: list[Finding] | None = None,
    ) -> pyarrow.RecordBatchReader:
        """Read columns of a partition through `read` and decode keys and values, as `decoded_reader` does, with the
        same errors.
        """
        from kafkalog.values.to_arrow import decoded_reader

        named = self.key_schema, self.values_schema
        return decoded_reader(partition, read, columns, findings, self.schemas, named)
