"""The settings that decide the bytes of a partition's files (`LogConfig`, `ProducerStateManagerConfig`)."""

from __future__ import annotations

from typing import Protocol

__all__ = ["StorageSettings"]


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
