"""Types of the lines of `kafkalog dump --json`.

No instances are made of those for logs: compiled code writes the lines, or functions that follow tables
(`BATCH_FIELDS`). Nor of the last two, whose files hold names and values of any kind. Tests validate printed lines
against these types.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from msgspec import UNSET, Meta, Struct, UnsetType, field

from kafkalog.log.directories.side_file_lines import (
    CheckpointLine,
    CleanShutdownLine,
    LeaderEpochLine,
    OffsetIndexLine,
    PartitionMetadataLine,
    ProducerLine,
    TimeIndexLine,
    TransactionIndexLine,
)

__all__ = ["Line"]


class WrittenWithLine(Struct, frozen=True, kw_only=True):
    """Schema in a schema registry with which a key or value was written."""

    id: int
    """schema id"""
    type: str
    """schema type: `AVRO`, `PROTOBUF`, `JSON`, or a type that a plug-in of the registry adds"""
    subject: str
    """subject of the schema: the topic's own subject if it has the schema, else the first subject that has it"""


class DecodedLine(Struct, frozen=True, kw_only=True):
    """Decoded key and value of a record in one of Kafka's internal topics."""

    key: dict[str, Any] | str | None
    """key as kafka-dump-log's decoder prints it; null if it cannot be decoded or the topic has no keys"""
    value: dict[str, Any] | str | None
    """value as kafka-dump-log's decoder prints it, or the fields of a KRaft control record below the name of its type;
    null for a tombstone, or if the value cannot be decoded
    """


class RecordLine(Struct, frozen=True, kw_only=True, rename="camel"):
    """One record."""

    topic: str | None
    """topic, from the name of the partition directory; null if the name does not contain it"""
    partition: int | None
    """partition number, from the name of the partition directory; null if the name does not contain it"""
    offset: int
    """offset of the record"""
    timestamp: int
    """timestamp of the record, in ms since 1970; -1 if none"""
    timestamp_type: str
    """timestamp type: `CreateTime`, `LogAppendTime`, or `NoTimestampType` for message format 0"""
    key: dict[str, Any] | list[Any] | str | float | bool | None
    """key as text; base64 with `--encoding base64`, size and salted hash with `--redact`, decoded JSON with `--values
    auto`; null if the record has no key, or if the key is not UTF-8 or cannot be decoded
    """
    key_schema: WrittenWithLine | UnsetType | None = field(name="key_schema", default=UNSET)
    """schema with which the key was written; null if the key has no schema or its schema is unknown; only with
    `--values auto`, else left out
    """
    key_b64: str | UnsetType = field(name="key_b64", default=UNSET)
    """key in base64, if the key is not UTF-8 or, with `--values auto` and without `--mask`, cannot be decoded; else
    left out
    """
    value: dict[str, Any] | list[Any] | str | float | bool | None
    """value as text; base64 with `--encoding base64`, size and salted hash with `--redact`, decoded JSON with `--values
    auto`; null if the record has no value, or if the value is not UTF-8 or cannot be decoded
    """
    value_schema: WrittenWithLine | UnsetType | None = field(name="value_schema", default=UNSET)
    """schema with which the value was written; null if the value has no schema or its schema is unknown; only with
    `--values auto`, else left out
    """
    value_b64: str | UnsetType = field(name="value_b64", default=UNSET)
    """value in base64, if the value is not UTF-8 or, with `--values auto` and without `--mask`, cannot be decoded; else
    left out
    """
    headers: list[tuple[str, str | None]] | None
    """record headers: pairs of a name and a value (null, text, or base64 with `--encoding base64`); null instead of the
    list if a value is not UTF-8
    """
    headers_b64: list[tuple[str, str | None]] | UnsetType = field(name="headers_b64", default=UNSET)
    """record headers: pairs of a name and a value in base64 or null; left out unless a value is not UTF-8"""
    leader_epoch: int | None
    """leader epoch of the record's batch; null if none"""
    end_txn_marker: str | UnsetType = UNSET
    """type of a transaction marker: `COMMIT` or `ABORT`; left out for other records"""
    coordinator_epoch: int | UnsetType = UNSET
    """epoch of the transaction coordinator that wrote a transaction marker; left out for other records"""
    control_type: str | UnsetType = UNSET
    """name and number of the type of a control record that is not a transaction marker, or `UNKNOWN`; left out for
    other records
    """
    producer_id: int | UnsetType = UNSET
    """producer id of the record's batch; -1 if none; only with `--metadata`, else left out"""
    producer_epoch: int | UnsetType = UNSET
    """producer epoch of the record's batch; -1 if none; only with `--metadata`, else left out"""
    sequence: int | UnsetType = UNSET
    """sequence number of the record; -1 if none; only with `--metadata`, else left out"""
    partition_leader_epoch: int | UnsetType = UNSET
    """leader epoch of the record's batch; -1 if none; only with `--metadata`, else left out"""
    is_transactional: bool | UnsetType = UNSET
    """whether the record's batch is part of a transaction; only with `--metadata`, else left out"""
    compresscodec: str | UnsetType = UNSET
    """compression codec of the record's batch, such as `gzip`, or `none`; only with `--metadata`, else left out"""
    magic: int | UnsetType = UNSET
    """message format (magic) of the record's batch: 0, 1 or 2; only with `--metadata`, else left out"""
    base_offset: int | UnsetType = UNSET
    """base offset of the record's batch; for message format 0 or 1 the stored offset of the message, or of the last
    message in its compressed wrapper; only with `--metadata`, else left out
    """
    position: int | UnsetType = UNSET
    """position of the record's batch in the log file, in bytes; only with `--metadata`, else left out"""
    decoded: DecodedLine | UnsetType = UNSET
    """decoded key and value of a record in one of Kafka's internal topics; left out for other topics, for control
    records that cannot be decoded, and with `--no-decode`, `--redact` or `--encoding base64`
    """
    finding: str | UnsetType = UNSET
    """reason why the key or value cannot be decoded; left out if both can, and without `--values auto`"""


