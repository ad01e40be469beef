"""Sizes and positions that a scan of a log needs first (`Records`, `FileLogInputStream`). Every entry of every magic
begins with an offset and the number of bytes after these two fields, and has its magic at the same position.
"""

from __future__ import annotations

from kafkalog.codec.model import BATCH, LOG_OVERHEAD, MESSAGE_V0, MESSAGE_V1
from kafkalog.codec.rules.record_shape import CONTENT, CONTENT_LENGTH

__all__ = [
    "BATCH_CRC_START", "BATCH_MAGIC", "LEGACY_CRC_START", "MAGIC_END", "MAGIC_POSITION", "SMALLEST_MESSAGE",
    "entry_size", "header_bytes",
]  # fmt: skip

BATCH_MAGIC = 2
"""Magic of record batches; lower ones are those of messages."""
MAGIC_POSITION = BATCH.position("magic")
MAGIC_END = BATCH.end("magic")
"""Position after the magic. A header is examined only if more bytes than this are left."""
BATCH_CRC_START = BATCH.end("crc")
LEGACY_CRC_START = MESSAGE_V0.end("crc")
SMALLEST_MESSAGE = MESSAGE_V0.size - LOG_OVERHEAD.size + len(CONTENT) * CONTENT_LENGTH.size
"""Bytes after the size field of the smallest v0 message: its header and two lengths."""

_SIZE = LOG_OVERHEAD.reader("size")


def entry_size(buffer: bytes | memoryview, position: int) -> int:
    """Return the size in bytes of the entry at `position` according to its size field, which may hold any number. The
    first 12 bytes of the entry must be in the buffer.
    """
    return _SIZE(buffer, position) + LOG_OVERHEAD.size


def header_bytes(magic: int) -> int:
    """Return the size in bytes of an entry's header. Any magic above 1 counts as that of record batches."""
    return {0: MESSAGE_V0.size, 1: MESSAGE_V1.size}.get(magic, BATCH.size)
