"""Immutable values of a log: batches, headers, records, markers and the entries of side files. Field names and order
are those of the declarations in `codec.layout` (a test compares them). Values that follow from the fields are
properties. Sentinels such as -1 have names.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from msgspec import Struct

from kafkalog.codec import derive
from kafkalog.codec.common.sentinels import (
    MICROSECONDS,
    NO_END,
    NO_OFFSET,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
)
from kafkalog.codec.compression.specs import Codec
from kafkalog.codec.layout import legacy_message, record_batch
from kafkalog.codec.layout.attributes import ATTRIBUTES_V1, ATTRIBUTES_V2

__all__ = [
    "BATCH",
    "LOG_OVERHEAD",
    "MICROSECONDS",
    "NO_END",
    "NO_OFFSET",
    "NO_PARTITION_LEADER_EPOCH",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "AbortedTransaction",
    "BatchHeader",
    "Codec",
    "ControlRecordType",
    "ControlType",
    "EndTransactionMarker",
    "Header",
    "LegacyHeader",
    "ProducerEntry",
    "Record",
    "RecordBatch",
    "TimestampType",
    "TransactionState",
    "to_int32",
    "to_int64",
]

CODEC_MASK = ATTRIBUTES_V2.mask("codec")
TIMESTAMP_TYPE_FLAG = ATTRIBUTES_V2.mask("timestamp_type")
TRANSACTIONAL_FLAG = ATTRIBUTES_V2.mask("is_transactional")
CONTROL_FLAG = ATTRIBUTES_V2.mask("is_control")
DELETE_HORIZON_FLAG = ATTRIBUTES_V2.mask("has_delete_horizon")
KNOWN_ATTRIBUTES = ATTRIBUTES_V2.known
if ATTRIBUTES_V1.known != CODEC_MASK | TIMESTAMP_TYPE_FLAG:
    raise derive.DerivationError("the bits that messages and batches share are not the same in both")

MAX_SEQUENCE = 2**31 - 1

Bytes = bytes | memoryview


class TimestampType(enum.IntEnum):
    """Origin of a record's timestamp (`TimestampType`). The numbers are those of Spark's Kafka source."""

    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1

    @property
    def label(self) -> str:
        """Name of the type as Kafka's tools print it: `NoTimestampType`, `CreateTime` or `LogAppendTime`."""
        return {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}[self.value]


class TransactionState(enum.IntEnum):
    """States of `TransactionMetadata`; an unknown number stays a number."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """Kafka's name of the state."""
        return "".join(word.capitalize() for word in self.name.split("_"))


class ControlType(enum.IntEnum):
    """Types of control records (`ControlRecordType`)."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_CODECS = frozenset(Codec)
_CONTROL_TYPES = frozenset(ControlType)


def codec_label(codec: int) -> str:
    """Return the name of a compression id, or the id as digits if it is unknown."""
    return Codec(codec).label if codec in _CODECS else str(codec)


def increment_sequence(sequence: int, by: int) -> int:
    """Return the sequence number that is `by` after `sequence`. It wraps from 2^31 - 1 to 0
    (`DefaultRecordBatch.incrementSequence`). Values that no broker writes, such as a negative `by`, give the result of
    Java's 32-bit arithmetic.
    """
    wrapped = sequence + by if sequence <= to_int32(MAX_SEQUENCE - by) else by - (MAX_SEQUENCE - sequence) - 1
    return to_int32(wrapped)


def to_int64(value: int) -> int:
    """Wrap an integer to signed 64 bits, as Java's arithmetic does. Sums with deltas from damaged or hostile batches
    can exceed 64 bits.
    """
    return (value + 2**63) % 2**64 - 2**63


def to_int32(value: int) -> int:
    """Wrap an integer to signed 32 bits, as Java's arithmetic does."""
    return (value + 2**31) % 2**32 - 2**31


