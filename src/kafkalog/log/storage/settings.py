"""Settings on which the bytes of a partition's files depend (`LogConfig`, `ProducerStateManagerConfig`)."""

from __future__ import annotations

from typing import Protocol

__all__ = ["CleanerSettings", "StorageSettings"]


class StorageSettings(Protocol):
    """Settings under Kafka's names with underscores; sizes in bytes, times in ms."""

    @property
    def segment_index_bytes(self) -> int:
        """Size of each index."""

    @property
    def index_interval_bytes(self) -> int:
        """Bytes of log after the last entry beyond which a batch gets an index entry."""

    @property
    def producer_id_expiration_ms(self) -> int:
        """Idle time after which a producer is forgotten when the log is opened."""


class CleanerSettings(StorageSettings, Protocol):
    """Additional settings for a pass of the cleaner (`LogConfig`, `CleanerConfig`)."""

    @property
    def segment_bytes(self) -> int:
        """Largest size in bytes of a segment into which others are merged."""

    @property
    def min_cleanable_dirty_ratio(self) -> float:
        """Share of dirty bytes above which a log is cleaned, from 0 to 1."""

    @property
    def min_compaction_lag_ms(self) -> int:
        """Age below which the records of a segment prevent its cleaning; 0: none does."""

    @property
    def max_compaction_lag_ms(self) -> int:
        """Age of a dirty segment above which a log is cleaned whatever its ratio."""

    @property
    def delete_retention_ms(self) -> int:
        """Time for which a tombstone or marker is kept after the pass that finds no other record of its key or
        transaction.
        """

    @property
    def deletes_old(self) -> bool:
        """Whether retention by age and size applies too (`cleanup.policy` contains `delete`)."""

    @property
    def retention_ms(self) -> int:
        """Age above which a segment is deleted; -1 keeps all."""

    @property
    def retention_bytes(self) -> int:
        """Size that the log may have; -1 keeps all."""

    @property
    def offset_map_slots(self) -> int:
        """Number of slots of the offset map."""

    @property
    def offset_map_limit(self) -> int:
        """Most keys that are put into the offset map."""
