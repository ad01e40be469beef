"""The disk that is one: files of a directory that is written, durable where a log relies on them (`Utils`)."""

from __future__ import annotations

import os

from kafkalog.codec.limits import DEFAULT_LIMITS
from kafkalog.log import fs
from kafkalog.log.files import is_file, read_small

__all__ = ["DirectoryDisk"]


class DirectoryDisk:
    """Absolute paths; links are not followed.  Raises `StorageError`."""

    def is_file(self, path: str) -> bool:
        """A regular file of this path is there."""
        return is_file(path)

    def is_directory(self, path: str) -> bool:
        """A directory of this path is there."""
        return os.path.isdir(path)

    def read(self, path: str) -> bytes:
        """The whole content of a small file."""
        return read_small(path, DEFAULT_LIMITS.checkpoint_bytes)

    def create(self, path: str) -> None:
        """Make an empty file, flushed; whoever needs its name to be durable flushes the directory."""
        fs.write_new(path, b"")

    def replace(self, path: str, data: bytes) -> None:
        """Put `data` in the place of a file: at every moment, after a crash too, old or new is there."""
        fs.replace(path, data)
