"""Decode keys and values: their types in Spark, and the decoding of Arrow batches in a task.

Times of day are numbers, because Spark 4.3 rejects its own type for them in many places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from kafkalog.values.column_schema import ColumnSchema

if TYPE_CHECKING:
    from kafkalog.values.arrow_column import ColumnDecoder
    from kafkalog.values.decoding import ValueDecoder
    from kafkalog.values.registry import SchemaRegistry

__all__ = ["NOTHING_DECODED", "DecodedBatch", "DecodedPart", "DecodedParts", "spark_type"]

_UINT64 = pa.decimal128(20, 0)


def spark_type(kind: pa.DataType, *, nanoseconds: bool = False) -> pa.DataType:
    """Return the Spark type, as an Arrow type, that holds values of an Arrow type. 32-bit unsigned integers become
    64-bit integers, 64-bit unsigned integers become decimals, and 256-bit decimals become strings. Times (32-bit in ms,
    64-bit in microseconds) become integers of the same size. Timestamps get microseconds; with `nanoseconds`, those in
    nanoseconds become 64-bit integers. Types inside structs, lists and maps are converted too, and map keys become
    strings. Other types are unchanged.
    """

    def of(kind: pa.DataType) -> pa.DataType:
        return spark_type(kind, nanoseconds=nanoseconds)

    if pa.types.is_struct(kind):
        return pa.struct([(field_of_struct.name, of(field_of_struct.type)) for field_of_struct in kind])
    if pa.types.is_list(kind):
        return pa.list_(of(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(pa.string(), of(kind.item_type))
    if pa.types.is_timestamp(kind):
        if kind.unit == "ns" and nanoseconds:
            return pa.int64()
        return pa.timestamp("us", kind.tz)
    if pa.types.is_decimal256(kind):
        return pa.string()
    others = {pa.uint32(): pa.int64(), pa.uint64(): _UINT64, pa.time32("ms"): pa.int32(), pa.time64("us"): pa.int64()}
    return others.get(kind, kind)


def _as_spark(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert an array to the type `kind`, which `spark_type` returned for its type, also inside structs, lists and
    maps. Nanoseconds are rounded down to microseconds, unless `kind` is a 64-bit integer, which keeps them. Raises
    `ArrowInvalid` for a value that does not fit.
    """
    if array.type == kind:
        return array
    if pa.types.is_struct(kind):
        children = [_as_spark(array.field(number), kind.field(number).type) for number in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        # a copy, whose offsets begin with 0
        array = pa.concat_arrays([array, array.slice(0, 0)]) if array.offset else array
        if pa.types.is_list(kind):
            values = _as_spark(array.values, kind.value_type)
            return pa.ListArray.from_arrays(array.offsets, values, type=kind, mask=array.is_null())
        items = _as_spark(array.items, kind.item_type)
        return pa.MapArray.from_arrays(array.offsets, array.keys, items, type=kind, mask=array.is_null())
    if pa.types.is_timestamp(array.type) and array.type.unit == "ns" and pa.types.is_timestamp(kind):
        array = pc.floor_temporal(array, unit="microsecond")
    return array.cast(kind)


class DecodedPart(Struct, frozen=True):
    """How to decode the keys or the values (`part`): their schema, and their type in Spark. It is sent to every
    task.
    """

    part: str
    chosen: ColumnSchema
    type: pa.DataType


class DecodedBatch(NamedTuple):
    """Decoded columns of a batch by part (`key`, `value`), and errors of rows that were not decoded."""

    columns: dict[str, pa.Array]
    problems: dict[int, dict[str, str]]
    """row -> part -> error; the value is null there"""


@dataclass(frozen=True)
class DecodedParts:
    """The keys and values to decode, and the schema registry for it. Decoders of a topic are created on demand."""

    parts: tuple[DecodedPart, ...] = ()
    registry: SchemaRegistry | None = None
    _columns: dict[tuple[str | None, str], ColumnDecoder] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def __getstate__(self) -> dict[str, object]:
        return {"parts": self.parts, "registry": self.registry, "_columns": {}}

    @property
    def types(self) -> dict[str, pa.DataType]:
        """Spark types, as Arrow types, by part."""
        return {decoded_part.part: decoded_part.type for decoded_part in self.parts}

    def among(self, names: Sequence[str]) -> DecodedParts:
        """Return a copy with only the parts whose columns are in `names`."""
        return DecodedParts(tuple(part for part in self.parts if part.part in names), self.registry)

    @cached_property
    def _decoder(self) -> ValueDecoder:
        from kafkalog.values.decoding import ValueDecoder
        from kafkalog.values.registry import SchemaRegistry

        return ValueDecoder(self.registry or SchemaRegistry())

    def _column(self, topic: str | None, part: DecodedPart) -> ColumnDecoder:
        from kafkalog.values.arrow_column import ColumnDecoder

        column_decoder = self._columns.get((topic, part.part))
        if column_decoder is None:
            column_decoder = ColumnDecoder(self._decoder, topic, part.part, part.chosen)
            self._columns[topic, part.part] = column_decoder
        return column_decoder

    def decode(self, batch: pa.RecordBatch, topic: str | None) -> DecodedBatch:
        """Decode the keys and values of a batch, which are columns of bytes. Return the decoded columns by part (`key`,
        `value`), and for each row number with problems the reason by part. A value that cannot be decoded, or does not
        fit its Spark type, is null. Raises `UsageError` if a package for decoding is missing.
        """
        from kafkalog.values.fitting import fitting
        from kafkalog.values.to_arrow import headers_of

        headers = headers_of(batch)
        columns: dict[str, pa.Array] = {}
        problems: dict[int, dict[str, str]] = {}
        for part in self.parts:
            decoded = self._column(topic, part).decode(batch.column(part.part), headers)
            columns[part.part], lost = fitting(
                decoded.values, partial(_as_spark, kind=part.type), part.type, (pa.ArrowInvalid,)
            )
            no_fit = dict.fromkeys(lost, f"{part.part}: it does not fit Spark's type of the column")
            for row, problem in (decoded.problems | no_fit).items():
                problems.setdefault(row, {})[part.part] = problem
        return DecodedBatch(columns, problems)


NOTHING_DECODED = DecodedParts()