class BatchLine(Struct, frozen=True, kw_only=True, rename="camel"):
    """One record batch of message format 2."""

    topic: str | None
    """topic, from the name of the partition directory; null if the name does not contain it"""
    partition: int | None
    """partition number, from the name of the partition directory; null if the name does not contain it"""
    base_offset: int
    """base offset: first offset of the batch (inclusive)"""
    last_offset: int
    """last offset of the batch (inclusive), even if compaction removed the record that had it"""
    count: int
    """number of records in the batch, according to its header"""
    base_sequence: int
    """sequence number of the batch's first record; -1 if none"""
    last_sequence: int
    """sequence number of the last record that the producer wrote into the batch; -1 if none"""
    producer_id: int
    """producer id; -1 if none"""
    producer_epoch: int
    """producer epoch; -1 if none"""
    partition_leader_epoch: int
    """leader epoch in which the batch was appended; -1 if none"""
    is_transactional: bool
    """whether the batch is part of a transaction"""
    is_control: bool
    """whether the batch holds control records: a transaction marker, or records of the KRaft protocol"""
    delete_horizon_ms: int | None
    """delete horizon: time from which compaction may remove tombstones and transaction markers in the batch, in ms
    since 1970; null if none
    """
    position: int
    """position of the batch in the log file, in bytes"""
    create_time: int | UnsetType = field(name="CreateTime", default=UNSET)
    """largest timestamp in the batch, in ms since 1970; -1 if none; left out unless the timestamp type is CreateTime"""
    log_append_time: int | UnsetType = field(name="LogAppendTime", default=UNSET)
    """timestamp at which the broker appended the batch, in ms since 1970; left out unless the timestamp type is
    LogAppendTime
    """
    no_timestamp_type: int | UnsetType = field(name="NoTimestampType", default=UNSET)
    """always left out: a batch of message format 2 has a timestamp type"""
    size: int
    """size of the batch including its header, in bytes"""
    magic: int
    """message format (magic): always 2"""
    compresscodec: str
    """compression codec, such as `gzip`, or `none`"""
    crc: int
    """checksum (CRC-32C) stored in the batch"""
    isvalid: bool
    """whether the batch is valid; always true, because invalid batches are reported as findings instead"""


class MessageLine(Struct, frozen=True, kw_only=True, rename="camel"):
    """One message, or compressed wrapper of messages, of message format 0 or 1."""

    topic: str | None
    """topic, from the name of the partition directory; null if the name does not contain it"""
    partition: int | None
    """partition number, from the name of the partition directory; null if the name does not contain it"""
    offset: int
    """stored offset of the message; for a compressed wrapper, the offset of its last message"""
    position: int
    """position of the message in the log file, in bytes"""
    create_time: int | UnsetType = field(name="CreateTime", default=UNSET)
    """timestamp of the message, or largest timestamp in a compressed wrapper, in ms since 1970; -1 if none; left out
    unless the timestamp type is CreateTime
    """
    log_append_time: int | UnsetType = field(name="LogAppendTime", default=UNSET)
    """timestamp at which the broker appended the message, in ms since 1970; left out unless the timestamp type is
    LogAppendTime
    """
    no_timestamp_type: int | UnsetType = field(name="NoTimestampType", default=UNSET)
    """always -1: a message of format 0 has no timestamp; left out for format 1"""
    size: int
    """size of the message including its header, in bytes"""
    magic: int
    """message format (magic): 0 or 1"""
    compresscodec: str
    """compression codec, such as `gzip`, or `none`"""
    crc: int
    """checksum (CRC-32) stored in the message"""
    isvalid: bool
    """whether the message is valid; always true, because invalid messages are reported as findings instead"""


class QuorumStateLine(Struct, frozen=True, kw_only=True, rename="camel"):
    """Content of quorum-state, as the JSON in the file."""

    is_open: ClassVar[bool] = True
    """whether a line may have fields besides those of this type: all fields of the file are printed"""
    leader_id: int
    """node id of the quorum's leader; -1 if none or unknown"""
    leader_epoch: int
    """epoch of the quorum"""


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
"""One line for each record, with `--batches` for each batch, and for files other than logs for each entry; field names
are those of kafka-dump-log.
"""
