"""Message formats v0 and v1 (magic 0 and 1), before Kafka 0.11.

Decided by `org.apache.kafka.common.record.LegacyRecord` and `AbstractLegacyRecordBatch`.  A compressed message set is
one such message whose value is the compressed set.
"""

from construct import Int8sb, Int32sb, Int32ub, Int64sb, Struct

from kafkalog.codec.layout.attributes import ATTRIBUTES_V0, ATTRIBUTES_V1
from kafkalog.codec.layout.primitives import Int32Bytes

__all__ = ["MESSAGE_CONTENT", "MESSAGE_V0_HEADER", "MESSAGE_V1_HEADER"]

MESSAGE_V0_HEADER = Struct(
    "offset" / Int64sb * "offset of the message; of a wrapper: of its last inner message",
    "size" / Int32sb * "bytes that follow this field",
    "crc" / Int32ub * "CRC-32 (IEEE) from magic to the end of the value",
    "magic" / Int8sb * "0",
    "attributes" / ATTRIBUTES_V0 * "bits with names; the others are zero",
)

MESSAGE_V1_HEADER = Struct(
    "offset" / Int64sb * "offset of the message; of a wrapper: of its last inner message",
    "size" / Int32sb * "bytes that follow this field",
    "crc" / Int32ub * "CRC-32 (IEEE) from magic to the end of the value",
    "magic" / Int8sb * "1",
    "attributes" / ATTRIBUTES_V1 * "bits with names; the others are zero",
    "timestamp" / Int64sb * "ms; -1 none; of a wrapper: the largest inner one, or the append time",
)

MESSAGE_CONTENT = Struct(
    "key" / Int32Bytes * "null and empty are different; of a wrapper: null",
    "value" / Int32Bytes * "null is a tombstone; of a wrapper: the compressed messages",
)
