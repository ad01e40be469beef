"""The lock that a broker holds on its log directory (`org.apache.kafka.server.util.FileLock`).

A POSIX record lock on `.lock`: `flock` would not see it.  Such a lock is lost when any descriptor of the file is closed
in this process, so the file is opened once.
"""

from __future__ import annotations

import errno
import fcntl
import os
from types import TracebackType
from typing import Self

from kafkalog.codec.errors import RecoveryRefused, StorageError
from kafkalog.codec.names import LOCK_FILE
from kafkalog.log.lock import is_held_here
from kafkalog.recovery.fs import FileSystem

__all__ = ["BrokerLock", "refuse_if_locked"]


def refuse_if_locked(root: str) -> None:
    """Raise `RecoveryRefused` if somebody holds the lock; takes and creates nothing."""
    _refuse_if_held_here(root)
    try:
        descriptor = os.open(os.path.join(root, LOCK_FILE), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageError.wrap(error, "cannot look at the broker's lock") from error
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        raise RecoveryRefused(f"{root} is locked: a broker is using it; stop that first", reason="locked") from error
    finally:
        os.close(descriptor)


def _refuse_if_held_here(root: str) -> None:
    if is_held_here(root):
        raise RecoveryRefused(f"{root} is being written by this process; close its logs first", reason="locked")


class BrokerLock:
    """A context manager that holds the lock of one log directory; raises `RecoveryRefused` if somebody else does.

    The file is removed again if it was not there before, as the broker does.
    """

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self._descriptor = -1
        self._created = False
        self._mtimes = (0, 0)

    def __enter__(self) -> Self:
        _refuse_if_held_here(self._fs.root)
        before = self._fs.mtime("")
        self._descriptor, self._created = self._fs.open_or_create(LOCK_FILE)
        self._mtimes = (before, self._fs.mtime(""))
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise RecoveryRefused(
                    f"{self._fs.root} is locked: a broker or another recovery is using it; stop that first",
                    reason="locked",
                ) from None
            raise StorageError.wrap(error, "cannot take the broker's lock") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._created:  # leave no trace, not even in the directory's time
            before, locked = self._mtimes
            now = self._fs.mtime("")
            self._fs.remove(LOCK_FILE)
            self._fs.set_mtime("", before if now == locked else now)
        os.close(self._descriptor)
