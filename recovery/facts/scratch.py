"""Bytes that a plan computed and nobody should hold in memory: in a file without a name, gone when it is closed."""

from __future__ import annotations

import tempfile
from typing import IO

from kafkalog.codec.errors import StorageError
from kafkalog.codec.limits import MIB
from kafkalog.log.storage.content import Slice

__all__ = ["SCRATCH", "Scratch"]

SCRATCH = "\0scratch"
"""the origin of its slices; no file has such a name"""
_IN_MEMORY = 64 * MIB
"""Less than this is not a file."""


class Scratch:
    """What was computed, one piece after the other; the place is that of temporary files (`TMPDIR`)."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._size = 0

    @property
    def size(self) -> int:
        """Bytes there are."""
        return self._size

    def keep(self, data: bytes) -> Slice:
        """Add bytes; gives where they are."""
        try:
            if self._file is None:
                self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - see close
            self._file.seek(self._size)
            self._file.write(data)
        except OSError as error:
            raise StorageError.wrap(error, f"cannot write to a temporary file in {tempfile.gettempdir()}") from error
        self._size += len(data)
        return Slice(SCRATCH, self._size - len(data), len(data))

    def read(self, position: int, length: int) -> bytes:
        """Bytes from `position`; fewer only at the end."""
        if self._file is None:
            return b""
        try:
            self._file.seek(position)
            return self._file.read(length)
        except OSError as error:
            raise StorageError.wrap(error, f"cannot read a temporary file in {tempfile.gettempdir()}") from error

    def close(self) -> None:
        """Remove the scratch directory."""
        if self._file is not None:
            self._file.close()
