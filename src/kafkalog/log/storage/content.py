"""Content of a virtual file: a list of slices of original files, computed bytes and zeros. So truncating, renaming or
splitting a segment copies nothing, and the difference to the original files is explicit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from kafkalog.codec.common.source import Source, next_data, reads_into

__all__ = [
    "Content",
    "ContentSource",
    "Literal",
    "Part",
    "Slice",
    "Zeros",
    "join",
    "same_bytes",
]

_PIECE = 1 << 20
"""Bytes of two files that are compared at once."""
_FEW = 1 << 12


class Slice(Struct, frozen=True):
    """A range of bytes of an original file. `origin` is the path of that file in the original tree."""

    origin: str
    start: int
    length: int


class Literal(Struct, frozen=True):
    """Bytes that were computed."""

    data: bytes

    @property
    def length(self) -> int:
        """Number of bytes."""
        return len(self.data)


class Zeros(Struct, frozen=True):
    """Zero bytes, as at the end of a file that was extended."""

    length: int


Part = Slice | Literal | Zeros


class Content(Struct, frozen=True):
    """Content of a virtual file: the concatenation of its parts."""

    parts: tuple[Part, ...] = ()

    @property
    def size(self) -> int:
        """Size of the content in bytes."""
        if len(self.parts) == 1:
            return self.parts[0].length
        size = 0
        for part in self.parts:
            size += part.length
        return size

    def slice(self, start: int, end: int) -> Content:
        """Return the content from byte `start` to byte `end` (exclusive). Bytes after the end of this content are
        zeros. No file is read.
        """
        if len(self.parts) == 1 and 0 <= start < end <= self.parts[0].length:
            only = self.parts[0]
            return self if (start, end) == (0, only.length) else Content((_cut(only, start, end),))
        parts: list[Part] = []
        position = 0
        for part in self.parts:
            low, high = max(start - position, 0), min(end - position, part.length)
            if low < high:
                parts.append(_cut(part, low, high))
            position += part.length
        missing = end - max(position, start)
        if missing > 0:
            parts.append(Zeros(missing))
        return join(parts)


def _cut(part: Part, low: int, high: int) -> Part:
    if isinstance(part, Slice):
        return Slice(part.origin, part.start + low, high - low)
    if isinstance(part, Literal):
        return Literal(part.data[low:high])
    return Zeros(high - low)


def join(parts: Iterable[Part]) -> Content:
    """Return the concatenation of parts. Empty parts are dropped. Neighbors of the same kind are merged; slices only if
    they are adjacent in one original file.
    """
    joined: list[Part] = []
    for part in parts:
        last = joined[-1] if joined else None
        if part.length == 0:
            continue
        merged = _merge(last, part)
        if merged is None:
            joined.append(part)
        else:
            joined[-1] = merged
    return Content(tuple(joined))


def _merge(last: Part | None, part: Part) -> Part | None:
    match last, part:
        case Slice(), Slice() if last.origin == part.origin and last.start + last.length == part.start:
            return Slice(last.origin, last.start, last.length + part.length)
        case Literal(), Literal():
            return Literal(last.data + part.data)
        case Zeros(), Zeros():
            return Zeros(last.length + part.length)
    return None


class ContentSource:
    """`Source` that reads the content of a virtual file. Original files are opened as needed, with `origin`, a function
    from path to `Source`.
    """

    def __init__(self, content: Content, origin: Callable[[str], Source]) -> None:
        self._content = content
        self._origin = origin
        self._size = content.size
        self._only = content.parts[0] if len(content.parts) == 1 else None

    @property
    def size(self) -> int:
        """Total number of bytes."""
        return self._size

    def read(self, position: int, length: int) -> bytes | memoryview:
        """Return `length` bytes from `position`; fewer if the content or an original file (which may have become
        shorter) ends before that, and none at or after the end. Raises `StorageError` if an original file cannot be
        read.
        """
        if isinstance(self._only, Slice) and position < self._size:
            length = min(length, self._size - position)
            return self._origin(self._only.origin).read(self._only.start + position, length)
        wanted = (
            self._content.slice(position, min(position + length, self._size)).parts if position < self._size else ()
        )
        pieces: list[bytes | memoryview] = []
        for part in wanted:
            pieces.append(self._part(part))
            if len(pieces[-1]) < part.length:  # the original file has become shorter
                break
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def next_data(self, position: int, end: int) -> int:
        """Return the first position at or after `position` and below `end` that holds data: not a `Zeros` part, and not
        a hole of an original file. Zeros written in an original file are data. Return `end` if there is none. Raises
        `StorageError` if an original file cannot be opened.
        """
        start = 0
        for part in self._content.parts:
            part_end = start + part.length
            low, high = max(position, start), min(end, part_end)
            if low < high and not isinstance(part, Zeros):
                data_start = low
                if isinstance(part, Slice):
                    shift = part.start - start
                    data_start = next_data(self._origin(part.origin), low + shift, high + shift) - shift
                if data_start < high:
                    return data_start
            if part_end >= end:
                break
            start = part_end
        return end

    def read_into(self, position: int, target: memoryview) -> int:
        """Read up to `len(target)` bytes from `position` into the start of `target`; return the number of bytes read.
        It is smaller only at the end of the content, or if an original file has become shorter. Raises `StorageError`
        if an original file cannot be read.
        """
        if isinstance(self._only, Slice):
            filling = reads_into(self._origin(self._only.origin))
            if filling is not None:
                wanted = max(min(len(target), self._size - position), 0)
                return filling.read_into(self._only.start + position, target[:wanted])
        data = self.read(position, len(target))
        target[: len(data)] = data
        return len(data)

    def _part(self, part: Part) -> bytes | memoryview:
        if isinstance(part, Slice):
            return self._origin(part.origin).read(part.start, part.length)
        return part.data if isinstance(part, Literal) else bytes(part.length)


def same_bytes(one: Content, other: Content, origin: Callable[[str], Source]) -> bool:
    """Return whether two contents have equal bytes. Parts that are the same slice of a file, or zeros in both, are not
    read. Other parts are read and compared. `origin` opens an original file by its path. Raises `StorageError` if one
    cannot be read.
    """
    if one.parts == other.parts:
        return True
    if one.size != other.size:
        return False
    position = 0
    for part in one.parts:
        beside = other.slice(position, position + part.length)
        if beside.parts != (part,) and not _same(Content((part,)), beside, origin):
            return False
        position += part.length
    return True


def _same(one: Content, other: Content, origin: Callable[[str], Source]) -> bool:
    mine, its = ContentSource(one, origin), ContentSource(other, origin)
    position, end = 0, mine.size
    if end <= _FEW:  # reading this takes less time than looking for holes
        return bytes(mine.read(0, end)) == bytes(its.read(0, end))
    while (position := min(next_data(mine, position, end), next_data(its, position, end))) < end:
        length = min(_PIECE, end - position)
        if bytes(mine.read(position, length)) != bytes(its.read(position, length)):
            return False
        position += length
    return True