class BatchHeader(Struct, frozen=True):
    """Header of a v2 record batch (`DefaultRecordBatch`), or of a batch whose magic byte is above 2."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size(self) -> int:
        """Size of the whole batch in bytes, with offset and length field."""
        return self.batch_length + LOG_OVERHEAD.size

    @property
    def first_offset(self) -> int:
        """Lowest offset of the batch according to its header."""
        return self.base_offset

    @property
    def last_offset(self) -> int:
        """Offset of the last record that the producer wrote into the batch. Compaction may have removed that record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Offset after the last one: where the next batch starts if there is no gap."""
        return self.last_offset + 1

    @property
    def codec(self) -> int:
        """Compression id; see `Codec`. An unknown id is returned as it is."""
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> TimestampType:
        """CREATE_TIME or LOG_APPEND_TIME."""
        return TimestampType.LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_FLAG else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction."""
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        """Whether the batch holds control records, which consumers never get."""
        return bool(self.attributes & CONTROL_FLAG)

    @property
    def delete_horizon_ms(self) -> int | None:
        """Time in ms since 1970 from which compaction may drop this batch's tombstones or marker; None if not set."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None

    @property
    def first_timestamp(self) -> int:
        """Timestamp of the batch's first record, in ms since 1970; -1 if there is none. The header does not have it
        with LogAppendTime, with a delete horizon, or with a negative base timestamp: then this is the largest timestamp
        of the batch.
        """
        is_known = self.timestamp_type is TimestampType.CREATE_TIME and self.delete_horizon_ms is None
        return self.base_timestamp if is_known and self.base_timestamp >= 0 else self.max_timestamp

    @property
    def claimed_records(self) -> int | None:
        """Number of records according to the header. It may be wrong, even negative; never None."""
        return self.records_count

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent or transactional producer wrote the batch, or it is a marker for one."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; -1 if the batch has no sequence numbers."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)


class LegacyHeader(Struct, frozen=True):
    """Header of a v0 or v1 message or wrapper (`AbstractLegacyRecordBatch`), with the field names of a v2 header."""

    offset: int
    batch_length: int
    crc: int
    magic: int
    attributes: int
    timestamp: int = NO_TIMESTAMP

    @property
    def size(self) -> int:
        """Size of the whole entry in bytes, with offset and size field."""
        return self.batch_length + LOG_OVERHEAD.size

    @property
    def first_offset(self) -> int:
        """Offset in the header. For a wrapper this is the last inner offset: the lower ones are inside it."""
        return self.offset

    @property
    def last_offset(self) -> int:
        """Offset in the header: the message's, or that of a wrapper's last inner message."""
        return self.offset

    @property
    def next_offset(self) -> int:
        """Lowest offset at which the entry after this one can start."""
        return self.offset + 1

    @property
    def codec(self) -> int:
        """Compression id; see `Codec`. An unknown id is returned as it is."""
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> TimestampType:
        """NO_TIMESTAMP_TYPE for magic 0; otherwise CREATE_TIME or LOG_APPEND_TIME."""
        if self.magic == 0:
            return TimestampType.NO_TIMESTAMP_TYPE
        return TimestampType.LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_FLAG else TimestampType.CREATE_TIME

    @property
    def max_timestamp(self) -> int:
        """Timestamp in the header, in ms since 1970; -1 for magic 0."""
        return self.timestamp if self.magic > 0 else NO_TIMESTAMP

    @property
    def first_timestamp(self) -> int:
        """Timestamp in the header, as `max_timestamp`: a wrapper's lower timestamps are inside it."""
        return self.max_timestamp

    @property
    def claimed_records(self) -> int | None:
        """Number of records according to the header: 1 for a message, None for a wrapper, whose header does not have
        it.
        """
        return None if self.codec else 1

    @property
    def partition_leader_epoch(self) -> int:
        """Always -1: entries before v2 have no leader epoch."""
        return NO_PARTITION_LEADER_EPOCH

    @property
    def producer_id(self) -> int:
        """Always -1: entries before v2 have no producer."""
        return NO_PRODUCER_ID

    @property
    def producer_epoch(self) -> int:
        """Always -1: entries before v2 have no producer."""
        return NO_PRODUCER_EPOCH

    @property
    def base_sequence(self) -> int:
        """Always -1: entries before v2 have no sequence numbers."""
        return NO_SEQUENCE

    @property
    def last_sequence(self) -> int:
        """Always -1: entries before v2 have no sequence numbers."""
        return NO_SEQUENCE

    @property
    def has_producer_id(self) -> bool:
        """Always False: entries before v2 have no producer."""
        return False

    @property
    def is_transactional(self) -> bool:
        """Always False: entries before v2 have no transactions."""
        return False

    @property
    def is_control(self) -> bool:
        """Always False: there are no control records before v2."""
        return False

    @property
    def delete_horizon_ms(self) -> int | None:
        """Always None: entries before v2 have no delete horizon."""
        return None


