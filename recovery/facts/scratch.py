"""Bytes that a plan computed and nobody should hold in memory: in a file without a name, gone when it is closed."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterable
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
        self._end: int | None = None
        """where the stretch ends that this process stays in"""
        self._is_shared = False

    @property
    def size(self) -> int:
        """Bytes there are."""
        return self._size

    def keep(self, data: bytes) -> Slice:
        """Add bytes; gives where they are."""
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
        """Set stretches aside for processes that are forked from now on; where each begins.

        The file has holes where they write less; they share nothing of it but what they have written.
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
        """Keep what comes next in a stretch that was set aside: this is the process that it is for."""
        self._size, self._end = start, start + size

    def read(self, position: int, length: int) -> bytes:
        """Bytes from `position`; fewer only at the end."""
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
        """Remove the scratch directory."""
        if self._file is not None:
            self._file.close()
