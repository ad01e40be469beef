"""Bytes at positions: what a walk reads from.  Files implement this elsewhere; here is the one over a buffer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, cast

from kafkalog.codec.arguments import byte_view
from kafkalog.codec.memory import LARGE_BYTES, own_pages

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
"""A window begins with a piece of so many bytes; each one after it may be so many times as large."""
_PIECE = 1 << 20
"""Bytes that are compared with zeros at a time."""


class Source(Protocol):
    """A sequence of `size` bytes that can be read in pieces."""

    @property
    def size(self) -> int:
        """Bytes there are."""

    def read(self, position: int, length: int) -> Bytes:
        """`length` bytes from `position`; fewer only where the source ends."""


class ReadsInto(Protocol):
    """A source that can also fill memory that is there already."""

    def read_into(self, position: int, target: memoryview) -> int:
        """Read as many bytes as `target` has, as `read` does; how many there were."""


def reads_into(source: Source) -> ReadsInto | None:
    """The source as one that can fill memory; None if it cannot."""
    return cast(ReadsInto, source) if hasattr(source, "read_into") else None


def next_data(source: Source, position: int, end: int) -> int:
    """The first position from `position` on where something other than zeros may stand; at most `end`.

    A hole in a file reads as zeros and takes no room: 1 TiB of it costs one question instead of a read of 1 TiB.
    Sources that know of holes have a method of this name; of others every byte may be anything.
    """
    method = getattr(source, "next_data", None)
    if method is None:
        return position
    found: int = method(position, end)
    return max(position, min(found, end))


def zeros_end(source: Source, position: int, end: int) -> int:
    """Where zeros from `position` on end: at another byte, at `end`, or where the source is shorter than that."""
    for start, piece in _data(source, position, end):
        if not piece or piece != bytes(len(piece)):
            return start + len(piece) - len(piece.lstrip(b"\0"))
    return max(position, end)


def used_end(source: Source, end: int) -> int:
    """The position after the last byte before `end` that is not zero; reads what is not a hole."""
    used = 0
    for position, piece in _data(source, 0, end):
        if piece != bytes(len(piece)):
            used = position + len(piece.rstrip(b"\0"))
    return used


def _data(source: Source, position: int, end: int) -> Iterator[tuple[int, bytes]]:
    """What is in no hole, in pieces, an empty one where the source is shorter; those behind a hole are small at first.

    Most data is the page in which the entries of an index end, and a system keeps in memory what is read of a hole.
    """
    size = _FIRST_PIECE
    while (found := next_data(source, position, end)) < end:
        size = _FIRST_PIECE if found > position else size
        piece = bytes(source.read(found, min(size, end - found)))
        yield found, piece
        if not piece:
            return
        position, size = found + len(piece), min(_GROWTH * size, _PIECE)


class BufferSource:
    """A source over bytes that are already in memory (or mapped); reads are views, not copies.

    Memory with larger items is read byte by byte; memory that is not contiguous is a `UsageError`.
    """

    def __init__(self, buffer: bytes | bytearray | memoryview) -> None:
        self._view = byte_view(buffer)

    @property
    def size(self) -> int:
        """Bytes there are."""
        return len(self._view)

    def read(self, position: int, length: int) -> memoryview:
        """A view of `length` bytes from `position`; fewer only at the end."""
        return self._view[position : position + length]


def _read(source: Source, position: int, length: int) -> memoryview:
    filling = reads_into(source) if length >= LARGE_BYTES else None
    if filling is None:
        return memoryview(source.read(position, length))
    target = memoryview(own_pages(length))
    return target[: filling.read_into(position, target)].toreadonly()


class Window:
    """Reads a source in large pieces and hands out views; a view larger than a piece gets a piece of its own.

    The first piece is small and those after it grow, for a walk may end where it began: after damage many do.  Nothing
    is read ahead after `end`.
    """

    def __init__(self, source: Source, piece_bytes: int, end: int | None = None) -> None:
        self._source = source
        self._piece_bytes = piece_bytes
        self._ahead = min(_FIRST_PIECE, piece_bytes)
        self._end = source.size if end is None else end
        self._piece = memoryview(b"")
        self._start = 0

    def view(self, position: int, length: int) -> memoryview:
        """`length` bytes from `position`; fewer only where the source ends."""
        start = position - self._start
        if start < 0 or start + length > len(self._piece):
            if start > 0 and self._piece:  # else the piece only is too short for this view
                self._ahead = min(self._ahead * _GROWTH, self._piece_bytes)
            ahead = min(self._ahead, self._end - position)
            self._piece = memoryview(b"")  # which may be large, as the next one may
            self._piece = _read(self._source, position, max(length, ahead))
            self._start = position
            start = 0
        return self._piece[start : start + length]
