"""The interface from which scans read bytes at any position, and its implementation for buffers. `log.disk` implements
it for files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, cast

from kafkalog.codec.common.arguments import byte_view
from kafkalog.codec.common.memory import LARGE_BYTES, own_pages

__all__ = [
    "BufferSource",
    "ReadsInto",
    "Source",
    "Window",
    "next_data",
    "reads_into",
    "used_end",
    "zeros_end",
]

Bytes = bytes | memoryview
_FIRST_PIECE = 1 << 14
_GROWTH = 4
"""Bytes of a window's first piece, and the factor by which later pieces may grow."""
_PIECE = 1 << 20
"""Most bytes that are compared with zeros at once."""


class Source(Protocol):
    """A sequence of `size` bytes that can be read in pieces. A source over a file raises `StorageError` if it cannot be
    read.
    """

    @property
    def size(self) -> int:
        """Total number of bytes."""

    def read(self, position: int, length: int) -> Bytes:
        """Return `length` bytes from `position`; fewer only at the end of the source."""


class ReadsInto(Protocol):
    """A source that can also fill existing memory. It raises `StorageError` if a file cannot be read."""

    def read_into(self, position: int, target: memoryview) -> int:
        """Read `len(target)` bytes from `position` into `target`; return their number, which is less only at the end of
        the source.
        """


def reads_into(source: Source) -> ReadsInto | None:
    """Return the source as one that can fill memory; None if it cannot."""
    return cast(ReadsInto, source) if hasattr(source, "read_into") else None


def next_data(source: Source, position: int, end: int) -> int:
    """Return the first position from `position` to `end` that may hold anything but zeros. If there is none, return
    `end`, or the end of a shorter file, but never less than `position`. A hole in a file reads as zeros; to skip it
    takes one system call. If the source has no method `next_data`, `position` is returned. Raises `StorageError` if a
    file cannot be opened.
    """
    method = getattr(source, "next_data", None)
    if method is None:
        return position
    found: int = method(position, end)
    return max(position, min(found, end))


def zeros_end(source: Source, position: int, end: int) -> int:
    """Return the position after the zeros that begin at `position`. It is the position of the first other byte, `end`,
    or the end of the source, whichever is lowest; `position` itself if there are no zeros. Raises `StorageError` if a
    file cannot be read.
    """
    for start, piece in _data(source, position, end):
        if not piece or piece != bytes(len(piece)):
            return start + len(piece) - len(piece.lstrip(b"\0"))
    return max(position, end)


def used_end(source: Source, end: int) -> int:
    """Return the position after the last byte before `end` that is not zero; 0 if all are zero. Everything before
    `end`, or before the end of the source, is read except holes. Raises `StorageError` if a file cannot be read.
    """
    used = 0
    for position, piece in _data(source, 0, end):
        if piece != bytes(len(piece)):
            used = position + len(piece.rstrip(b"\0"))
    return used


def _data(source: Source, position: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield (position, bytes) of all data outside holes from `position` to `end` (exclusive), in order. The
    first piece, and the first after a hole, has at most `_FIRST_PIECE` bytes, because the data is often a single page
    of an index. The pieces after it grow to `_PIECE` bytes. If the source is shorter than `end`, an empty piece comes
    last.
    """
    size = _FIRST_PIECE
    while (data_start := next_data(source, position, end)) < end:
        size = _FIRST_PIECE if data_start > position else size
        piece = bytes(source.read(data_start, min(size, end - data_start)))
        yield data_start, piece
        if not piece:
            return
        position, size = data_start + len(piece), min(_GROWTH * size, _PIECE)


class BufferSource:
    """A source over bytes in memory (or mapped). Reads return views, not copies. Memory with larger items is read byte
    by byte; memory that is not contiguous raises `UsageError`.
    """

    def __init__(self, buffer: bytes | bytearray | memoryview) -> None:
        self._view = byte_view(buffer)

    @property
    def size(self) -> int:
        """Total number of bytes."""
        return len(self._view)

    def read(self, position: int, length: int) -> memoryview:
        """Return a view of `length` bytes from `position`; fewer only at the end."""
        return self._view[position : position + length]


def _read(source: Source, position: int, length: int) -> memoryview:
    filling = reads_into(source) if length >= LARGE_BYTES else None
    if filling is None:
        return memoryview(source.read(position, length))
    target = memoryview(own_pages(length))
    return target[: filling.read_into(position, target)].toreadonly()


class Window:
    """Reader of a source in large pieces that returns views. A view larger than a piece gets a piece of its own. The
    first piece is small and later ones grow, because many scans end where they began: at damage. Nothing after `end` is
    read in advance. Methods that read raise `StorageError` if a file cannot be read.
    """

    def __init__(self, source: Source, piece_bytes: int, end: int | None = None) -> None:
        self._source = source
        self._piece_bytes = piece_bytes
        self._ahead = min(_FIRST_PIECE, piece_bytes)
        self._end = source.size if end is None else end
        self._piece = memoryview(b"")
        self._start = 0

    def view(self, position: int, length: int) -> memoryview:
        """Return a view of `length` bytes from `position`; fewer only at the end of the source. The view stays valid
        after later calls. If the current piece does not cover it, a new piece is read from `position` and replaces the
        current one. Raises `StorageError` if a file cannot be read.
        """
        start = position - self._start
        if start < 0 or start + length > len(self._piece):
            if start > 0 and self._piece:  # otherwise the piece is only too short for this view
                self._ahead = min(self._ahead * _GROWTH, self._piece_bytes)
            ahead = min(self._ahead, self._end - position)
            self._piece = memoryview(b"")  # so that two large pieces are not held at once
            self._piece = _read(self._source, position, max(length, ahead))
            self._start = position
            start = 0
        return self._piece[start : start + length]
