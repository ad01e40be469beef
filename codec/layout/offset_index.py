"""`.index`: entries of an offset index (`org.apache.kafka.storage.internals.log.OffsetIndex`)."""

from construct import Int32sb, Struct

__all__ = ["OFFSET_INDEX_ENTRY"]

OFFSET_INDEX_ENTRY = Struct(
    "relative_offset"
    / Int32sb
    * "last offset of the indexed batch minus the segment's base offset (first offset before Kafka 2.0)",
    "position" / Int32sb * "byte position of the start of that batch in the .log file",
)
