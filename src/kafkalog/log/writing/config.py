"""Settings of a log that is written, under Kafka's names with underscores (`LogConfig`). Defaults are Kafka's."""

from __future__ import annotations

import re

from msgspec import Struct

from kafkalog.codec.common.arguments import check_fields
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.limits import MIB
from kafkalog.codec.files.index_files import OFFSET_ENTRY, TIME_ENTRY
from kafkalog.codec.model import BATCH, TimestampType
from kafkalog.log.storage.cleaning.offset_map import SLOT_BYTES

__all__ = ["LogConfig"]

_DAY_MS = 24 * 60 * 60 * 1000
_VERSION = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})(?:\.[0-9]{1,4}){0,2}(?:-IV[0-9]{1,4})?")
_FORMATS = ((0, 10), (0, 11))
"""Kafka versions from which magic 1 and magic 2 are the default."""
MAGIC_VALUE = 2
"""Magic of the newest message format."""
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
    """Settings of a log; sizes in bytes, `_ms` in milliseconds. An impossible value raises `UsageError`."""

    segment_bytes: int = 1024 * 1024 * 1024
    """Largest size of a segment: it is rolled before it would become larger."""
    segment_ms: int = 7 * _DAY_MS
    """Age at which a segment is rolled: new records are this much newer than its first batch."""
    segment_index_bytes: int = 10 * 1024 * 1024
    """Size of each index; a segment with a full index is rolled."""
    index_interval_bytes: int = 4096
    """Bytes of log after the last entry beyond which a batch gets an index entry."""
    max_message_bytes: int = 1048588
    """Largest batch that is accepted."""
    message_timestamp_type: TimestampType = TimestampType.CREATE_TIME
    """Clock of the records' timestamps: the producer's, or the writer's at append."""
    flush_messages: int | None = None
    """Number of unflushed records that causes a flush; None: only rolling, closing and `flush_seconds` do."""
    flush_seconds: float | None = None
    """Age of unflushed records that causes a flush; None: only rolling, closing and `flush_messages` do."""
    message_format_version: str | None = None
    """Kafka's `message.format.version`: below 0.10.0 messages of magic 0 are written, below 0.11.0 of magic 1,
    otherwise batches of magic 2, which is the default.
    """
    retention_ms: int = 7 * _DAY_MS
    """Age of its newest record from which a segment may be deleted; -1 keeps all."""
    retention_bytes: int = -1
    """Size that must be left when the oldest segments are deleted; -1 keeps all."""
    file_delete_delay_ms: int = 60_000
    """Time for which the files of a deleted segment stay, as `.deleted`."""
    preallocate: bool = False
    """Whether space for the whole segment is reserved when it is created."""
    producer_id_expiration_ms: int = _DAY_MS
    """Idle time after which a producer is forgotten when the log is opened."""
    offset_checkpoint_interval_ms: int = 60_000
    """Least time between two writes of the offset checkpoints by rolling; closing and truncating always write them."""
    min_cleanable_dirty_ratio: float = 0.5
    """Share of dirty bytes above which `compact` cleans."""
    min_compaction_lag_ms: int = 0
    """Age below which the records of a segment prevent its cleaning by `compact`."""
    max_compaction_lag_ms: int = 2**63 - 1
    """Age of a dirty segment above which `compact` cleans a log whatever the share."""
    delete_retention_ms: int = _DAY_MS
    """Time for which a tombstone, or the marker of a removed transaction, is kept after the pass in which it becomes
    deletable.
    """
    cleaner_dedupe_buffer_size: int = 128 * MIB
    """Memory for the keys that one pass of `compact` distinguishes, 24 bytes for each."""

    @property
    def offset_map_slots(self) -> int:
        """Number of slots of the offset map."""
        return min(self.cleaner_dedupe_buffer_size, 2**31 - 1) // SLOT_BYTES

    @property
    def offset_map_limit(self) -> int:
        """Most keys that one pass can hold (`log.cleaner.io.buffer.load.factor`)."""
        return int(self.offset_map_slots * _LOAD_FACTOR)

    @property
    def deletes_old(self) -> bool:
        """Always False: a cleaning pass does not apply retention, only `delete_old_segments` does."""
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
        """Magic of the message format to write: 0, 1 or 2, from `message_format_version`; 2 if that is None."""
        match = None if self.message_format_version is None else _VERSION.fullmatch(self.message_format_version)
        if match is None:
            return MAGIC_VALUE
        version = int(match[1]), int(match[2])
        return sum(version >= begin for begin in _FORMATS)
