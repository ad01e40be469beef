"""Files of a remote tier that are not a whole object: data in memory, and the beginning of a log."""

from __future__ import annotations

from kafkalog.log.disk.remote_file import RemoteFile

__all__ = ["FirstBytes", "InMemory"]


class InMemory:
    """A file in memory, such as a decrypted one."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    @property
    def size(self) -> int:
        """Size in bytes."""
        return len(self._data)

    def read(self, position: int, length: int) -> bytes:
        """Read from the data."""
        return self._data[position : position + length]

    def close(self) -> None:
        """Does nothing."""


class FirstBytes:
    """The first bytes of a file."""

    def __init__(self, file: RemoteFile, size: int) -> None:
        self._file = file
        self._size = size

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self._size

    def read(self, position: int, length: int) -> bytes:
        """Read from the file, up to the limit."""
        return self._file.read(position, min(length, self._size - position)) if position < self._size else b""

    def close(self) -> None:
        """Close the file."""
        self._file.close()
