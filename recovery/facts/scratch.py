"""Keep computed bytes of a plan out of memory, in a temporary file without a name that disappears when it is closed."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterable
from typing import IO

from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.common.limits import MIB
from kafkalog.log.storage.content import Slice

__all__ = ["SCRATCH", "Scratch"]

SCRATCH = "\0scratch"
"""origin of its slices; no file has this name"""
_IN_MEMORY = 64 * MIB
"""Most bytes that stay in memory instead of a file."""


class Scratch:
    """File of computed bytes, appended one piece after another, in the directory for temporary files (`TMPDIR`). Up to
    64 MiB stay in memory until `divide` is called.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._size = 0
        self._end: int | None = None
        """end of this process's part in bytes; None: it may write anywhere"""
        self._is_shared = False

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self._size

    def keep(self, data: bytes) -> Slice:
        """Append bytes to the file, which is created if needed; return the slice (position and length) that holds them.
        After `stay_in`, they go into the part of the file that this process has. Raises `StorageError` if the file
        cannot be created or written, for example because the disk or that part is full.
        """
        try:
            if self._file is None:
                self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - see close
            if self._is_shared:
                self._write_shared(data)
            else:
                self._file.seek(self._size)
                self._file.write(data)
        except OSError as error:
            raise StorageError.wrap(error, f"cannot write to a temporary file in {tempfile.gettempdir()}") from error
        self._size += len(data)
        return Slice(SCRATCH, self._size - len(data), len(data))

    def _write_shared(self, data: bytes) -> None:
        if self._file is None or (self._end is not None and self._size + len(data) > self._end):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        left, position = memoryview(data), self._size
        while left:
            done = os.pwrite(self._file.fileno(), left, position)
            left, position = left[done:], position + done

    def divide(self, sizes: Iterable[int]) -> list[int]:
        """Reserve one part of each size in bytes, after the present end, for processes that are forked later; return
        the position at which each part begins. Bytes that no process writes are zeros, or missing at the end of the
        file. Raises `StorageError` if the file cannot be created or written.
        """
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115 - see close
            self._file.flush()
            self._file.fileno()  # which makes it a file where it was not
            self._file.flush()
        except OSError as error:
            raise StorageError.wrap(error, f"cannot write to a temporary file in {tempfile.gettempdir()}") from error
        self._is_shared = True
        starts = []
        for size in sizes:
            starts.append(self._size)
            self._size += size
        return starts

    def stay_in(self, start: int, size: int) -> None:
        """Restrict further writes to the reserved part of `size` bytes at `start`. Called in the process that this part
        is for.
        """
        self._size, self._end = start, start + size

    def read(self, position: int, length: int) -> bytes:
        """Return `length` bytes from byte `position`; fewer if the file ends before, none if nothing was kept. Raises
        `StorageError` if reading fails.
        """
        if self._file is None:
            return b""
        try:
            if self._is_shared:
                return os.pread(self._file.fileno(), length, position)
            self._file.seek(position)
            return self._file.read(length)
        except OSError as error:
            raise StorageError.wrap(error, f"cannot read a temporary file in {tempfile.gettempdir()}") from error

    def close(self) -> None:
        """Close the file, which removes it."""
        if self._file is not None:
            self._file.close()
