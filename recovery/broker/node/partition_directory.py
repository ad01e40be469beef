"""Represent one partition directory of a node in the model of a start."""

from __future__ import annotations

import os

from msgspec import Struct

from kafkalog.codec.names import DirectoryState, PartitionName

__all__ = ["PartitionDirectory"]


class PartitionDirectory(Struct, frozen=True, kw_only=True):
    """One partition directory, live or a future copy."""

    root: str
    name: str
    parsed: PartitionName
    topic_id: str | None
    end: int | None = None
    """log end offset after loading; None if it was not loaded"""

    @property
    def path(self) -> str:
        """Absolute path."""
        return os.path.join(self.root, self.name)

    @property
    def partition(self) -> tuple[str, int]:
        """Topic and partition number."""
        return self.parsed.topic, self.parsed.partition

    @property
    def live_name(self) -> str:
        """Name of the partition's directory in service."""
        return f"{self.parsed.topic}-{self.parsed.partition}"

    def is_current_of(self, future: PartitionDirectory) -> bool:
        """Whether this is the log that the future copy `future` will replace."""
        is_same = self.topic_id is None or future.topic_id is None or self.topic_id == future.topic_id
        return is_same and self.partition == future.partition and self.parsed.state is DirectoryState.LIVE
