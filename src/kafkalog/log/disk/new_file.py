"""Create a new file completely or not at all: it is written under a temporary name, and renamed at the end."""

from __future__ import annotations

import errno
import os
import stat
from secrets import token_hex
from types import TracebackType
from typing import Self

from kafkalog.codec.common.errors import StorageError, UsageError
from kafkalog.log.disk import fs

__all__ = ["NewFile", "require_replaceable"]


def require_replaceable(path: str) -> None:
    """Raise `UsageError` if something other than a regular file has the name `path`: a directory, a device or a FIFO.
    Links are followed. Does nothing if nothing has the name or it cannot be examined.
    """
    try:
        mode = os.stat(path).st_mode
    except OSError:  # nothing is there, or an error that creating the file reports
        return
    if not stat.S_ISREG(mode):
        raise UsageError(f"{path} is not a regular file, and only a regular file can be replaced")


class NewFile:
    """A file to be created, as a context manager. The content is written to a temporary file beside it, which is
    renamed at the end; after an error or interrupt it is removed. If the file already exists, it is not changed and
    `UsageError` is raised, unless `overwrite` is True: then a regular file is replaced in one step, also if `path` is a
    link to it. Raises `StorageError` for I/O errors.
    """

    def __init__(self, path: str, *, overwrite: bool = False) -> None:
        self._name = path
        self._path = os.path.realpath(path) if overwrite else path
        self._overwrite = overwrite
        self._temporary = f"{self._path}.{token_hex(8)}.tmp"
        self._file = fs.AppendFile(self._temporary, create=True)

    @property
    def size(self) -> int:
        """Number of bytes written so far."""
        return self._file.size

    def append(self, data: bytes | memoryview) -> None:
        """Append bytes. Raises `StorageError` if writing fails."""
        self._file.append(data)

    def finish(self) -> None:
        """Flush and close the temporary file, rename it to its final name, and flush the directory. Raises `UsageError`
        if a file of that name exists. With `overwrite`, a regular file is replaced, and `UsageError` is only raised for
        anything else of that name. Raises `StorageError` for I/O errors.

        If an error occurs before the renaming, the temporary file is removed. If only flushing the directory fails, the
        new file stays.
        """
        try:
            self._file.sync()
            self._file.close()
            if self._overwrite:
                require_replaceable(self._path)
                fs.rename(self._temporary, self._path)
            else:
                self._rename_new()
        except BaseException:
            self.give_up()
            raise
        fs.sync_directory(os.path.dirname(os.path.abspath(self._path)))

    def _rename_new(self) -> None:
        try:
            fs.rename_new(self._temporary, self._path)
        except StorageError as error:
            if error.errno != errno.EEXIST:
                raise
            raise UsageError(f"{self._name} was created by another process meanwhile; it was not replaced") from None

    def give_up(self) -> None:
        """Close and remove the written file."""
        self._file.close()
        fs.remove(self._temporary)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.finish()
        else:
            self.give_up()
