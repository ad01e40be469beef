"""The port through which the storage classes reach their files.

Two disks: `tree.Tree`, a virtual copy on which a plan computes what a broker would leave, and
`directory.DirectoryDisk`, through which `Log` writes.  Paths are what the disk was given, with `/` between names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kafkalog.codec.source import Source

if TYPE_CHECKING:
    from kafkalog.codec.headers.table import HeaderTable

__all__ = ["Disk", "GrowingFile", "LogStore", "Slots"]


class Slots(Protocol):
    """The slots of an index file that is held open."""

    entries: int
    """slots in use"""

    @property
    def max_entries(self) -> int:
        """Slots that there is room for."""

    def slot(self, number: int) -> bytes:
        """The bytes of one slot."""

    def append(self, data: bytes) -> None:
        """Add whole entries."""

    def keep(self, entries: int) -> None:
        """No entry after the first `entries` is in use."""

    def resize(self, size: int) -> bool:
        """Make room for so many bytes of entries; whether that changed the file."""

    def trim(self) -> None:
        """Cut the file after its entries."""

    def store(self) -> None:
        """Bring the disk up to date."""

    def renamed(self, path: str) -> None:
        """The file is under another name now."""

    def sync(self) -> None:
        """Make it durable."""

    def close(self) -> None:
        """Close the file."""


class GrowingFile(Protocol):
    """A file that is appended to, and comes to be with the first bytes; closed, it is opened again when needed."""

    exists: bool

    def source(self) -> Source:
        """A reader of the file as it is now."""

    def append(self, data: bytes) -> None:
        """Write after the end."""

    def truncate(self, size: int) -> None:
        """Cut the file."""

    def renamed(self, path: str) -> None:
        """The file is under another name now."""

    def sync(self) -> None:
        """Make it durable."""

    def close(self) -> None:
        """Close the file."""


class LogStore(Protocol):
    """A log file; `size` is where its content ends.  Closed, it is opened again when needed."""

    @property
    def size(self) -> int:
        """Bytes of its content."""

    def source(self) -> Source:
        """A reader of the file; it ends where the content ends, now or later."""

    def headers(self) -> HeaderTable | None:
        """The sound batches at its start, where a table of them is at hand."""

    def append(self, data: bytes) -> None:
        """Write after the end."""

    def append_from(self, other: Source, start: int, end: int) -> None:
        """Write after the end what is in another log."""

    def truncate(self, size: int) -> None:
        """Cut the content."""

    def reserve(self, size: int) -> None:
        """Make room up to `size` bytes."""

    def trim(self) -> None:
        """Give back what was reserved and not used."""

    def renamed(self, path: str) -> None:
        """The file is under another name now."""

    def sync(self) -> None:
        """Make it durable."""

    def close(self) -> None:
        """Close the file."""


class Disk(Protocol):
    """Files by path.  The tree raises the broker's exceptions, the directory `StorageError`."""

    def is_file(self, path: str) -> bool:
        """A regular file of this path is there."""

    def is_directory(self, path: str) -> bool:
        """A directory of this path is there."""

    def exists(self, path: str) -> bool:
        """A file or a directory of this path is there."""

    def read(self, path: str) -> bytes:
        """The whole content of a small file."""

    def source(self, path: str) -> Source:
        """A reader of a file that is not open: a snapshot."""

    def all_names(self, directory: str) -> list[str]:
        """Names of the regular files directly in a directory, sorted."""

    def names(self, directory: str) -> list[str]:
        """The names in a directory that a JVM finds."""

    def changes(self, directory: str, suffix: str) -> int:
        """How often a name with this suffix came or went, where others than the asking change names too."""

    def modified_ms(self, path: str) -> int:
        """When a file was changed last, in ms; fractions are cut off."""

    def set_modified_ms(self, path: str, time_ms: int) -> None:
        """Say when a file was changed last."""

    def create(self, path: str) -> None:
        """Make an empty file."""

    def replace(self, path: str, data: bytes) -> None:
        """Put `data` in place of a file, written beside it and renamed."""

    def overwrite(self, path: str, data: bytes) -> None:
        """Write a file from its start on, as who opens it for writing does."""

    def delete(self, path: str) -> None:
        """Remove a file if it is there."""

    def rename(self, old: str, new: str) -> None:
        """Rename a file over whatever is there."""

    def sync_names(self, directory: str) -> None:
        """Make the names in a directory durable."""

    def open_log(self, path: str, *, create: bool | None) -> LogStore:
        """Open a log file: a new one, one that is there, or with None whichever it is."""

    def slots(self, path: str, entry_size: int, max_size: int) -> Slots:
        """Open an index file of at most so many bytes, and make it if it is missing."""

    def open_or_create_later(self, path: str) -> GrowingFile:
        """Open a file that there may not be yet."""
