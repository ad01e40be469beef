"""A walk over the batch headers of a log file (`FileLogInputStream`).

It yields the start, end and last offset of each batch, because a fetch needs no more. Checksums are left to the client,
as with any broker.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from kafkalog.codec.model import BATCH, LOG_OVERHEAD
from kafkalog.codec.rules.framing import BATCH_MAGIC, MAGIC_END, MAGIC_POSITION, SMALLEST_MESSAGE, entry_size
from kafkalog.server.files import OpenLog

__all__ = ["DamagedError", "Place", "places"]

_BLOCK = 4096
"""Bytes read at a time: several headers if batches are small."""
_OFFSET = BATCH.reader("base_offset")
_DELTA = BATCH.reader("last_offset_delta")


class DamagedError(Exception):
    """Bytes that cannot be a batch. A broker reports a corrupt log here."""

    def __init__(self, position: int) -> None:
        self.position = position
        super().__init__(position)

    def __str__(self) -> str:
        return f"no batch at byte {self.position}"


class Place(Struct, frozen=True, kw_only=True):
    """Position in a log file of a batch, or of a message of magic 0 or 1, and its offsets. `end` is behind it."""

    position: int
    end: int
    last_offset: int
    base_offset: int | None
    """unknown for messages, which may contain others"""

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.end - self.position


def places(log: OpenLog, position: int, end: int) -> Iterator[Place]:
    """Yield the place of each batch from byte `position`, where a batch must begin, up to byte `end` (exclusive), in
    file order: its first byte, the byte after it, its last offset, and its base offset. A message of magic 0 or 1
    counts as a batch; its base offset is None.

    Only headers are read; checksums are not verified. An incomplete batch at the end is not yielded. Raises
    `DamagedError` with the position of bytes that cannot be a batch, `StorageError` if the file cannot be read.
    """
    block, begin = b"", position
    while end - position > MAGIC_END:
        at = position - begin
        if len(block) - at < min(BATCH.size, end - position):
            block, begin, at = log.read(position, min(_BLOCK, end - position)), position, 0
            if len(block) <= MAGIC_END:
                return  # the file became shorter
        size, magic = entry_size(block, at), block[at + MAGIC_POSITION]
        smallest = BATCH.size if magic >= BATCH_MAGIC else LOG_OVERHEAD.size + SMALLEST_MESSAGE
        if size < smallest or magic > BATCH_MAGIC:
            raise DamagedError(position)
        if size > end - position or len(block) - at < min(smallest, BATCH.size):
            return
        first = _OFFSET(block, at)
        if magic >= BATCH_MAGIC:
            yield Place(
                position=position, end=position + size, last_offset=first + _DELTA(block, at), base_offset=first
            )
        else:
            yield Place(position=position, end=position + size, last_offset=first, base_offset=None)
        position += size
