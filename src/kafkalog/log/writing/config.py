"""The settings of a log that is written, under Kafka's names with underscores (`LogConfig`); defaults are Kafka's."""

from __future__ import annotations

import re

from msgspec import Struct

from kafkalog.codec.arguments import check_fields
from kafkalog.codec.errors import UsageError
from kafkalog.codec.index_files import OFFSET_ENTRY, TIME_ENTRY
from kafkalog.codec.limits import MIB
from kafkalog.codec.model import BATCH, TimestampType
from kafkalog.log.storage.cleaning.offset_map import SLOT_BYTES

__all__ = ["LogConfig"]

_DAY_MS = 24 * 60 * 60 * 1000
_VERSION = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})(?:\.[0-9]{1,4}){0,2}(?:-IV[0-9]{1,4})?")
_FORMATS = ((0, 10), (0, 11))
"""the versions that magic 1 and magic 2 begin with"""
MAGIC_VALUE = 2
"""of the newest message format"""
_LOAD_FACTOR = 0.9
_LEAST = {
    "segment_bytes": BATCH.size,
    "segment_ms": 1,
    "segment_index_bytes": max(2 * TIME_ENTRY.size, OFFSET_ENTRY.size),
    "index_interval_bytes": 0,
    "max_message_bytes": BATCH.size,
    "retention_ms": -1,
    "retention_bytes": -1,
    "file_delete_delay_ms": 0,
    "producer_id_expiration_ms": 1,
    "offset_checkpoint_interval_ms": 0,
    "min_compaction_lag_ms": 0,
    "max_compaction_lag_ms": 1,
    "delete_retention_ms": 0,
    "cleaner_dedupe_buffer_size": 4 * SLOT_BYTES,
}


class LogConfig(Struct, frozen=True, kw_only=True):
    """How a log is written; sizes in bytes, `_ms` in milliseconds.  An impossible value is a `UsageError`."""

    segment_bytes: int = 1024 * 1024 * 1024
    """A segment is rolled before it would become larger."""
    segment_ms: int = 7 * _DAY_MS
    """A segment is rolled when the new records are this much newer than its first batch."""
    segment_index_bytes: int = 10 * 1024 * 1024
    """Room of each index; a segment whose index is full is rolled."""
    index_interval_bytes: int = 4096
    """A batch gets an index entry when more bytes than this lie after the last one."""
    max_message_bytes: int = 1048588
    """Largest batch that is accepted."""
    message_timestamp_type: TimestampType = TimestampType.CREATE_TIME
    """Whose clock the records carry: the producer's, or the writer's at append."""
    flush_messages: int | None = None
    """Flush when this many records are not flushed; None leaves it to rolling, closing and `flush_seconds`."""
    flush_seconds: float | None = None
    """Flush what is older than this; None leaves it to rolling, closing and `flush_messages`."""
    message_format_version: str | None = None
    """Kafka's `message.format.version`: below 0.10.0 messages of magic 0 are written, below 0.11.0 of magic 1, else
    batches of magic 2, as by default."""
    retention_ms: int = 7 * _DAY_MS
    """A segment whose newest record is older may be deleted; -1 keeps all."""
    retention_bytes: int = -1
    """The oldest segments may be deleted while at least this much is left; -1 keeps all."""
    file_delete_delay_ms: int = 60_000
    """How long files of a deleted segment stay, as `.deleted`."""
    preallocate: bool = False
    """Reserve the whole segment when it is created."""
    producer_id_expiration_ms: int = _DAY_MS
    """A producer that was idle this long is forgotten when the log is opened."""
    offset_checkpoint_interval_ms: int = 60_000
    """How often, at most, a roll writes the offset checkpoints; closing and truncating always do."""
    min_cleanable_dirty_ratio: float = 0.5
    """`compact` does something if more than this share of the bytes is dirty."""
    min_compaction_lag_ms: int = 0
    """`compact` leaves segments alone that hold a younger record."""
    max_compaction_lag_ms: int = 2**63 - 1
    """`compact` cleans a log with an older dirty segment whatever the share."""
    delete_retention_ms: int = _DAY_MS
    """How long a tombstone, or the marker of a transaction that is gone, outlives the pass that finds it alone."""
    cleaner_dedupe_buffer_size: int = 128 * MIB
    """Memory for the keys that one pass of `compact` tells apart, 24 bytes for each."""

    @property
    def offset_map_slots(self) -> int:
        """Slots of the offset map."""
        return min(self.cleaner_dedupe_buffer_size, 2**31 - 1) // SLOT_BYTES

    @property
    def offset_map_limit(self) -> int:
        """The most keys that one pass can hold (`log.cleaner.io.buffer.load.factor`)."""
        return int(self.offset_map_slots * _LOAD_FACTOR)

    @property
    def deletes_old(self) -> bool:
        """Always false: a cleaning pass does not apply retention, only `delete_old_segments` does."""
        return False

    def __post_init__(self) -> None:
        check_fields(self)
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                raise UsageError(f"{name} is {getattr(self, name)}; the smallest possible value is {least}")
        if self.segment_bytes > 2**31 - 1 or self.segment_index_bytes > 2**31 - 1:
            raise UsageError("segment_bytes and segment_index_bytes must be below 2 GiB")
        if self.flush_messages is not None and self.flush_messages < 1:
            raise UsageError("flush_messages must be at least 1")
        if self.flush_seconds is not None and self.flush_seconds <= 0:
            raise UsageError("flush_seconds must be positive")
        if not 0 <= self.min_cleanable_dirty_ratio <= 1:
            raise UsageError("min_cleanable_dirty_ratio is a share, from 0 to 1")
        if self.message_timestamp_type is TimestampType.NO_TIMESTAMP_TYPE:
            raise UsageError("message_timestamp_type is CREATE_TIME or LOG_APPEND_TIME")
        if self.message_format_version is not None and _VERSION.fullmatch(self.message_format_version) is None:
            raise UsageError(f"message_format_version {self.message_format_version!r} is not a version, such as 0.10.2")

    @property
    def magic(self) -> int:
        """The message format that is written: 0, 1 or 2."""
        found = None if self.message_format_version is None else _VERSION.fullmatch(self.message_format_version)
        if found is None:
            return MAGIC_VALUE
        version = int(found[1]), int(found[2])
        return sum(version >= begin for begin in _FORMATS)
