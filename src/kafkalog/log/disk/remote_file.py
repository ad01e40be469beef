"""Log directories that are not mounted: where a path is a URI, somebody else lists and reads.

Who knows an object store registers it for the beginning of a URI, `s3://bucket`; from then on the paths below it are
listed and read like local ones.  Nothing is ever written there.
"""

from __future__ import annotations

import os
import re
import stat
from typing import Protocol

from msgspec import Struct

from kafkalog.codec.errors import StorageError

__all__ = [
    "Content", "MissingFileError", "RemoteEntry", "RemoteFile", "Storage", "is_mounted", "is_uri", "mount", "mounted",
]  # fmt: skip

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://([^/]*)")


class MissingFileError(StorageError, FileNotFoundError):
    """Nothing has this name."""


class RemoteFile(Protocol):
    """An open file; reads raise `StorageError`."""

    @property
    def size(self) -> int:
        """Bytes there were when the file was opened."""

    def read(self, position: int, length: int) -> bytes:
        """`length` bytes from `position`; fewer only where the file ends."""

    def close(self) -> None:
        """Close the file."""


class Storage(Protocol):
    """What lists and reads; paths are whole URIs.  Everything raises `StorageError`."""

    def open(self, path: str) -> RemoteFile:
        """A file; `MissingFileError` if there is none."""

    def entries(self, path: str) -> list[RemoteEntry]:
        """What is directly below a directory."""

    def entry(self, path: str) -> RemoteEntry | None:
        """What is there, if anything."""


class RemoteEntry(Struct, frozen=True):
    """A file or directory with the methods of `os.DirEntry`; there are no links."""

    name: str
    path: str
    directory: bool
    size: int
    modified_ns: int
    newest: int | None = None
    """of a log, its largest timestamp, where who lists knows it"""
    is_untold: bool = False
    """a log of which neither its largest timestamp is known, nor anything else but what its files say"""

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a directory."""
        return self.directory

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a file."""
        return not self.directory

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Type, size and time; the rest is 0."""
        mode = stat.S_IFDIR | 0o555 if self.directory else stat.S_IFREG | 0o444
        seconds = self.modified_ns // 1_000_000_000
        values = (mode, 0, 0, 1, 0, 0, self.size, seconds, seconds, seconds)
        return os.stat_result(values, {"st_mtime_ns": self.modified_ns})


class Content(Struct, frozen=True):
    """A file whose bytes are here."""

    data: bytes

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.data)

    def read(self, position: int, length: int) -> bytes:
        """`length` bytes from `position`; fewer only where the file ends."""
        return self.data[position : position + length]

    def close(self) -> None:
        """Nothing is open."""


_MOUNTED: dict[str, Storage] = {}


def is_uri(path: str) -> bool:
    """Whether a path names a place that is not local."""
    return _URI.match(path) is not None


def mount(prefix: str, storage: Storage) -> None:
    """Let `storage` list and read what is below `prefix`, a scheme and an authority."""
    _MOUNTED[prefix] = storage


def is_mounted(path: str) -> bool:
    """Whether somebody lists and reads a URI."""
    found = _URI.match(path)
    return found is not None and found[0] in _MOUNTED


def mounted(path: str) -> Storage | None:
    """The storage that is registered for a URI; None if there is none."""
    found = _URI.match(path)
    return None if found is None else _MOUNTED.get(found[0])
