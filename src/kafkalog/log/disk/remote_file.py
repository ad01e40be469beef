"""The interface of storages, and their registry. A path that is a URI is listed and read by the storage that is
registered for its start, such as `s3://bucket`, so that log directories in object stores are read like local ones.
Nothing is ever written there.
"""

from __future__ import annotations

import os
import re
import stat
from typing import Protocol

from msgspec import Struct

from kafkalog.codec.common.errors import StorageError

__all__ = [
    "Content", "MissingFileError", "RemoteEntry", "RemoteFile", "Storage", "is_mounted", "is_uri", "mount", "mounted",
]  # fmt: skip

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://([^/]*)")


class MissingFileError(StorageError, FileNotFoundError):
    """No file or directory has this name."""


class RemoteFile(Protocol):
    """An open file. Reads raise `StorageError`."""

    @property
    def size(self) -> int:
        """Size in bytes when the file was opened."""

    def read(self, position: int, length: int) -> bytes:
        """Return `length` bytes from `position`; fewer only at the end of the file."""

    def close(self) -> None:
        """Close the file."""


class Storage(Protocol):
    """Lists and reads paths, which are whole URIs. All methods raise `StorageError`."""

    def open(self, path: str) -> RemoteFile:
        """Open a file. Raises `MissingFileError` if it does not exist."""

    def entries(self, path: str) -> list[RemoteEntry]:
        """Return the entries of a directory."""

    def entry(self, path: str) -> RemoteEntry | None:
        """Return the entry of a path; None if it does not exist."""


class RemoteEntry(Struct, frozen=True, kw_only=True):
    """A file or directory, with the interface of `os.DirEntry`. There are no links."""

    name: str
    path: str
    directory: bool
    size: int
    modified_ns: int
    newest: int | None = None
    """largest timestamp of a log in ms, if the storage knows it; otherwise None"""
    is_untold: bool = False
    """whether it is a log of which the storage knows only the files, and not its newest timestamp"""

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether the entry is a directory."""
        return self.directory

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether the entry is a file."""
        return not self.directory

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return type, size and time; other fields are 0."""
        mode = stat.S_IFDIR | 0o555 if self.directory else stat.S_IFREG | 0o444
        seconds = self.modified_ns // 1_000_000_000
        values = (mode, 0, 0, 1, 0, 0, self.size, seconds, seconds, seconds)
        return os.stat_result(values, {"st_mtime_ns": self.modified_ns})


class Content(Struct, frozen=True):
    """A file of which all bytes are in memory."""

    data: bytes

    @property
    def size(self) -> int:
        """Size in bytes."""
        return len(self.data)

    def read(self, position: int, length: int) -> bytes:
        """Return `length` bytes from `position`; fewer only at the end of the file."""
        return self.data[position : position + length]

    def close(self) -> None:
        """Do nothing."""


_MOUNTED: dict[str, Storage] = {}


def is_uri(path: str) -> bool:
    """Whether a path is a URI: a scheme, `://` and an authority, which may be empty."""
    return _URI.match(path) is not None


def mount(prefix: str, storage: Storage) -> None:
    """Register `storage` for all paths below `prefix`, a scheme and authority such as `s3://bucket`. It replaces a
    storage registered before. The scheme may be in upper or lower case.
    """
    _MOUNTED[_root(prefix) or prefix] = storage


def _root(path: str) -> str | None:
    match = _URI.match(path)
    return None if match is None else f"{match[1].lower()}://{match[2]}"


def is_mounted(path: str) -> bool:
    """Whether a storage is registered for a URI."""
    return _root(path) in _MOUNTED


def mounted(path: str) -> Storage | None:
    """Return the storage registered for a URI; None if there is none."""
    root = _root(path)
    return None if root is None else _MOUNTED.get(root)
