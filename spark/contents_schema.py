"""Values of `contents` and their columns, which do not depend on the versions that wrote the files.

Names are those of kafka-dump-log, of Kafka's admin client and of ZooKeeper. Times are timestamps. Values that a version
does not have are null.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
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

from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.rules.batch_fields import BATCH_FIELDS, POSITION, Kind

__all__ = ["SCHEMAS", "chosen"]

_BY_WORD: dict[str, DataType] = {
    "binary": BinaryType(),
    "boolean": BooleanType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "string": StringType(),
    "timestamp": TimestampType(),
    "names": ArrayType(StringType()),
    "counts": MapType(StringType(), LongType()),
}


def _struct(text: str, **nested: DataType) -> StructType:
    """Parse `name type, …`. Spark's own parser needs a session."""
    fields = [part.split() for part in text.split(",")]
    return StructType([StructField(name, nested[name] if name in nested else _BY_WORD[word]) for name, word in fields])


_ASSIGNMENTS = MapType(StringType(), ArrayType(StringType()))
_MEMBER = _struct(
    "memberId string, instance string, clientId string, host string, assignment names, subscription names, "
    "rack string, memberEpoch int, targetAssignment names, unresolvedTopicIds names"
)
_GROUP_OFFSET = _struct("tp string, offset bigint, metadata string, leaderEpoch int")
_ACL = _struct("perms int, scheme string, id string")
_WHERE = "topic string, partition int, file string"

_OF_KIND = {
    Kind.INT8: "int", Kind.INT16: "int", Kind.INT32: "int", Kind.INT64: "bigint", Kind.BOOLEAN: "boolean",
    Kind.TEXT: "string", Kind.TIME: "timestamp",
}  # fmt: skip
_FIRST = (POSITION, "size", "magic")
_HEADER = ", ".join(f"{name} {_OF_KIND[BATCH_FIELDS[name].kind]}" for name in dict.fromkeys((*_FIRST, *BATCH_FIELDS)))

SCHEMAS: dict[str, StructType] = {
    "batches": _struct(f"{_WHERE}, {_HEADER}, isvalid boolean"),
    "segments": _struct(
        f"{_WHERE}, state string, baseOffset bigint, bytes bigint, validBytes bigint, stop string, batches bigint, "
        "firstOffset bigint, lastOffset bigint, firstTimestamp timestamp, lastTimestamp timestamp, codecs counts, "
        "magics counts, files counts, findings names"
    ),
    "findings": _struct(
        f"{_WHERE}, code string, severity string, position bigint, offset bigint, lastOffset bigint, "
        "firstUnread bigint, lastUnread bigint, newestBefore timestamp, oldestAfter timestamp, detail string"
    ),
    "offset_index": _struct(f"{_WHERE}, offset bigint, position bigint"),
    "time_index": _struct(f"{_WHERE}, timestamp timestamp, offset bigint"),
    "aborted_transactions": _struct(
        f"{_WHERE}, version int, producerId bigint, firstOffset bigint, lastOffset bigint, lastStableOffset bigint"
    ),
    "producer_state": _struct(
        f"{_WHERE}, producerId bigint, producerEpoch int, coordinatorEpoch int, currentTxnFirstOffset bigint, "
        "lastTimestamp timestamp, firstSequence int, lastSequence int, lastOffset bigint, offsetDelta int"
    ),
    "leader_epochs": _struct(f"{_WHERE}, epoch int, startOffset bigint"),
    "checkpoints": _struct("file string, topic string, partition int, offset bigint"),
    "offsets": _struct(
        "group string, topic string, partition int, offset bigint, metadata string, leaderEpoch int, "
        "commitTimestamp timestamp, expireTimestamp timestamp, topicId string, logPartition int, logOffset bigint, "
        "producerId bigint, pending boolean"
    ),
    "groups": _struct(
        "group string, state string, type string, groupEpoch int, assignor string, members -, offsets -, "
        "protocolType string, generation int, leader string, assignmentEpoch int, stateTimestamp timestamp, "
        "logPartition int, expectedPartition int, pendingOffsets int, assignmentAsDerived boolean, "
        "derivedAssignment -, assignmentProblems names",
        members=ArrayType(_MEMBER),
        offsets=ArrayType(_GROUP_OFFSET),
        derivedAssignment=_ASSIGNMENTS,
    ),
    "transactions": _struct(
        "transactionalId string, state string, producerId bigint, producerEpoch int, partitions names, "
        "timeoutMs int, lastUpdateTimestamp timestamp, startTimestamp timestamp, logPartition int, logOffset bigint, "
        "topic string, partition int, lastSequence int, lastTimestamp timestamp, coordinatorEpoch int, "
        "currentTxnStart bigint, hanging boolean, ageMs bigint, lastStableOffset bigint, logEndOffset bigint"
    ),
    "metadata": _struct(
        "file string, offset bigint, epoch int, timestamp timestamp, isControl boolean, type string, version int, "
        "data string"
    ),
    "znodes": _struct(
        "path string, data binary, czxid bigint, mzxid bigint, pzxid bigint, ctime timestamp, mtime timestamp, "
        "version int, cversion int, aversion int, ephemeralOwner bigint, dataLength int, numChildren int, acl -",
        acl=ArrayType(_ACL),
    ),
}


def chosen(schema: StructType, contents: str) -> StructType:
    """Return `schema` after checking it as a choice of the columns of `contents`. Raises `UsageError` if a column is
    unknown, has another type or is NOT NULL, or if there is no column.
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
