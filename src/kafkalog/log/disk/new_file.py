"""A new file of what was found, whole or not at all: written under a name nobody can guess, and named at its end."""

from __future__ import annotations

import errno
import os
import stat
from secrets import token_hex
from types import TracebackType
from typing import Self

from kafkalog.codec.errors import StorageError, UsageError
from kafkalog.log.disk import fs

__all__ = ["NewFile", "require_replaceable"]


def require_replaceable(path: str) -> None:
    """Raises `UsageError` where something other than a regular file has this name; a link is followed."""
    try:
        mode = os.stat(path).st_mode
    except OSError:  # nothing is there, or it is said when the file is made
        return
    if not stat.S_ISREG(mode):
        raise UsageError(f"{path} is not a regular file, and only a regular file can be replaced")


class NewFile:
    """A context manager; an error, or an interrupt, leaves nothing behind.

    Whatever else has the name is left alone (`UsageError`), unless `overwrite` is given: then a regular file is
    replaced in one step, the one that a link names included.  Raises `StorageError` for I/O.
    """

    def __init__(self, path: str, *, overwrite: bool = False) -> None:
        self._given = path
        self._path = os.path.realpath(path) if overwrite else path
        self._overwrite = overwrite
        self._temporary = f"{self._path}.{token_hex(8)}.tmp"
        self._file = fs.AppendFile(self._temporary, create=True)

    @property
    def size(self) -> int:
        """Bytes that were written."""
        return self._file.size

    def append(self, data: bytes | memoryview) -> None:
        """Write after the end."""
        self._file.append(data)

    def finish(self) -> None:
        """Flush it and give it its name."""
        try:
            self._file.sync()
            self._file.close()
            if self._overwrite:
                require_replaceable(self._path)
                fs.rename(self._temporary, self._path)
            else:
                self._name()
        except BaseException:
            self.give_up()
            raise
        fs.sync_directory(os.path.dirname(os.path.abspath(self._path)))

    def _name(self) -> None:
        try:
            fs.rename_new(self._temporary, self._path)
        except StorageError as error:
            if error.errno != errno.EEXIST:
                raise
            raise UsageError(f"{self._given} was created by another process meanwhile; it was not replaced") from None

    def give_up(self) -> None:
        """Remove what was written."""
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
