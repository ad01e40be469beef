"""The attributes of messages and batches: the meaning of each bit in each format.

Decided by `LegacyRecord` (magic 0 and 1) and `DefaultRecordBatch` (magic 2). A bit has one declaration for all formats
in which it appears.
"""

from construct import Int8sb, Int16sb

from kafkalog.codec.layout.bits import Bit, Bits

__all__ = ["ATTRIBUTES_V0", "ATTRIBUTES_V1", "ATTRIBUTES_V2"]

_CODEC = Bit("codec", 0, 3, "compression by its number, 0 is none")
_TIMESTAMP_TYPE = Bit("timestamp_type", 3, 1, "0 CreateTime, 1 LogAppendTime")

ATTRIBUTES_V0 = Bits(Int8sb, _CODEC)
ATTRIBUTES_V1 = Bits(Int8sb, _CODEC, _TIMESTAMP_TYPE)
ATTRIBUTES_V2 = Bits(
    Int16sb,
    _CODEC,
    _TIMESTAMP_TYPE,
    Bit("is_transactional", 4, 1, "1 part of a transaction"),
    Bit("is_control", 5, 1, "1 holds control records, which no consumer sees"),
    Bit("has_delete_horizon", 6, 1, "1 base_timestamp is when compaction may drop tombstones or the marker"),
)
