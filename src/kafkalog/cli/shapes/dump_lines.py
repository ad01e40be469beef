"""Lines of `kafkalog dump --json`, for its schema alone.

Compiled code writes them, or functions that follow from tables (`BATCH_FIELDS`): no instance of these types is made,
and the tests hold what is printed against them.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from msgspec import UNSET, Meta, Struct, UnsetType, field

__all__ = ["Line"]


class WrittenWithLine(Struct, frozen=True, kw_only=True):
    """The schema that a key or a value was written with."""

    id: int
    """its id"""
    type: str
    """`AVRO`, `PROTOBUF`, `JSON`, or that of a plug-in"""
    subject: str
    """that of the topic if it has the id, else the first that had it"""


class DecodedLine(Struct, frozen=True, kw_only=True):
    """What the data of an internal topic says."""

    key: dict[str, Any] | str | None
    """the key as kafka-dump-log's decoder prints it; null if it is not understood, or the topic has no keys"""
    value: dict[str, Any] | str | None
    """the value as kafka-dump-log's decoder prints it, of a KRaft control record its fields under its name; null for a
    tombstone, and if it cannot be decoded"""


class RecordLine(Struct, frozen=True, kw_only=True, rename="camel"):
    """A record."""

    topic: str | None
    """its topic; null if the directory's name does not give it"""
    partition: int | None
    """its number; null if the directory's name does not give it"""
    offset: int
    """of the record"""
    timestamp: int
    """in ms since 1970; -1 if there is none"""
    timestamp_type: str
    """`CreateTime`, `LogAppendTime` or `NoTimestampType`"""
    key: dict[str, Any] | list[Any] | str | float | bool | None
    """text, or base64 with --encoding base64; null if there is none, and if it is not UTF-8; with `--values auto` what
    it says, and null if it cannot be decoded"""
    key_schema: WrittenWithLine | UnsetType | None = field(name="key_schema", default=UNSET)
    """the schema it was written with, null if there is none; only with `--values auto`"""
    key_b64: str | UnsetType = field(name="key_b64", default=UNSET)
    """base64; only if the key is not UTF-8, or with `--values auto` cannot be decoded"""
    value: dict[str, Any] | list[Any] | str | float | bool | None
    """text, or base64 with --encoding base64; null if there is none, and if it is not UTF-8; with `--values auto` what
    it says, and null if it cannot be decoded"""
    value_schema: WrittenWithLine | UnsetType | None = field(name="value_schema", default=UNSET)
    """the schema it was written with, null if there is none; only with `--values auto`"""
    value_b64: str | UnsetType = field(name="value_b64", default=UNSET)
    """base64; only if the value is not UTF-8, or with `--values auto` cannot be decoded"""
    headers: list[tuple[str, str | None]] | None
    """pairs of a name and a value (text, base64 or null); null if a value is not UTF-8"""
    headers_b64: list[tuple[str, str | None]] | UnsetType = field(name="headers_b64", default=UNSET)
    """pairs of a name and a value in base64; only if a value is not UTF-8"""
    leader_epoch: int | None
    """null if there is none"""
    end_txn_marker: str | UnsetType = UNSET
    """`COMMIT` or `ABORT`; only of a transaction's marker"""
    coordinator_epoch: int | UnsetType = UNSET
    """only of a transaction's marker"""
    control_type: str | UnsetType = UNSET
    """only of other control records"""
    producer_id: int | UnsetType = UNSET
    """of its batch, -1 if there is none; only with --metadata"""
    producer_epoch: int | UnsetType = UNSET
    """of its batch, -1 if there is none; only with --metadata"""
    sequence: int | UnsetType = UNSET
    """of the record, -1 if there is none; only with --metadata"""
    partition_leader_epoch: int | UnsetType = UNSET
    """of its batch, -1 if there is none; only with --metadata"""
    is_transactional: bool | UnsetType = UNSET
    """whether its batch is part of a transaction; only with --metadata"""
    compresscodec: str | UnsetType = UNSET
    """how its batch is compressed; only with --metadata"""
    magic: int | UnsetType = UNSET
    """message format of its batch: 0, 1 or 2; only with --metadata"""
    base_offset: int | UnsetType = UNSET
    """of its batch; of a wrapper of magic 0 and 1 the stored offset, which is the last; only with --metadata"""
    position: int | UnsetType = UNSET
    """of its batch in the log file; only with --metadata"""
    decoded: DecodedLine | UnsetType = UNSET
    """what the data says; only of Kafka's internal topics, and neither with --no-decode nor with --redact nor with
    --encoding base64"""
    finding: str | UnsetType = UNSET
    """why a key or a value could not be decoded; only with `--values auto`"""


