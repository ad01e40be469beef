"""Checkpoints of the log directory that contains a partition."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache

from kafkalog.codec.errors import FormatError, StorageError
from kafkalog.codec.limits import DEFAULT_LIMITS
from kafkalog.codec.names import CLEANER_OFFSET_CHECKPOINT, PartitionName
from kafkalog.codec.text import decode_offset_checkpoint
from kafkalog.log.disk.files import read_small

__all__ = ["checkpoint_in", "cleaned_until"]

_KEPT = 4
"""Cache of the files that were read last; all partitions of a coordinator's topic ask for the same ones."""


def checkpoint_in(root: str, name: str) -> Mapping[tuple[str, int], int] | None:
    """(topic, partition) -> offset; None if the file does not exist or cannot be read."""
    path = os.path.join(root, name)
    try:
        return _offsets(read_small(path, DEFAULT_LIMITS.checkpoint_bytes))
    except (FormatError, StorageError, FileNotFoundError):
        return None


def cleaned_until(directory: str, name: PartitionName) -> int | None:
    """Offset below which compaction may have removed records of a partition directory, by the cleaner's checkpoint
    beside it; 0 if it has no entry; None if there is no checkpoint that can be read.
    """
    offsets = checkpoint_in(os.path.dirname(directory), CLEANER_OFFSET_CHECKPOINT)
    return None if offsets is None else max(offsets.get((name.topic, name.partition), 0), 0)


@lru_cache(maxsize=_KEPT)
def _offsets(data: bytes) -> Mapping[tuple[str, int], int]:
    return {(line.topic, line.partition): line.offset for line in decode_offset_checkpoint(data)}
