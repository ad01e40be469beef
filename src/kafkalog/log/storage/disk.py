"""Interface through which the storage classes access their files. There are two implementations: `tree.Tree`, a virtual
copy on which a plan computes the files that a broker would leave, and `directory.DirectoryDisk`, through which `Log`
writes. Paths begin as the disk expects (relative to the tree, or absolute), with `/` between names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kafkalog.codec.common.source import Source

if TYPE_CHECKING:
    from kafkalog.codec.headers.table import HeaderTable

__all__ = ["Disk", "GrowingFile", "LogStore", "Slots"]


class Slots(Protocol):
    """Slots of an open index file."""

    entries: int
    """number of used slots"""

    @property
    def max_entries(self) -> int:
        """Number of slots that the file has room for."""

    def slot(self, number: int) -> bytes:
        """Return the bytes of one slot."""

    def append(self, data: bytes) -> None:
        """Append whole entries."""

    def keep(self, entries: int) -> None:
        """Drop all entries after the first `entries`."""

    def resize(self, size: int) -> bool:
        """Make room for `size` bytes of entries; return whether that changed the file."""

    def trim(self) -> None:
        """Truncate the file to its entries."""

    def store(self) -> None:
        """Write pending changes to the disk."""

    def renamed(self, path: str) -> None:
        """Record the file's new path."""

    def sync(self) -> None:
        """Flush the file."""

    def close(self) -> None:
        """Close the file."""


class GrowingFile(Protocol):
    """A file to which bytes are appended, and which is created with the first bytes. After `close` it is opened again
    when needed.
    """

    exists: bool

    def source(self) -> Source:
        """Return a reader of the file's current content."""

    def append(self, data: bytes) -> None:
        """Append bytes."""

    def truncate(self, size: int) -> None:
        """Truncate the file to `size` bytes."""

    def renamed(self, path: str) -> None:
        """Record the file's new path."""

    def sync(self) -> None:
        """Flush the file."""

    def close(self) -> None:
        """Close the file."""


class LogStore(Protocol):
    """A log file. After `close` it is opened again when needed."""

    @property
    def size(self) -> int:
        """Size of the content in bytes."""

    def source(self) -> Source:
        """Return a reader of the file that always ends with the content."""

    def headers(self) -> HeaderTable | None:
        """Return a table for the headers of the sound batches at the start of the log; None if none is kept."""

    def append(self, data: bytes) -> None:
        """Append bytes."""

    def append_from(self, other: Source, start: int, end: int) -> None:
        """Append the bytes from `start` to `end` of another log."""

    def truncate(self, size: int) -> None:
        """Truncate the content to `size` bytes."""

    def reserve(self, size: int) -> None:
        """Reserve space up to `size` bytes."""

    def trim(self) -> None:
        """Release space that was reserved and not used."""

    def renamed(self, path: str) -> None:
        """Record the file's new path."""

    def sync(self) -> None:
        """Flush the file."""

    def close(self) -> None:
        """Close the file."""


class Disk(Protocol):
    """Files by path. The tree raises the broker's exceptions, the real directory `StorageError`."""

    def is_file(self, path: str) -> bool:
        """Whether a regular file has this path."""

    def is_directory(self, path: str) -> bool:
        """Whether a directory has this path."""

    def exists(self, path: str) -> bool:
        """Whether a file or directory has this path."""

    def read(self, path: str) -> bytes:
        """Return the whole content of a small file."""

    def source(self, path: str) -> Source:
        """Return a reader of a producer snapshot, which is not open."""

    def all_names(self, directory: str) -> list[str]:
        """Return the names of the regular files directly in a directory, sorted."""

    def names(self, directory: str) -> list[str]:
        """Return the names of the files in a directory that a JVM can open."""

    def changes(self, directory: str, suffix: str) -> int:
        """Return a number that grows whenever a file with this suffix is created or removed."""

    def modified_ms(self, path: str) -> int:
        """Return the modification time of a file in ms since 1970, rounded down."""

    def set_modified_ms(self, path: str, time_ms: int) -> None:
        """Set the modification time of a file, in ms since 1970."""

    def create(self, path: str) -> None:
        """Create an empty file."""

    def replace(self, path: str, data: bytes) -> None:
        """Replace a file's content by `data`, which is written beside it and renamed."""

    def overwrite(self, path: str, data: bytes) -> None:
        """Write a file from its start on, as opening it for writing does: bytes after `data` may remain."""

    def delete(self, path: str) -> None:
        """Remove a file if it exists."""

    def rename(self, old: str, new: str) -> None:
        """Rename a file, replacing an existing one."""

    def sync_names(self, directory: str) -> None:
        """Flush the names in a directory to disk."""

    def open_log(self, path: str, *, create: bool | None) -> LogStore:
        """Open a log file: create it if `create` is True, require that it exists if False; None: create it if it does
        not exist.
        """

    def slots(self, path: str, entry_size: int, max_size: int) -> Slots:
        """Open an index file of at most `max_size` bytes, and create it if it does not exist."""

    def open_or_create_later(self, path: str) -> GrowingFile:
        """Return a file that is created when it is first needed."""
