"""Files of a remote tier that are not what an object is: what was read as a whole, and the beginning of a log."""

from __future__ import annotations

from kafkalog.log.disk.remote_file import RemoteFile

__all__ = ["FirstBytes", "InMemory"]


class InMemory:
    """A file that was read as a whole: one that is encrypted must be."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self._data)

    def read(self, position: int, length: int) -> bytes:
        """Some of them."""
        return self._data[position : position + length]

    def close(self) -> None:
        """Nothing is open."""


class FirstBytes:
    """The first bytes of a file."""

    def __init__(self, file: RemoteFile, size: int) -> None:
        self._file = file
        self._size = size

    @property
    def size(self) -> int:
        """Bytes."""
        return self._size

    def read(self, position: int, length: int) -> bytes:
        """Some of them."""
        return self._file.read(position, min(length, self._size - position)) if position < self._size else b""

    def close(self) -> None:
        """Close the file."""
        self._file.close()