AnyHeader = BatchHeader | LegacyHeader


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """A v2 batch or a v0/v1 entry of a file: its header, its position in the file and all its bytes."""

    header: AnyHeader
    position: int
    data: Bytes = field(repr=False)

    def __reduce__(self) -> tuple[type[RecordBatch], tuple[AnyHeader, int, bytes]]:
        return RecordBatch, (self.header, self.position, bytes(self.data))  # a view cannot leave its process

    @property
    def magic(self) -> int:
        """Message format: 0, 1 or 2."""
        return self.header.magic

    @property
    def size(self) -> int:
        """Size of the whole batch in bytes."""
        return self.header.size

    @property
    def end(self) -> int:
        """Position in the file after the batch, in bytes."""
        return self.position + self.header.size

    @property
    def first_offset(self) -> int:
        """First offset of the batch; see the property of its header."""
        return self.header.first_offset

    @property
    def last_offset(self) -> int:
        """Last offset of the batch; see the property of its header."""
        return self.header.last_offset

    @property
    def next_offset(self) -> int:
        """Offset after the last one; see the property of its header."""
        return self.header.next_offset

    @property
    def payload(self) -> Bytes:
        """Bytes after a v2 header: the records, or one compressed stream of them."""
        return self.data[BATCH.size :]


class Header(NamedTuple):
    """One record header, a pair; keys may repeat.  `key` is UTF-8; other bytes are kept as surrogate escapes."""

    key: str
    value: bytes | None


class Record(Struct, frozen=True):
    """One record as a consumer gets it. `timestamp` is in ms since 1970, -1 if there is none; `key` and `value` may be
    None (null).
    """

    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()
    sequence: int = NO_SEQUENCE
    leader_epoch: int = NO_PARTITION_LEADER_EPOCH


class ControlRecordType(Struct, frozen=True):
    """Key of a control record. `type` is a plain number, because it may be unknown."""

    version: int
    type: int

    @property
    def label(self) -> str:
        """Name of the type in `ControlType`, or UNKNOWN."""
        return ControlType(self.type).name if self.type in _CONTROL_TYPES else "UNKNOWN"


class EndTransactionMarker(Struct, frozen=True):
    """Value of a control record that ends a transaction: COMMIT or ABORT (`EndTransactionMarker`)."""

    type: ControlType
    coordinator_epoch: int


class AbortedTransaction(Struct, frozen=True):
    """One entry of a transaction index (`.txnindex`): a transaction that was aborted."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class ProducerEntry(Struct, frozen=True):
    """One producer of a producer snapshot (`.snapshot`)."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int


def field_names(row: type[Any]) -> tuple[str, ...]:
    """Return the names of a class's fields, in the order of its constructor's parameters."""
    names: tuple[str, ...] = row.__match_args__
    return names


LOG_OVERHEAD = derive.fixed(record_batch.LOG_OVERHEAD, ("offset", "size"))
BATCH = derive.fixed(record_batch.BATCH_HEADER, field_names(BatchHeader))
_MESSAGE_NAMES = tuple({"batch_length": "size"}.get(name, name) for name in field_names(LegacyHeader))
MESSAGE_V0 = derive.fixed(legacy_message.MESSAGE_V0_HEADER, _MESSAGE_NAMES[:-1])
MESSAGE_V1 = derive.fixed(legacy_message.MESSAGE_V1_HEADER, _MESSAGE_NAMES)
