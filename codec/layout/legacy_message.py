"""Message formats v0 and v1 (magic 0 and 1), before Kafka 0.11.

Decided by `org.apache.kafka.common.record.LegacyRecord` and `AbstractLegacyRecordBatch`.  A compressed message set is
one such message whose value is the compressed set.
"""

from construct import Int8sb, Int32sb, Int32ub, Int64sb, Struct

__all__ = ["MESSAGE_V0_HEADER", "MESSAGE_V1_HEADER"]

MESSAGE_V0_HEADER = Struct(
    "offset" / Int64sb * "offset of the message; of a wrapper: of its last inner message",
    "size" / Int32sb * "bytes that follow this field",
    "crc" / Int32ub * "CRC-32 (IEEE) from magic to the end of the value",
    "magic" / Int8sb * "0",
    "attributes" / Int8sb * "bits 0-2 codec",
)

MESSAGE_V1_HEADER = Struct(
    "offset" / Int64sb * "offset of the message; of a wrapper: of its last inner message",
    "size" / Int32sb * "bytes that follow this field",
    "crc" / Int32ub * "CRC-32 (IEEE) from magic to the end of the value",
    "magic" / Int8sb * "1",
    "attributes" / Int8sb * "bits 0-2 codec, bit 3 timestamp type",
    "timestamp" / Int64sb * "ms; -1 none; of a wrapper: the largest inner one, or the append time",
)