class BatchLine(Struct, frozen=True, kw_only=True, rename="camel"):
    """A batch of message format 2."""

    topic: str | None
    """its topic; null if the directory's name does not give it"""
    partition: int | None
    """its number; null if the directory's name does not give it"""
    base_offset: int
    """of its first record"""
    last_offset: int
    """of its last record"""
    count: int
    """records"""
    base_sequence: int
    """of the producer; -1 if there is none"""
    last_sequence: int
    """of the producer; -1 if there is none"""
    producer_id: int
    """-1 if there is none"""
    producer_epoch: int
    """-1 if there is none"""
    partition_leader_epoch: int
    """-1 if there is none"""
    is_transactional: bool
    """part of a transaction"""
    is_control: bool
    """holds markers"""
    delete_horizon_ms: int | None
    """when compaction may remove it, in ms since 1970; null if there is none"""
    position: int
    """byte in the segment"""
    create_time: int | UnsetType = field(name="CreateTime", default=UNSET)
    """the largest timestamp, in ms since 1970, where producers set them"""
    log_append_time: int | UnsetType = field(name="LogAppendTime", default=UNSET)
    """the same, where the broker sets them"""
    no_timestamp_type: int | UnsetType = field(name="NoTimestampType", default=UNSET)
    """-1 if there is none"""
    size: int
    """bytes"""
    magic: int
    """message format"""
    compresscodec: str
    """compression"""
    crc: int
    """checksum"""
    isvalid: bool
    """always true: others are findings"""


class MessageLine(Struct, frozen=True, kw_only=True, rename="camel"):
    """A message of format 0 or 1."""

    topic: str | None
    """its topic; null if the directory's name does not give it"""
    partition: int | None
    """its number; null if the directory's name does not give it"""
    offset: int
    """of the message"""
    position: int
    """byte in the segment"""
    create_time: int | UnsetType = field(name="CreateTime", default=UNSET)
    """the largest timestamp, in ms since 1970, where producers set them"""
    log_append_time: int | UnsetType = field(name="LogAppendTime", default=UNSET)
    """the same, where the broker sets them"""
    no_timestamp_type: int | UnsetType = field(name="NoTimestampType", default=UNSET)
    """-1 if there is none"""
    size: int
    """bytes"""
    magic: int
    """message format"""
    compresscodec: str
    """compression"""
    crc: int
    """checksum"""
    isvalid: bool
    """always true: others are findings"""


class OffsetIndexLine(Struct, frozen=True, kw_only=True):
    """An entry of an offset index."""

    offset: int
    """of a batch's last record"""
    position: int
    """byte in the segment"""


class TimeIndexLine(Struct, frozen=True, kw_only=True):
    """An entry of a time index."""

    timestamp: int
    """in ms since 1970"""
    offset: int
    """of the record that has it"""


class TransactionIndexLine(Struct, frozen=True, kw_only=True, rename="camel"):
    """An entry of a transaction index."""

    version: int
    """of the format"""
    producer_id: int
    """whose transaction was aborted"""
    first_offset: int
    """of the transaction"""
    last_offset: int
    """of its marker"""
    last_stable_offset: int
    """at that time"""


class ProducerLine(Struct, frozen=True, kw_only=True, rename="camel"):
    """An entry of a producer snapshot."""

    producer_id: int
    """of the producer"""
    producer_epoch: int
    """of the producer"""
    coordinator_epoch: int
    """of its last marker; -1 if there is none"""
    current_txn_first_offset: int | None
    """where its open transaction begins; null if there is none"""
    last_timestamp: int
    """in ms since 1970"""
    first_sequence: int | UnsetType = UNSET
    """of its last batch"""
    last_sequence: int | UnsetType = UNSET
    """of its last batch"""
    last_offset: int | UnsetType = UNSET
    """of its last batch"""
    offset_delta: int | UnsetType = UNSET
    """of its last batch"""
    timestamp: int | UnsetType = UNSET
    """of its last batch, in ms since 1970"""


class CheckpointLine(Struct, frozen=True, kw_only=True):
    """An entry of an offset checkpoint."""

    topic: str
    """topic"""
    partition: int
    """its number"""
    offset: int
    """as the checkpoint's name says"""


class LeaderEpochLine(Struct, frozen=True, kw_only=True, rename="camel"):
    """An entry of leader-epoch-checkpoint."""

    epoch: int
    """leader epoch"""
    start_offset: int
    """its first offset"""


class PartitionMetadataLine(Struct, frozen=True, kw_only=True):
    """partition.metadata."""

    version: int
    """of the format"""
    topic_id: str
    """topic id"""


class CleanShutdownLine(Struct, frozen=True, kw_only=True, rename="camel"):
    """.kafka_cleanshutdown."""

    version: int | None
    """of the format; null if not given"""
    broker_epoch: int | None
    """null if not given"""


class QuorumStateLine(Struct, frozen=True, kw_only=True, rename="camel"):
    """quorum-state: the file's own JSON."""

    is_open: ClassVar[bool] = True
    """the file may have other fields, which are printed too"""
    leader_id: int
    """node id; -1 if there is none"""
    leader_epoch: int
    """of the quorum"""


Settings = Annotated[
    dict[str, str], Meta(min_length=1, description="meta.properties: its settings, all of them text.")
]
Line = (
    RecordLine
    | BatchLine
    | MessageLine
    | OffsetIndexLine
    | TimeIndexLine
    | TransactionIndexLine
    | ProducerLine
    | CheckpointLine
    | LeaderEpochLine
    | PartitionMetadataLine
    | CleanShutdownLine
    | QuorumStateLine
    | Settings
)
"""One line for each record, with --batches for each batch, and of other files for each entry; under the names of
kafka-dump-log."""
