"""Files of the virtual tree that are held open: an index's slots, and a file that grows at its end."""

from __future__ import annotations

from collections.abc import Container, MutableMapping
from typing import TYPE_CHECKING, Protocol

from kafkalog.codec.source import Source
from kafkalog.log.storage.content import Content, ContentSource, Literal, Part, Zeros, join
from kafkalog.log.storage.java import FullIndexError, IllegalArgumentError, JavaIOError

if TYPE_CHECKING:
    from kafkalog.codec.headers.table import HeaderTable

__all__ = ["VirtualFile", "VirtualLog", "VirtualSlots"]


class VirtualDirectory(Protocol):
    """What these need of the virtual tree."""

    @property
    def files(self) -> MutableMapping[str, Content]:
        """Path -> content."""

    @property
    def directories(self) -> Container[str]:
        """Paths of directories."""

    def source(self, path: str) -> ContentSource:
        """A file's bytes."""

    def reader(self, content: Content) -> ContentSource:
        """The bytes of what a file holds."""

    def headers(self, path: str) -> HeaderTable | None:
        """Headers that were read before."""

    def write(self, path: str, data: bytes) -> None:
        """Put a file in place."""

    def computed(self, data: bytes) -> Part:
        """A part of a file that holds these bytes."""


class VirtualSlots:
    """An index as a broker maps it (`AbstractIndex`): at full size, with what was there, or zeros, after the entries.

    The tree has what becomes of the file's length at once, as a mapped file's length does, and its entries from `store`
    on.

    An existing file is taken to be full of entries; only recovery resets it.  Old bytes stay under a reset until the
    file is trimmed, so the file is modeled as what was written over what was there.
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
        """a reader of what is there, once it was asked for"""

    @property
    def max_entries(self) -> int:
        """Slots that the file has room for."""
        return self._length // self._entry_size

    def slot(self, number: int) -> bytes:
        """The bytes of one slot, in use or not."""
        start = number * self._entry_size
        end = start + self._entry_size
        if end > self._length:
            raise IllegalArgumentError("an index entry lies after the end of its file")
        if end <= len(self._written):
            return bytes(self._written[start:end])
        return self._before(start, end)

    def _before(self, start: int, end: int) -> bytes:
        """What was there, and zeros."""
        if self._source is None:
            self._source = self._tree.reader(self._there)
        return bytes(self._source.read(start, end - start)).ljust(end - start, b"\0")

    def append(self, data: bytes) -> None:
        """Add whole entries."""
        position = self.entries * self._entry_size
        if len(self._written) < position:  # entries that were kept, now under written ones
            self._written += self._before(len(self._written), position)
        self._written[position:] = data
        self.entries += len(data) // self._entry_size
        self._dirty = True

    def keep(self, entries: int) -> None:
        """No entry after the first `entries` is in use."""
        self.entries = entries

    def store(self) -> None:
        """Bring the tree up to date: what was written, what was there, zeros."""
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
        """Set the file's length; entries stay where they are."""
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
        """Cut the file after its entries."""
        self.resize(self.entries * self._entry_size)
        self.store()

    def renamed(self, path: str) -> None:
        """The file is under another name now."""
        self.store()
        self._path = path
        self._there, self._source = self._tree.files[path], None

    def sync(self) -> None:
        """Nothing is lost here."""

    def close(self) -> None:
        """Nothing is open; the file has the length that it was given."""
        self.store()


class VirtualFile:
    """A file that comes to be with what is appended first."""

    def __init__(self, tree: VirtualDirectory, path: str) -> None:
        if path in tree.directories:
            raise JavaIOError(f"{path} (Is a directory)")
        self._tree = tree
        self._path = path
        self.exists = path in tree.files

    def source(self) -> ContentSource:
        """A reader of the file as it is now."""
        return self._tree.source(self._path)

    def append(self, data: bytes) -> None:
        """Write after the end."""
        old = self._tree.files[self._path].parts if self.exists else ()
        self._tree.files[self._path] = join([*old, Literal(data)])
        self.exists = True

    def truncate(self, size: int) -> None:
        """Cut the file."""
        self._tree.files[self._path] = self._tree.files[self._path].slice(0, size)

    def renamed(self, path: str) -> None:
        """The file is under another name now."""
        self._path = path

    def sync(self) -> None:
        """Nothing is lost here."""

    def close(self) -> None:
        """Nothing is open."""


class VirtualLog:
    """A log file, made if there is none; it is its own reader."""

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
        """A reader of what is there."""
        if self._source is None:
            self._source = self._tree.reader(self._there)
        return self._source

    @property
    def size(self) -> int:
        """Bytes of its content."""
        return self._there.size

    def read(self, position: int, length: int) -> bytes | memoryview:
        """Bytes from `position`; fewer only where the file ends."""
        return self._content.read(position, length)

    def next_data(self, position: int, end: int) -> int:
        """The first position from `position` on that is in no hole."""
        return self._content.next_data(position, end)

    def read_into(self, position: int, target: memoryview) -> int:
        """Fill `target` with the bytes from `position`; how many there were."""
        return self._content.read_into(position, target)

    def source(self) -> VirtualLog:
        """A reader of the file, brought up to date."""
        self._there, self._source = self._tree.files[self._path], None
        return self

    def headers(self) -> HeaderTable | None:
        """The sound batches at its start, where a table of them is at hand."""
        return self._tree.headers(self._path)

    def append(self, data: bytes) -> None:
        """Write after the end."""
        self._put(join([*self._tree.files[self._path].parts, self._tree.computed(data)]))

    def append_from(self, other: Source, start: int, end: int) -> None:
        """Write after the end what is in another log, whose bytes are not read for it."""
        if not isinstance(other, VirtualLog):
            raise TypeError(f"{type(other).__name__} is not a log of a tree")
        self._put(join([*self._tree.files[self._path].parts, *other.slice(start, end).parts]))

    def slice(self, start: int, end: int) -> Content:
        """A part of its content."""
        return self._tree.files[self._path].slice(start, end)

    def truncate(self, size: int) -> None:
        """Cut the content."""
        self._put(self._tree.files[self._path].slice(0, size))

    def _put(self, content: Content) -> None:
        self._tree.files[self._path] = content
        self._there, self._source = content, None

    def renamed(self, path: str) -> None:
        """The file is under another name now."""
        self._path = path

    def reserve(self, size: int) -> None:
        """Room is not matter."""

    def trim(self) -> None:
        """Nothing was reserved."""

    def sync(self) -> None:
        """Nothing is lost here."""

    def close(self) -> None:
        """Nothing is open."""
