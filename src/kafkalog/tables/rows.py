"""Records of one topic as rows of its table. Columns and types do not depend on the contents of the records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.wording import counted
from kafkalog.log.directories.partition import Partition
from kafkalog.log.reading.record_filter import RecordFilter
from kafkalog.log.walk.on_damage import STOP
from kafkalog.tables.positions import Span
from kafkalog.tables.table_types import NoTypeError, TypeRules, table_type
from kafkalog.values.column_schema import ColumnSchema, NamedSchema
from kafkalog.values.decoded_values import DecodedValues
from kafkalog.values.decoding import ValueDecoder
from kafkalog.values.fitting import fitting
from kafkalog.values.masked_columns import masked_column, masked_texts
from kafkalog.values.registry import SchemaRegistry
from kafkalog.values.to_arrow import column_schema

__all__ = ["Rows", "TopicRows", "Wanted"]

_PARTS = ("key", "value")
_COLUMNS = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers")
_EPOCH = "leaderEpoch"
_NO_FIT = "it does not fit the type of the table"
_NO_MASK = "it cannot be read, so that no field can be masked"


class Wanted(Struct, frozen=True, kw_only=True):
    """The requested form of keys and values in the table."""

    values: str
    """`bytes` or `auto`"""
    schemas: SchemaRegistry | None
    key_schema: NamedSchema | None = None
    values_schema: NamedSchema | None = None
    masks: frozenset[str] = frozenset()
    isolation_level: str


class Rows(NamedTuple):
    """Some rows of a partition, in the order of their offsets."""

    batch: pa.RecordBatch
    leader_epoch: int
    """leader epoch of the last row"""


class TopicRows:
    """Reader of the partitions of one topic. `schema` has the columns that the table needs."""

    def __init__(self, partitions: Sequence[Partition], wanted: Wanted, rules: TypeRules) -> None:
        self._wanted = wanted
        self._rules = rules
        self._chosen: dict[str, ColumnSchema] = {}
        self._registry: SchemaRegistry | None = None
        if wanted.values != "bytes":
            self._choose(partitions)
        arrow_schema = self._reader(partitions[0], 0, 0, []).schema
        self.schema = pa.schema([
            (each.name, table_type(each.type, rules)) for each in arrow_schema if each.name != _EPOCH
        ])  # fmt: skip

    def _choose(self, partitions: Sequence[Partition]) -> None:
        decoder = ValueDecoder(self._wanted.schemas or SchemaRegistry())
        named = {"key": self._wanted.key_schema, "value": self._wanted.values_schema}
        self._chosen = {
            part: replace(column_schema(decoder, partitions, part, named[part]), masks=self._wanted.masks)
            for part in _PARTS
        }
        self._registry = decoder.registry
        for part, type in ((each, self._reader(partitions[0], 0, 0, []).schema.field(each).type) for each in _PARTS):
            try:
                table_type(type, self._rules)
            except NoTypeError:
                self._chosen[part] = ColumnSchema(None)

    def _reader(
        self, partition: Partition, start: int, end: int | None, findings: list[Finding], threads: int = 1
    ) -> pa.RecordBatchReader:
        decoding = None if self._registry is None else DecodedValues(
            schemas=self._registry, key_schema=self._chosen["key"], values_schema=self._chosen["value"]
        )  # fmt: skip
        return partition.to_arrow(
            [*_COLUMNS, _EPOCH],
            RecordFilter(start_offset=start, end_offset=end, isolation_level=self._wanted.isolation_level),
            findings=findings, threads=threads, on_damage=STOP, decoding=decoding,
        )  # fmt: skip

    def read(self, span: Span, schema: pa.Schema, findings: list[Finding], threads: int) -> Iterator[Rows]:
        """Yield the rows of a span, as batches in offset order, in a table's `schema`, which may have more columns than
        `self.schema`. Findings are appended to `findings`; reading stops at damage.
        """
        for batch in self._reader(span.partition, span.start_offset, span.read_to, findings, threads):
            if batch.num_rows:
                shown = self._shown(batch, schema, span.partition, findings)
                yield Rows(shown, batch.column(_EPOCH)[-1].as_py())

    def _shown(
        self, batch: pa.RecordBatch, schema: pa.Schema, partition: Partition, findings: list[Finding]
    ) -> pa.RecordBatch:
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        problems: dict[str, dict[int, str]] = {}
        if self._wanted.masks:
            problems = self._mask(columns)
        for part in _PARTS:
            columns[part], lost = _cast(columns[part], schema.field(part).type)
            problems.setdefault(part, {}).update(dict.fromkeys(lost, _NO_FIT))
        if "finding" in columns:
            findings += self._tell(columns, problems, batch, partition)
        return pa.RecordBatch.from_arrays([_or_null(columns, each, batch.num_rows) for each in schema], schema=schema)

    def _mask(self, columns: dict[str, pa.Array]) -> dict[str, dict[int, str]]:
        problems = {}
        for part in _PARTS:
            if pa.types.is_string(columns[part].type):
                columns[part], lost = masked_texts(columns[part], self._wanted.masks)
                problems[part] = dict.fromkeys(lost, _NO_MASK)
            else:
                columns[part] = masked_column(columns[part], self._wanted.masks)
            columns[f"{part}_bytes"] = pa.nulls(len(columns[part]), pa.binary())
        return problems

    def _tell(
        self, columns: dict[str, pa.Array], problems: dict[str, dict[int, str]], batch: pa.RecordBatch,
        partition: Partition,
    ) -> Iterator[Finding]:  # fmt: skip
        """Handle values that do not fit their column like values that cannot be decoded: add the reason to the column
        `finding` and, without masks, the original bytes to the `_bytes` column of the part. `problems` maps part -> row
        number -> reason. Changes `columns` in place. Yield one finding per part (`key`, `value`) that has such rows.
        Raises `StorageError` while iterating if the bytes cannot be read again.
        """
        for part, rows in problems.items():
            if not rows:
                continue
            kept, reasons = columns[f"{part}_bytes"].to_pylist(), columns["finding"].to_pylist()
            for row, why in rows.items():
                reasons[row] = "; ".join(filter(None, [reasons[row], f"{part}: {why}"]))
                if not self._wanted.masks:
                    kept[row] = _bytes_of(partition, batch.column("offset")[row].as_py(), part)
            columns[f"{part}_bytes"], columns["finding"] = pa.array(kept, pa.binary()), pa.array(reasons, pa.string())
            first, why = min(rows.items())
            detail = f"{counted(len(rows), 'record')} not decoded: {part}: {why}"
            offset = batch.column("offset")[first].as_py()
            yield Finding(
                FindingCode.VALUE_UNDECODABLE, Severity.WARNING, None, offset, detail, partition.path
            )


def _bytes_of(partition: Partition, offset: int, part: str) -> bytes | None:
    for record in partition.records(RecordFilter(start_offset=offset, end_offset=offset + 1), on_damage=STOP):
        return record.key if part == "key" else record.value
    return None


def _or_null(columns: dict[str, pa.Array], field: pa.Field, rows: int) -> pa.Array:
    column = columns.get(field.name)
    if column is None:
        return pa.nulls(rows, field.type)
    return column if column.type.equals(field.type) else column.cast(field.type)


def _cast(column: pa.Array, type: pa.DataType) -> tuple[pa.Array, list[int]]:
    """Convert a column to another type; return it, and the numbers of the rows, ascending, that do not fit the type and
    became null.
    """
    return (column, []) if column.type.equals(type) else fitting(column, lambda some: some.cast(type), type)
