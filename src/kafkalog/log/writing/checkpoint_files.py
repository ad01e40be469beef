"""Read and write the offset checkpoints and the clean shutdown marker of a log directory, for writers of some of its
partitions. Lines of other partitions are preserved (`OffsetCheckpointFile`, `CleanShutdownFileHandler`).
"""

from __future__ import annotations

import os

from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.files.text import (
    NEW_CLEAN_SHUTDOWN,
    OffsetCheckpointEntry,
    decode_offset_checkpoint,
    encode_clean_shutdown,
    encode_offset_checkpoint,
)
from kafkalog.codec.names import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    PartitionName,
)
from kafkalog.log.disk import fs
from kafkalog.log.disk.files import read_small

__all__ = ["clean_marker", "forget", "mark_clean", "read_offset", "unmark_clean", "write_offset"]


def _entries(path: str) -> list[OffsetCheckpointEntry]:
    try:
        data = read_small(path, DEFAULT_LIMITS.checkpoint_bytes)
    except FileNotFoundError:
        return []
    return decode_offset_checkpoint(data, source=path)


def read_offset(root: str, file: str, name: PartitionName) -> int | None:
    """Return the offset of a partition in the checkpoint `file` of the log directory `root`; None if the file or its
    line is missing. Of several lines the last is used. Raises `FormatError` if the file cannot be parsed,
    `StorageError` if it cannot be read.
    """
    offsets = [
        e.offset for e in _entries(os.path.join(root, file)) if (e.topic, e.partition) == (name.topic, name.partition)
    ]
    return offsets[-1] if offsets else None


def write_offset(root: str, file: str, name: PartitionName, offset: int | None) -> None:
    """Replace the line of a partition in the checkpoint `file` of the log directory `root`, or remove it if `offset` is
    None. The file is replaced in one step, and created if it is missing. Raises `FormatError` if it cannot be parsed,
    `StorageError` if it cannot be read or written.
    """
    path = os.path.join(root, file)
    others = [e for e in _entries(path) if (e.topic, e.partition) != (name.topic, name.partition)]
    own = [] if offset is None else [OffsetCheckpointEntry(name.topic, name.partition, offset)]
    fs.replace(path, encode_offset_checkpoint([*others, *own]))


def forget(root: str, name: PartitionName) -> None:
    """Remove the lines of a partition that no longer exists from the checkpoints of recovery points, log start and
    cleaner offsets. Raises `FormatError` if a checkpoint cannot be parsed, `StorageError` if it cannot be read or
    written.
    """
    for file in (RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, CLEANER_OFFSET_CHECKPOINT):
        if read_offset(root, file, name) is not None:
            write_offset(root, file, name, None)


def clean_marker(root: str) -> bytes | None:
    """Return the content of the clean shutdown marker; None if there is no marker, that is, if not all partitions were
    closed in order. Raises `StorageError` if it cannot be read, `LimitExceeded` if it is larger than 8 MiB.
    """
    try:
        return read_small(os.path.join(root, CLEAN_SHUTDOWN_FILE), DEFAULT_LIMITS.checkpoint_bytes)
    except FileNotFoundError:
        return None


def unmark_clean(root: str) -> None:
    """Remove the clean shutdown marker and flush the directory, so that the next start examines the logs."""
    fs.remove(os.path.join(root, CLEAN_SHUTDOWN_FILE))
    fs.sync_directory(root)


def mark_clean(root: str, marker: bytes | None) -> None:
    """Write the clean shutdown marker, because all partitions of the directory were closed in order. `marker` is the
    marker's earlier content, which has the broker's epoch; None if there was none.
    """
    content = encode_clean_shutdown(NEW_CLEAN_SHUTDOWN) if marker is None else marker
    if clean_marker(root) != content:  # otherwise it was never removed
        fs.replace(os.path.join(root, CLEAN_SHUTDOWN_FILE), content)
