"""Storage for a consumer's offsets: a file, or anything the caller provides."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Protocol

from kafkalog.codec.common.arguments import checked
from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.files.text import OffsetCheckpointEntry, decode_offset_checkpoint, encode_offset_checkpoint
from kafkalog.log.disk import fs
from kafkalog.log.disk.files import PathLike, read_small

__all__ = ["OffsetStore", "OffsetsFile", "TopicPartition"]

TopicPartition = tuple[str, int]


class OffsetStore(Protocol):
    """Stores the next offset to read for each (topic, partition)."""

    def load(self) -> Mapping[TopicPartition, int]:
        """Return the stored offsets."""

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Store these offsets. Others stay as they are."""


@checked()
class OffsetsFile:
    """Offsets in a file with the format of Kafka's offset checkpoints (`OffsetCheckpointFile`).

    The file is replaced atomically: at any moment, even after a crash, it is the old one or the new one.
    """

    def __init__(self, path: PathLike) -> None:
        self.path = os.path.abspath(os.fspath(path))

    def load(self) -> dict[TopicPartition, int]:
        """Return the stored offset by (topic, partition); empty if the file does not exist. Raises `FormatError` if it
        is not an offset checkpoint (`LimitExceeded` if it is too large), `StorageError` if it cannot be read.
        """
        try:
            data = read_small(self.path, DEFAULT_LIMITS.checkpoint_bytes)
        except FileNotFoundError:
            return {}
        entries = decode_offset_checkpoint(data, source=self.path)
        return {(topic, partition): offset for topic, partition, offset in entries}

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Store these offsets and flush the file; other offsets in it are unchanged. Raises `FormatError` if the
        existing file is not an offset checkpoint, `StorageError` if it cannot be read or written.
        """
        merged = {**self.load(), **offsets}
        entries = [OffsetCheckpointEntry(*key, offset) for key, offset in sorted(merged.items())]
        fs.replace(self.path, encode_offset_checkpoint(entries))
