"""Record batch v2: header, record, control record keys and values.

Decided by `org.apache.kafka.common.record.DefaultRecordBatch`, `DefaultRecord`, `ControlRecordType` and
`EndTransactionMarker`; since Kafka 0.11.
"""

from construct import Int8sb, Int16sb, Int32sb, Int32ub, Int64sb, Struct

from kafkalog.codec.layout.attributes import ATTRIBUTES_V2
from kafkalog.codec.layout.primitives import Varint, VarintArray, VarintBytes, VarintString, Varlong

__all__ = ["BATCH_HEADER", "CONTROL_RECORD_KEY", "END_TRANSACTION_MARKER", "LOG_OVERHEAD", "RECORD", "RECORD_HEADER"]

LOG_OVERHEAD = Struct(
    "offset" / Int64sb * "v2: base offset; v0 and v1: offset of the message, of a wrapper's last inner message",
    "size" / Int32sb * "bytes that follow this field",
)

BATCH_HEADER = Struct(
    "base_offset" / Int64sb * "offset of the first record of the batch as it was produced; compaction keeps it",
    "batch_length" / Int32sb * "bytes that follow this field",
    "partition_leader_epoch" / Int32sb * "epoch of the leader that appended the batch; -1 unknown",
    "magic" / Int8sb * "2",
    "crc" / Int32ub * "CRC-32C from attributes to the end of the batch",
    "attributes" / ATTRIBUTES_V2 * "bits with names; the others are zero",
    "last_offset_delta" / Int32sb * "last offset minus base offset; compaction keeps it",
    "base_timestamp" / Int64sb * "ms; what record timestamps are relative to, or the delete horizon; -1 when empty",
    "max_timestamp" / Int64sb * "ms; largest record timestamp, or the append time (LogAppendTime)",
    "producer_id" / Int64sb * "-1 none",
    "producer_epoch" / Int16sb * "-1 none",
    "base_sequence" / Int32sb * "sequence of the first record; -1 none",
    "records_count" / Int32sb * "records present; compaction lowers it",
)

RECORD_HEADER = Struct(
    "key" / VarintString * "UTF-8 by convention; never null",
    "value" / VarintBytes * "may be null",
)

RECORD = Struct(
    "length" / Varint * "bytes that follow this field",
    "attributes" / Int8sb * "unused",
    "timestamp_delta" / Varlong * "ms, relative to the batch's base timestamp; may be negative",
    "offset_delta" / Varint * "relative to the batch's base offset",
    "key" / VarintBytes * "null and empty are different",
    "value" / VarintBytes * "null is a tombstone",
    "headers" / VarintArray(RECORD_HEADER, smallest=2) * "in order; keys may repeat",
)

CONTROL_RECORD_KEY = Struct(
    "version" / Int16sb * "0",
    "type" / Int16sb * "0 abort, 1 commit, 2 leader change, 3, 4 snapshot header, footer, 5 kraft version, 6 voters",
)

END_TRANSACTION_MARKER = Struct(
    "version" / Int16sb * "0",
    "coordinator_epoch" / Int32sb * "epoch of the transaction coordinator that wrote the marker",
)
