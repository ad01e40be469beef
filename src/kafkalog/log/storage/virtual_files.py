"""Open files of the virtual tree: index files with slots, logs, and files that grow."""

from __future__ import annotations

from collections.abc import Container, MutableMapping
from typing import TYPE_CHECKING, Protocol

from kafkalog.codec.common.source import Source
from kafkalog.log.storage.content import Content, ContentSource, Literal, Part, Zeros, join
from kafkalog.log.storage.java import FullIndexError, IllegalArgumentError, JavaIOError

if TYPE_CHECKING:
    from kafkalog.codec.headers.table import HeaderTable

__all__ = ["VirtualFile", "VirtualLog", "VirtualSlots"]


class VirtualDirectory(Protocol):
    """Part of the virtual tree's interface that these files use."""

    @property
    def files(self) -> MutableMapping[str, Content]:
        """Contents by path."""

    @property
    def directories(self) -> Container[str]:
        """Paths of directories."""

    def source(self, path: str) -> ContentSource:
        """Return a reader of a file."""

    def reader(self, content: Content) -> ContentSource:
        """Return a reader of a content."""

    def headers(self, path: str) -> HeaderTable | None:
        """Return the table of headers that were already read; None if there is none."""

    def write(self, path: str, data: bytes) -> None:
        """Create or replace a file."""

    def computed(self, data: bytes) -> Part:
        """Return a part of a file with these bytes."""


class VirtualSlots:
    """An index file as a broker maps it (`AbstractIndex`): a file of full size with entries at the start, followed by
    old bytes or zeros. A change of length is written to the tree at once, entries only by `store`. An existing file is
    assumed to be full of entries; only recovery resets it. After a reset the old bytes remain until the file is
    trimmed.
    """

    def __init__(self, tree: VirtualDirectory, path: str, entry_size: int, max_size: int) -> None:
        if path in tree.directories:
            raise JavaIOError(f"{path} (Is a directory)")
        self._tree = tree
        self._path = path
        self._entry_size = entry_size
        self._written = bytearray()
        self._dirty = False
        if path not in tree.files:
            if max_size < entry_size:
                raise IllegalArgumentError(f"Invalid max index size: {max_size}")
            self._length = max_size // entry_size * entry_size
            tree.files[path] = join([Zeros(self._length)])
            self.entries = 0
        else:
            self._length = tree.files[path].size
            self.entries = self._length // entry_size
        self._there = tree.files[path]
        self._source: ContentSource | None = None
        """reader of the old bytes; None until it is needed"""

    @property
    def max_entries(self) -> int:
        """Number of slots that the file has room for."""
        return self._length // self._entry_size

    def slot(self, number: int) -> bytes:
        """Return the bytes of slot `number` (not negative), even if it holds no entry. Raises `IllegalArgumentError` if
        the slot is not completely inside the file. Raises `StorageError` if the file of the original directory cannot
        be read.
        """
        start = number * self._entry_size
        end = start + self._entry_size
        if end > self._length:
            raise IllegalArgumentError("an index entry lies after the end of its file")
        if end <= len(self._written):
            return bytes(self._written[start:end])
        return self._before(start, end)

    def _before(self, start: int, end: int) -> bytes:
        """Return old bytes, padded with zeros."""
        if self._source is None:
            self._source = self._tree.reader(self._there)
        return bytes(self._source.read(start, end - start)).ljust(end - start, b"\0")

    def append(self, data: bytes) -> None:
        """Append whole entries after the last one, in memory; `store` writes them to the tree. The caller must check
        that there is room. Raises `StorageError` if kept entries cannot be read.
        """
        position = self.entries * self._entry_size
        if len(self._written) < position:  # old entries that were kept come before the new ones
            self._written += self._before(len(self._written), position)
        self._written[position:] = data
        self.entries += len(data) // self._entry_size
        self._dirty = True

    def keep(self, entries: int) -> None:
        """Drop all entries after the first `entries`."""
        self.entries = entries

    def store(self) -> None:
        """Write pending entries to the tree: the file gets the new entries, followed by its old bytes or zeros up to
        its length. Does nothing if there was no change since the last call.
        """
        if not self._dirty:
            return
        self._dirty = False
        written = bytes(self._written[: self._length])
        there = self._tree.files[self._path]
        if len(written) == self._length:
            there = Content((Literal(written),) if written else ())
        elif written:
            there = join([Literal(written), *there.slice(len(written), self._length).parts])
        elif there.size != self._length:
            there = there.slice(0, self._length)
        self._tree.files[self._path] = there
        self._there, self._source = there, None

    def resize(self, size: int) -> bool:
        """Set the length of the file to `size` bytes, rounded down to whole entries, and write it to the tree with
        pending entries. Return True. If it has this length already, do nothing and return False. Entries are kept; a
        longer file is filled with zeros. Raises `FullIndexError` if the entries do not fit.
        """
        size = size // self._entry_size * self._entry_size
        if size == self._length:
            return False
        if self.entries * self._entry_size > size:
            raise FullIndexError(f"newPosition > limit: ({self.entries * self._entry_size} > {size})")
        del self._written[size:]
        self._length = size
        self._dirty = True
        self.store()
        return True

    def trim(self) -> None:
        """Truncate the file to its entries."""
        self.resize(self.entries * self._entry_size)
        self.store()

    def renamed(self, path: str) -> None:
        """Record the file's new path."""
        self.store()
        self._path = path
        self._there, self._source = self._tree.files[path], None

    def sync(self) -> None:
        """Do nothing, because there is no disk to flush to."""

    def close(self) -> None:
        """Write pending entries. The file keeps its length."""
        self.store()


