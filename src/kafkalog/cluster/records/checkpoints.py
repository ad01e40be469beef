"""Checkpoint files in the log directory that contains a partition."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache

from kafkalog.codec.common.errors import FormatError, StorageError
from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.files.text import decode_offset_checkpoint
from kafkalog.codec.names import CLEANER_OFFSET_CHECKPOINT, PartitionName
from kafkalog.log.disk.files import read_small
from kafkalog.log.disk.unchanged import State, settled_state

__all__ = ["checkpoint_in", "cleaned_until"]

_KEPT = 4
"""Number of files that are kept while they are unchanged: all partitions of a log directory ask for the same ones."""


def checkpoint_in(root: str, name: str) -> Mapping[tuple[str, int], int] | None:
    """Read a checkpoint file of log directory `root`; return the offset of each (topic, partition).

    None if the file is missing, malformed or unreadable. The contents of the last four files are cached while the files
    do not change.
    """
    path = os.path.join(root, name)
    try:
        state = settled_state(path)
        return _read(path) if state is None else _settled(path, state)
    except (FormatError, StorageError, FileNotFoundError):
        return None


def cleaned_until(directory: str, name: PartitionName) -> int | None:
    """Offset below which compaction may have removed records of a partition directory, from the cleaner's checkpoint in
    its log directory. 0 if the checkpoint does not have the partition; None if there is no readable checkpoint.
    """
    offsets = checkpoint_in(os.path.dirname(directory), CLEANER_OFFSET_CHECKPOINT)
    return None if offsets is None else max(offsets.get((name.topic, name.partition), 0), 0)


@lru_cache(maxsize=_KEPT)
def _settled(path: str, _state: State) -> Mapping[tuple[str, int], int]:
    return _read(path)


def _read(path: str) -> Mapping[tuple[str, int], int]:
    data = read_small(path, DEFAULT_LIMITS.checkpoint_bytes)
    return {(line.topic, line.partition): line.offset for line in decode_offset_checkpoint(data)}
