"""Sizes and positions that a walk over a log needs before it knows anything else (`Records`, `FileLogInputStream`).

Every entry of every magic begins with an offset and the size of what follows them, and has its magic at the same place.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkalog.codec.errors import StorageError
from kafkalog.codec.model import BATCH, LOG_OVERHEAD, MESSAGE_V0, MESSAGE_V1
from kafkalog.codec.record_shape import CONTENT, CONTENT_LENGTH
from kafkalog.codec.source import Source

__all__ = [
    "BATCH_CRC_START", "BATCH_MAGIC", "LEGACY_CRC_START", "MAGIC_END", "MAGIC_POSITION", "SMALLEST_MESSAGE",
    "entry_size", "first_batch_bytes", "header_bytes",
]  # fmt: skip

BATCH_MAGIC = 2
"""The magic of record batches; lower ones are those of messages."""
MAGIC_POSITION = BATCH.position("magic")
MAGIC_END = BATCH.end("magic")
"""A header can be examined only where more bytes than this are left."""
BATCH_CRC_START = BATCH.end("crc")
LEGACY_CRC_START = MESSAGE_V0.end("crc")
SMALLEST_MESSAGE = MESSAGE_V0.size - LOG_OVERHEAD.size + len(CONTENT) * CONTENT_LENGTH.size
"""Bytes after the size field in the smallest v0 message: its header and two lengths."""

_SIZE = LOG_OVERHEAD.reader("size")


def entry_size(buffer: bytes | memoryview, position: int) -> int:
    """Bytes of the whole entry at a position as it says itself, which may be anything; its first 12 must be there."""
    return _SIZE(buffer, position) + LOG_OVERHEAD.size


def header_bytes(magic: int) -> int:
    """Bytes of the header of an entry of this magic; every magic above 1 counts as that of record batches."""
    return {0: MESSAGE_V0.size, 1: MESSAGE_V1.size}.get(magic, BATCH.size)


def first_batch_bytes(open_log: Callable[[], Source]) -> int:
    """Bytes of a log's first batch, as it says itself; never less than a header."""
    try:
        head = open_log().read(0, LOG_OVERHEAD.size)
    except StorageError:
        return BATCH.size
    return max(entry_size(head, 0) if len(head) == LOG_OVERHEAD.size else 0, BATCH.size)
