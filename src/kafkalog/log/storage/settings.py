"""The settings that decide the bytes of a partition's files (`LogConfig`, `ProducerStateManagerConfig`)."""

from __future__ import annotations

from typing import Protocol

__all__ = ["CleanerSettings", "StorageSettings"]


class StorageSettings(Protocol):
    """Kafka's names with underscores; sizes in bytes, times in ms."""

    @property
    def segment_index_bytes(self) -> int:
        """Room of each index."""

    @property
    def index_interval_bytes(self) -> int:
        """A batch gets an index entry when more bytes than this lie after the last one."""

    @property
    def producer_id_expiration_ms(self) -> int:
        """A producer that was idle this long is forgotten when the log is opened."""


class CleanerSettings(StorageSettings, Protocol):
    """What a pass of the cleaner depends on besides (`LogConfig`, `CleanerConfig`)."""

    @property
    def segment_bytes(self) -> int:
        """How large a segment may become that several are made into."""

    @property
    def min_cleanable_dirty_ratio(self) -> float:
        """A log is cleaned if more than this share of its bytes is dirty."""

    @property
    def min_compaction_lag_ms(self) -> int:
        """Segments that hold a younger record are left alone; 0 leaves none."""

    @property
    def max_compaction_lag_ms(self) -> int:
        """A log with an older dirty segment is cleaned whatever its ratio."""

    @property
    def delete_retention_ms(self) -> int:
        """How long a tombstone or a marker stays after the pass that finds nothing else of its key or transaction."""

    @property
    def deletes_old(self) -> bool:
        """Retention by age and size too (`cleanup.policy` holds `delete`)."""

    @property
    def retention_ms(self) -> int:
        """How old a segment may become; -1 keeps all."""

    @property
    def retention_bytes(self) -> int:
        """How large the log may be; -1 keeps all."""

    @property
    def offset_map_slots(self) -> int:
        """Slots of the offset map."""

    @property
    def offset_map_limit(self) -> int:
        """How many keys are put into it."""
