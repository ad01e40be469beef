"""What the checkpoints of a log directory say, beside a partition that is in it."""

from __future__ import annotations

import os
from collections.abc import Mapping

from kafkalog.codec.errors import FormatError, StorageError
from kafkalog.codec.limits import DEFAULT_LIMITS
from kafkalog.codec.text import decode_offset_checkpoint
from kafkalog.log.disk.files import read_small

__all__ = ["checkpoint_in"]


def checkpoint_in(root: str, name: str) -> Mapping[tuple[str, int], int] | None:
    """(topic, partition) -> offset; None where there is no such file, or none that can be read."""
    path = os.path.join(root, name)
    try:
        lines = decode_offset_checkpoint(read_small(path, DEFAULT_LIMITS.checkpoint_bytes), source=path)
    except (FormatError, StorageError, FileNotFoundError):
        return None
    return {(line.topic, line.partition): line.offset for line in lines}