class VirtualFile:
    """A file that is created by the first append."""

    def __init__(self, tree: VirtualDirectory, path: str) -> None:
        if path in tree.directories:
            raise JavaIOError(f"{path} (Is a directory)")
        self._tree = tree
        self._path = path
        self.exists = path in tree.files

    def source(self) -> ContentSource:
        """Return a reader of the file's current content."""
        return self._tree.source(self._path)

    def append(self, data: bytes) -> None:
        """Append bytes."""
        old = self._tree.files[self._path].parts if self.exists else ()
        self._tree.files[self._path] = join([*old, Literal(data)])
        self.exists = True

    def truncate(self, size: int) -> None:
        """Truncate the file to `size` bytes. Raises `KeyError` if it does not exist."""
        self._tree.files[self._path] = self._tree.files[self._path].slice(0, size)

    def renamed(self, path: str) -> None:
        """Record the file's new path."""
        self._path = path

    def sync(self) -> None:
        """Do nothing, because there is no disk to flush to."""

    def close(self) -> None:
        """Do nothing, because the file is not open."""


class VirtualLog:
    """A log file, which is created if it does not exist. The object is also the reader of the file."""

    def __init__(self, tree: VirtualDirectory, path: str) -> None:
        if path in tree.directories:
            raise JavaIOError(f"{path} (Is a directory)")
        self._tree = tree
        self._path = path
        if path not in tree.files:
            tree.write(path, b"")
        self._there = tree.files[path]
        self._source: ContentSource | None = None

    @property
    def _content(self) -> ContentSource:
        """Reader of the current content."""
        if self._source is None:
            self._source = self._tree.reader(self._there)
        return self._source

    @property
    def size(self) -> int:
        """Size of the content in bytes."""
        return self._there.size

    def read(self, position: int, length: int) -> bytes | memoryview:
        """Return `length` bytes from `position`; fewer only at the end of the file."""
        return self._content.read(position, length)

    def next_data(self, position: int, end: int) -> int:
        """Return the first position from `position` on, at most `end`, that is not in a hole."""
        return self._content.next_data(position, end)

    def read_into(self, position: int, target: memoryview) -> int:
        """Read bytes from `position` into `target`; return their number."""
        return self._content.read_into(position, target)

    def source(self) -> VirtualLog:
        """Return this file as a reader of the tree's current content."""
        self._there, self._source = self._tree.files[self._path], None
        return self

    def headers(self) -> HeaderTable | None:
        """Return the table of the sound batches at its start; None if there is none."""
        return self._tree.headers(self._path)

    def append(self, data: bytes) -> None:
        """Append bytes."""
        self._put(join([*self._tree.files[self._path].parts, self._tree.computed(data)]))

    def append_from(self, other: Source, start: int, end: int) -> None:
        """Append the bytes from `start` to `end` (exclusive) of another log of a tree; they are not read for this.
        Raises `TypeError` for another source.
        """
        if not isinstance(other, VirtualLog):
            raise TypeError(f"{type(other).__name__} is not a log of a tree")
        self._put(join([*self._tree.files[self._path].parts, *other.slice(start, end).parts]))

    def slice(self, start: int, end: int) -> Content:
        """Return a part of the content."""
        return self._tree.files[self._path].slice(start, end)

    def truncate(self, size: int) -> None:
        """Truncate the content to `size` bytes."""
        self._put(self._tree.files[self._path].slice(0, size))

    def _put(self, content: Content) -> None:
        self._tree.files[self._path] = content
        self._there, self._source = content, None

    def renamed(self, path: str) -> None:
        """Record the file's new path."""
        self._path = path

    def reserve(self, size: int) -> None:
        """Do nothing: virtual files need no space."""

    def trim(self) -> None:
        """Do nothing: no space was reserved."""

    def sync(self) -> None:
        """Do nothing, because there is no disk to flush to."""

    def close(self) -> None:
        """Do nothing, because the file is not open."""
