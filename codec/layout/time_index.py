"""`.timeindex`: entries of a time index (`org.apache.kafka.storage.internals.log.TimeIndex`)."""

from construct import Int32sb, Int64sb, Struct

__all__ = ["TIME_INDEX_ENTRY"]

TIME_INDEX_ENTRY = Struct(
    "timestamp" / Int64sb * "ms; largest batch timestamp so far in the segment",
    "relative_offset" / Int32sb * "last offset of the first batch that reached it, minus the segment's base offset",
)
