"""Keep the log files of a read open, so that retention and deletion do not interrupt it. A broker deletes a segment in
two steps: it renames the files, and removes them a minute later. It deletes a whole partition in the same way
(`LocalLog.deleteSegmentFiles`, `LogManager.asyncDelete`). An open file stays readable. The process's limit of open
files bounds how many are kept open.
"""

from __future__ import annotations

import errno
import os
import resource
import threading
import weakref
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from kafkalog.codec.common.errors import StorageError
from kafkalog.log.disk.files import FileSource, open_regular
from kafkalog.log.disk.process import OwnProcess
from kafkalog.log.disk.remote import storage_of
from kafkalog.log.disk.remote_file import MissingFileError

__all__ = ["HeldFiles", "keep_free"]

_IN_USE = -1
_MANY = 1 << 20
"""Most open files if the system sets no limit."""
_GONE = (
    "the file was deleted before it was its turn to be read; the files before it were as many as the limit of open "
    "files lets a read hold open (ulimit -n sets it)"
)
_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)


class _Allowance:
    """Number of files that all reads of this process together may keep open: three quarters of the process's limit, not
    counting descriptors kept free. A read gets at most half of the remaining number, so that later reads get some too.
    """

    def __init__(self) -> None:
        self._taken = 0
        self.kept_free = 0
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._guard = threading.RLock()  # `give_back` may run inside `take`, in a finalizer

    def take(self, wanted: int) -> int:
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        limit = _MANY if limit == resource.RLIM_INFINITY else limit
        with self._guard:
            count = min(wanted, max(((limit - self.kept_free) * 3 // 4 - self._taken) // 2, 0))
            self._taken += count
            return count

    def give_back(self, count: int) -> None:
        with self._guard:
            self._taken -= count


_ALLOWANCE = _Allowance()


def keep_free(descriptors: int) -> None:
    """Set the number of file descriptors that reads of this process leave free for other uses."""
    _ALLOWANCE.kept_free = descriptors


class HeldFiles:
    """Log files of one read, opened in advance so that they stay readable if they are deleted. `paths` are in the order
    of reading. The next files are kept open, as many as the process's limit of open files allows. `passed` closes a
    file and opens later ones instead. A file that is not kept open is opened when it is read; if it was deleted before
    that, `MissingFileError` is raised, so nothing is skipped. All files are closed when the last reference to this
    object is gone. Files in an object store are not kept open.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._waiting = [path for path in paths if storage_of(path) is None]
        self._waiting.reverse()
        self._held: dict[str, int] = {}
        """descriptors by path, in the order of reading; `_IN_USE` while the file is being read"""
        self._in_use: dict[str, tuple[int, int]] = {}
        """descriptor and number of readers by path: reads have positions, so one descriptor serves all"""
        self._process = OwnProcess("a read")
        self._guard = threading.RLock()  # closing a file may run inside of opening one
        self._too_late: set[str] = set()
        """files that were deleted before they could be opened"""
        self._allowed = _ALLOWANCE.take(len(self._waiting))
        self._finalizer = weakref.finalize(self, _give_back, self._held, self._allowed)
        self._hold_more()
        self._too_late.clear()  # these were gone before the read began

    def _hold_more(self) -> None:
        while self._waiting and len(self._held) < self._allowed:
            path = self._waiting[-1]
            try:
                self._held[path] = open_regular(path)[0]
            except StorageError as error:
                if error.errno in _NO_DESCRIPTOR:
                    return
                self._too_late.add(path)  # `open` raises the error
            self._waiting.pop()

    def _alone(self) -> AbstractContextManager[object]:
        """Return a context manager that excludes other threads; in a forked child it does nothing."""
        return self._guard if self._process.is_here else nullcontext()

    def open(self, path: str) -> FileSource:
        """Open one of the files for reading: through its descriptor if it is kept open, otherwise by its path. Several
        readers may have the file open at once.

        If the process has no free descriptor, the kept file that will be read last is closed, and opening is tried
        again. Raises `MissingFileError` if the file was deleted before it could be opened, `StorageError` if it cannot
        be opened.
        """
        while True:
            try:
                with self._alone():
                    held = self._held.get(path)
                    if held is not None:
                        descriptor, readers = self._in_use[path] if held == _IN_USE else (held, 0)
                        source = FileSource(path, held=descriptor, on_close=partial(self._used, path))
                        self._in_use[path], self._held[path] = (descriptor, readers + 1), _IN_USE
                        return source
                return FileSource(path)
            except MissingFileError as error:
                if path not in self._waiting and path not in self._too_late:
                    raise
                raise MissingFileError(error.errno, _GONE, path) from None
            except StorageError as error:
                if error.errno not in _NO_DESCRIPTOR or not self._release_last(path):
                    raise

    def _used(self, path: str, descriptor: int) -> None:
        with self._alone():
            readers = self._in_use.pop(path)[1] - 1
            if readers:
                self._in_use[path] = descriptor, readers
            elif path in self._held:
                self._held[path] = descriptor
            else:  # dropped meanwhile, or this object was finalized before its reader
                os.close(descriptor)

    def _release_last(self, wanted: str) -> bool:
        """Close the last of the kept files in the order of reading, so that a descriptor is free for the file `wanted`;
        it will be opened again later. Return True if one was closed; False if no file is kept open, or if the last one
        is `wanted` itself or is being read.
        """
        with self._alone():
            path = next(reversed(self._held), wanted)
            if path == wanted or self._held[path] == _IN_USE:
                return False
            os.close(self._held.pop(path))
            self._waiting.append(path)
            return True

    def passed(self, path: str) -> None:
        """Record that a file will not be read again, and open later files in its place. The file is closed now, or by
        its last reader if it is being read.
        """
        with self._alone():
            self._drop(path)
            if self._waiting and self._waiting[-1] == path:
                self._waiting.pop()
            self._hold_more()

    def _drop(self, path: str) -> None:
        descriptor = self._held.pop(path, _IN_USE)
        if descriptor != _IN_USE:  # otherwise its last reader closes it
            os.close(descriptor)

    def close(self) -> None:
        """Close all files that are not being read. To be called at the end of the read."""
        with self._alone():
            self._waiting.clear()
            self._finalizer()


def _give_back(held: dict[str, int], allowed: int) -> None:
    while held:
        _, descriptor = held.popitem()
        if descriptor != _IN_USE:
            os.close(descriptor)
    _ALLOWANCE.give_back(allowed)
