"""Derive columns from Structs: a new field of a Struct becomes a column without another edit.

Structs have one kind of integer. Integers of columns are 64 bits wide, except for the names below, whose values Kafka
stores in 32 bits or fewer. Times are timestamps: microseconds in UTC.
"""

from __future__ import annotations

import re

import msgspec
import pyarrow as pa
from msgspec import Struct

__all__ = ["column_name", "column_types", "fields_of", "type_of"]

_SMALL = frozenset((
    "assignmentEpoch", "aversion", "coordinator", "coordinatorEpoch", "cversion", "dataLength", "deliveryCount",
    "epoch", "errors", "expectedPartition", "firstSequence", "generation", "groupEpoch", "lastSequence",
    "leaderEpoch", "logPartition", "memberEpoch", "numChildren", "offsetDelta", "partition", "pendingOffsets",
    "perms", "producerEpoch", "sequence", "snapshotEpoch", "stateEpoch", "timeoutMs", "timestampType", "version",
    "warnings",
))  # fmt: skip
_TIME = re.compile(r"(?:^t|T)imestamp$|^[cm]time$|^newestBefore$|^oldestAfter$")
_PLAIN: dict[type[msgspec.inspect.Type], pa.DataType] = {
    msgspec.inspect.BoolType: pa.bool_(),
    msgspec.inspect.BytesType: pa.binary(),
    msgspec.inspect.StrType: pa.string(),
    msgspec.inspect.LiteralType: pa.string(),
}


def column_name(name: str) -> str:
    """Return the name of the column for a field in JSON: `validBytes` for `valid_bytes`. A name without an underscore
    is not changed.
    """
    return re.sub("_([a-z])", lambda match: match[1].upper(), name)


def fields_of(shape: type[Struct]) -> tuple[msgspec.inspect.Field, ...]:
    """Return the fields of a Struct with their types, in their order."""
    info = msgspec.inspect.type_info(shape)
    return info.fields if isinstance(info, msgspec.inspect.StructType) else ()


def column_types(*shapes: type[Struct]) -> dict[str, pa.DataType]:
    """Return the type of the column of each field of the shapes, by the column's name. Raises `TypeError` for a field
    that no column can hold.
    """
    return {column_name(field.encode_name): type_of(field) for shape in shapes for field in fields_of(shape)}


def type_of(field: msgspec.inspect.Field, *, with_times: bool = True) -> pa.DataType:
    """Return the type of a field's column; without `with_times`, times are numbers. Raises `TypeError` for a field that
    no column can hold.
    """
    return _type(field.type, field.encode_name, with_times)


def _type(kind: msgspec.inspect.Type, name: str, with_times: bool) -> pa.DataType:
    inspected = msgspec.inspect
    if type(kind) in _PLAIN:
        return _PLAIN[type(kind)]
    match kind:
        case inspected.EnumType() if not issubclass(kind.cls, int):
            return pa.string()
        case inspected.IntType() | inspected.EnumType():
            column = column_name(name)
            if with_times and _TIME.search(column):
                return pa.timestamp("us", tz="UTC")
            return pa.int32() if column in _SMALL else pa.int64()
        case inspected.UnionType():
            not_none = [member for member in kind.types if not isinstance(member, inspected.NoneType)]
            if len(not_none) == 1:
                return _type(not_none[0], name, with_times)
        case inspected.ListType() | inspected.VarTupleType():
            return pa.list_(pa.field("element", _type(kind.item_type, name, with_times)))
        case inspected.DictType():
            return pa.map_(pa.string(), _type(kind.value_type, name, with_times))
        case inspected.StructType() | inspected.NamedTupleType():
            return pa.struct([(each.encode_name, type_of(each, with_times=with_times)) for each in kind.fields])
    raise TypeError(f"{name} has no type as a column: {kind}")
