"""The port through which the storage classes reach their files.

Two disks: `tree.Tree`, a virtual copy on which a plan computes what a broker would leave, and
`directory.DirectoryDisk`, through which `Log` writes.  Paths are what the disk was given, with `/` between names.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["Disk"]


class Disk(Protocol):
    """Files by path.  The tree raises the broker's exceptions, the directory `StorageError`."""

    def is_file(self, path: str) -> bool:
        """A regular file of this path is there."""

    def is_directory(self, path: str) -> bool:
        """A directory of this path is there."""

    def read(self, path: str) -> bytes:
        """The whole content of a small file."""

    def create(self, path: str) -> None:
        """Make an empty file."""

    def replace(self, path: str, data: bytes) -> None:
        """Put `data` in the place of a file, written beside it and renamed."""
