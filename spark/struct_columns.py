"""Derive Spark's columns from the Structs of JSON lines: a new field of a line becomes a column without another edit.

JSON has one kind of integer. Spark's integers are 64 bits wide here, except for the names below, whose values Kafka
stores in 32 bits or fewer. Times are timestamps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Struct
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kafkalog.codec.common.shapes import plain

__all__ = ["Row", "as_columns", "column_name", "struct_of"]

Row = dict[str, object]

_SMALL = frozenset((
    "assignmentEpoch", "aversion", "coordinator", "coordinatorEpoch", "cversion", "dataLength", "deliveryCount",
    "epoch", "errors", "expectedPartition", "firstSequence", "generation", "groupEpoch", "lastSequence",
    "leaderEpoch", "logPartition", "memberEpoch", "numChildren", "offsetDelta", "partition", "pendingOffsets",
    "perms", "producerEpoch", "snapshotEpoch", "stateEpoch", "timeoutMs", "version", "warnings",
))  # fmt: skip
_TIME = re.compile(r"(?:^t|T)imestamp$|^[cm]time$|^newestBefore$|^oldestAfter$")
_PLAIN: dict[type[msgspec.inspect.Type], DataType] = {
    msgspec.inspect.BoolType: BooleanType(),
    msgspec.inspect.StrType: StringType(),
    msgspec.inspect.EnumType: StringType(),
    msgspec.inspect.LiteralType: StringType(),
}


def column_name(name: str) -> str:
    """Return the name of the column for a field in JSON: `validBytes` for `valid_bytes`. A name without an underscore
    is not changed.
    """
    return re.sub("_([a-z])", lambda match: match[1].upper(), name)


def as_columns(line: Struct | Row, names: Mapping[str, str] | None = None) -> Row:
    """Return a line as a row: column name -> value as in JSON. `names` has other column names, as for `struct_of`, for
    fields whose names in Python and in JSON are equal.
    """
    kind = type(line).__name__
    return {(names or {}).get(f"{kind}.{name}", column_name(name)): value for name, value in plain(line).items()}


def struct_of(
    *shapes: type[Struct],
    without: tuple[str, ...] = (),
    last: tuple[str, ...] = (),
    names: Mapping[str, str] | None = None,
    types: Mapping[str, DataType] | None = None,
    as_json: bool = False,
) -> StructType:
    """Return a schema with a column for each field of the shapes, in their order. If several fields have the same name,
    only the first gets a column. `without` names columns to leave out. `last` names columns to move to the end, in this
    order. `names` gives fields (`Unread.first_offset`) another column name. `types` gives columns another type.

    With `as_json` the columns have the names of the JSON fields, and times are numbers. Raises `TypeError` for a field
    that has no type in Spark.
    """
    columns: dict[str, DataType] = {}
    for shape in shapes:
        for field in _fields(shape):
            name = (names or {}).get(f"{shape.__name__}.{field.name}")
            name = name or (field.encode_name if as_json else column_name(field.encode_name))
            if name not in columns and name not in without and field.encode_name not in without:
                other_type = (types or {}).get(name)
                columns[name] = other_type or _type(field.type, field.encode_name, with_times=not as_json)
    ordered = [*(name for name in columns if name not in last), *last]
    return StructType([StructField(name, columns[name]) for name in ordered])


def _fields(shape: type[Struct]) -> Iterator[msgspec.inspect.Field]:
    info = msgspec.inspect.type_info(shape)
    if isinstance(info, msgspec.inspect.StructType):
        yield from info.fields


def _type(kind: msgspec.inspect.Type, name: str, *, with_times: bool) -> DataType:
    inspected = msgspec.inspect
    if type(kind) in _PLAIN:
        return _PLAIN[type(kind)]
    match kind:
        case inspected.IntType():
            column = column_name(name)
            if with_times and _TIME.search(column):
                return TimestampType()
            return IntegerType() if column in _SMALL else LongType()
        case inspected.UnionType():
            not_none = [member for member in kind.types if not isinstance(member, inspected.NoneType)]
            if len(not_none) == 1:
                return _type(not_none[0], name, with_times=with_times)
        case inspected.ListType() | inspected.VarTupleType():
            return ArrayType(_type(kind.item_type, name, with_times=with_times))
        case inspected.DictType():
            return MapType(StringType(), _type(kind.value_type, name, with_times=with_times))
        case inspected.StructType():
            inner = [
                StructField(field.encode_name, _type(field.type, field.encode_name, with_times=with_times))
                for field in kind.fields
            ]
            return StructType(inner)
    raise TypeError(f"{name} has no type for Spark: {kind}")
