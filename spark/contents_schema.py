"""The values of the option `contents`, and their columns, which do not depend on the versions that wrote the files.

Names are those of kafka-dump-log, of Kafka's admin client and of ZooKeeper. Times are timestamps. A value that a
version does not have is null.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kafkalog.cluster.groups.group_lines import GroupLine, OffsetFields
from kafkalog.cluster.transactions.transaction_lines import ProducerLine, TransactionalIdLine
from kafkalog.cluster.zookeeper.node_lines import ZkLine
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.findings import FindingJson, Unread
from kafkalog.codec.rules.batch_fields import BATCH_FIELDS, POSITION, Kind
from kafkalog.log.directories import side_file_lines as side
from kafkalog.log.walk.summary import SegmentLine
from kafkalog.spark.contents_lines import UNREAD_NAMES, FileLine, MetadataLine, PlaceLine, StateLine
from kafkalog.spark.struct_columns import struct_of

__all__ = ["SCHEMAS", "SHAPES", "chosen"]

SHAPES: dict[str, tuple[type[Struct], ...]] = {
    "segments": (PlaceLine, StateLine, SegmentLine),
    "findings": (PlaceLine, FindingJson, Unread),
    "offset_index": (PlaceLine, side.OffsetIndexLine),
    "time_index": (PlaceLine, side.TimeIndexLine),
    "aborted_transactions": (PlaceLine, side.TransactionIndexLine),
    "producer_state": (PlaceLine, side.ProducerLine),
    "leader_epochs": (PlaceLine, side.LeaderEpochLine),
    "checkpoints": (FileLine, side.CheckpointLine),
    "offsets": (OffsetFields,),
    "groups": (GroupLine,),
    "transactions": (TransactionalIdLine, ProducerLine),
    "metadata": (MetadataLine,),
    "znodes": (ZkLine,),
}
"""Lines whose fields are the columns of each kind of contents; those of `batches` are `BATCH_FIELDS`."""

_OTHER_COLUMNS: dict[str, dict[str, Any]] = {
    # the path is the column `file`; batches after damage are found only by searching the whole log
    "segments": {
        "without": ("path", "sound_batches_behind_damage", "sound_records_behind_damage"),
        "last": ("findings",),
    },
    "findings": {"without": ("unread",), "names": UNREAD_NAMES, "last": ("detail", "batch")},
    "producer_state": {"without": ("timestamp",)},  # the same as `lastTimestamp`
    # fields of the history, and of offsets in ZooKeeper
    "offsets": {"without": ("timestamp", "previous", "source", "zxid", "chroot")},
    # results of options that only the command has
    "groups": {
        "without": ("assignmentWithout", "assignmentWith", "assignmentGrown"),
        "last": ("coordinator", "shareState"),
    },
    "transactions": {
        "types": {"partitions": ArrayType(StringType())},
        "last": ("decided", "decidedBy", "abortCommand", "abortCommandBefore_3_0"),
    },
    "znodes": {"without": ("kafka",), "types": {"data": BinaryType()}},  # what the data says
}
"""Arguments of `struct_of` for contents whose columns differ from the fields of the lines."""

_OF_KIND: dict[Kind, DataType] = {
    Kind.INT8: IntegerType(), Kind.INT16: IntegerType(), Kind.INT32: IntegerType(), Kind.INT64: LongType(),
    Kind.BOOLEAN: BooleanType(), Kind.TEXT: StringType(), Kind.TIME: TimestampType(),
}  # fmt: skip
_FIRST = (POSITION, "size", "magic")
_BATCHES = [
    *struct_of(PlaceLine).fields,
    *(StructField(name, _OF_KIND[BATCH_FIELDS[name].kind]) for name in dict.fromkeys((*_FIRST, *BATCH_FIELDS))),
    StructField("isvalid", BooleanType()),
]

SCHEMAS: dict[str, StructType] = {
    "batches": StructType(_BATCHES),
    **{contents: struct_of(*shapes, **_OTHER_COLUMNS.get(contents, {})) for contents, shapes in SHAPES.items()},
}


def chosen(schema: StructType, contents: str) -> StructType:
    """Check that `schema` is a selection of the columns of `contents`, and return it. Raises `UsageError` if a column
    is unknown, has another type or is NOT NULL, or if there is no column.
    """
    whole = {field.name: field.dataType for field in SCHEMAS[contents].fields}
    if not schema.fields:
        raise UsageError("the schema has no column")
    for field in schema.fields:
        kind = whole.get(field.name)
        if kind is None:
            raise UsageError(f"contents={contents} has no column {field.name}; there are {', '.join(whole)}")
        if field.dataType != kind:
            raise UsageError(f"column {field.name} is {kind.simpleString()}, not {field.dataType.simpleString()}")
        if not field.nullable:
            raise UsageError(f"column {field.name} is declared NOT NULL, but any column of kafkalog may be null")
    return schema
