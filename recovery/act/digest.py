"""One digest for a file's content, whatever part of it is holes.

SHA-256 over each block of 64 KiB that is not all zeros, preceded by its position, and over the size at the end.  Two
files have the same digest if and only if they have the same bytes (as far as SHA-256 goes), however they are laid out
on disk; and a terabyte of holes costs nothing, because zeros need not be read to be counted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import lru_cache

__all__ = ["BLOCK", "ContentDigest", "Piece", "digest_of", "digest_of_zeros", "solid_blocks", "without_zeros"]

BLOCK = 1 << 16
_ZEROS = bytes(BLOCK)

Piece = tuple[int, bytes]
"""Position in the content, in bytes, and the bytes there; between pieces there are zeros."""


def solid_blocks(position: int, data: bytes) -> Iterator[tuple[int, memoryview]]:
    """The blocks of a piece that are not all zeros, with their positions; `position` is a multiple of `BLOCK`."""
    if position % BLOCK:
        raise ValueError(f"a piece begins at {position}, inside a block")
    view = memoryview(data)
    for start in range(0, len(view), BLOCK):
        length = min(BLOCK, len(view) - start)
        # bytes are compared as a whole, views item by item
        if data[start] or data[start : start + length] != _ZEROS[:length]:
            yield position + start, view[start : start + length]


class ContentDigest:
    """Takes the pieces of a content in order, each at a multiple of `BLOCK` and, but for the last, of whole blocks."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def take(self, position: int, data: bytes) -> None:
        """The next piece."""
        for at, block in solid_blocks(position, data):
            self._hash.update(at.to_bytes(8, "big"))
            self._hash.update(block)

    def of_size(self, size: int) -> str:
        """The digest, in hexadecimal, of a content of so many bytes."""
        last = self._hash.copy()
        last.update(size.to_bytes(8, "big"))
        return last.hexdigest()


def digest_of(pieces: Iterable[Piece], size: int) -> str:
    """The digest of a content of `size` bytes."""
    digest = ContentDigest()
    for position, data in pieces:
        digest.take(position, data)
    return digest.of_size(size)


@lru_cache(maxsize=1024)
def digest_of_zeros(size: int) -> str:
    """The digest of a content that holds nothing else."""
    return digest_of((), size)


def without_zeros(position: int, data: bytes) -> Iterator[Piece]:
    """A piece without its blocks of zeros: what has to be written of it.  `position` is any."""
    start = 0
    while start < len(data):
        end = start
        while end < len(data) and data[end : end + BLOCK] != _ZEROS[: len(data) - end]:
            end += BLOCK
        if end > start:
            yield position + start, data[start:end]
        start = end + BLOCK
