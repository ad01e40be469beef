"""Compute digests of the content of files, independent of the holes in them.

SHA-256 over each block of 64 KiB that is not all zeros, preceded by its position, and over the size at the end. Two
files have equal digests if and only if they have equal bytes (up to collisions of SHA-256), however they are laid out
on disk. A terabyte of holes costs nothing, because zeros need not be read to be counted.
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
    """Divide `data` into blocks of 64 KiB (`BLOCK`); yield (position, view) of each block that is not all zeros, in
    order. The last block may be shorter. `position` is the position of `data` in its file, and yielded positions are
    positions in the file too. Raises `ValueError` if `position` is not a multiple of `BLOCK`.
    """
    if position % BLOCK:
        raise ValueError(f"a piece begins at {position}, inside a block")
    view = memoryview(data)
    for start in range(0, len(view), BLOCK):
        length = min(BLOCK, len(view) - start)
        # bytes are compared as a whole, views item by item
        if data[start] or data[start : start + length] != _ZEROS[:length]:
            yield position + start, view[start : start + length]


class ContentDigest:
    """Digest under construction. Pieces are added in order, each at a multiple of `BLOCK` and, except the last, of
    whole blocks.
    """

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def take(self, position: int, data: bytes) -> None:
        """Add the next piece."""
        for block_position, block in solid_blocks(position, data):
            self._hash.update(block_position.to_bytes(8, "big"))
            self._hash.update(block)

    def of_size(self, size: int) -> str:
        """Digest, in hexadecimal, for a content of `size` bytes."""
        last = self._hash.copy()
        last.update(size.to_bytes(8, "big"))
        return last.hexdigest()


def digest_of(pieces: Iterable[Piece], size: int) -> str:
    """Return the digest, in hexadecimal, of a content of `size` bytes with these pieces."""
    digest = ContentDigest()
    for position, data in pieces:
        digest.take(position, data)
    return digest.of_size(size)


@lru_cache(maxsize=1024)
def digest_of_zeros(size: int) -> str:
    """Digest of a content of `size` zeros."""
    return digest_of((), size)


def without_zeros(position: int, data: bytes) -> Iterator[Piece]:
    """Yield (position, bytes) of the parts of a piece without its blocks of zeros, which need not be written. A block
    has 64 KiB and is counted from the start of `data`. `position` may be any position of `data` in its file.
    Neighbouring blocks with data are one part. Yields nothing for a piece of zeros.
    """
    start = 0
    while start < len(data):
        end = start
        while end < len(data) and data[end : end + BLOCK] != _ZEROS[: len(data) - end]:
            end += BLOCK
        if end > start:
            yield position + start, data[start:end]
        start = end + BLOCK
