"""Hold or test the lock that a broker holds on its log directory (`org.apache.kafka.server.util.FileLock`).

It is a POSIX record lock on `.lock`, which `flock` would not see. Such a lock is lost when any descriptor of the file
is closed in this process, so the file is opened once.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Self

from kafkalog.codec.common.errors import RecoveryRefused, StorageError
from kafkalog.codec.names import LOCK_FILE
from kafkalog.log.disk.holders import TAKING, held_by_us, is_under_its_name, note_given_back, note_taken
from kafkalog.log.disk.lock import is_held_here, refuse_odd_lock
from kafkalog.log.disk.process import OwnProcess
from kafkalog.recovery.act.fs import FileSystem

__all__ = ["BrokerLock", "refuse_if_locked"]

_NOTE = re.compile(rb"kafkalog (-?[0-9]{1,19}) (-?[0-9]{1,19})\n")
"""content of our lock file: the directory's modification time (ns) before and after it was created"""
_TRIES = 100


def refuse_if_locked(root: str) -> None:
    """Raise `RecoveryRefused` if a process, also this one, holds the broker's lock (file `.lock`) on the log directory
    `root`. The lock is only tried, and no file is created; a missing file is not locked. Any error of the trial counts
    as locked. Raises `StorageError` if `.lock` is not a regular file or cannot be opened.
    """
    _refuse_if_held_here(root)
    refuse_odd_lock(root)
    try:
        descriptor = os.open(os.path.join(root, LOCK_FILE), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageError.wrap(error, "cannot examine the broker's lock") from error
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        raise RecoveryRefused(f"{root} is locked: a broker is using it; stop that first", reason="locked") from error
    finally:
        os.close(descriptor)


def _refuse_if_held_here(root: str) -> None:
    if is_held_here(root):
        raise RecoveryRefused(f"{root} is being written by this process; close its logs first", reason="locked")
    if held_by_us(root):
        raise RecoveryRefused(f"{root} is being recovered by this process already; wait for that", reason="locked")


class BrokerLock:
    """Context manager that holds the lock of one log directory. Raises `RecoveryRefused` if a process, also this one,
    holds it, or if the directory belongs to another user and this one is not root. Raises `StorageError` if the file
    `.lock` cannot be opened or locked, or is not a regular file. Sets `mtime_before` of `fs`.

    The file is removed at the end if it did not exist before, as in the broker; the directory then gets back its
    modification time. A file that is created here says so in its content, with the directory's earlier time. So the
    next lock recognizes a file that a killed process left behind, and removes it. It is left if that lock ends with a
    refusal, which changes nothing.
    """

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self._descriptor = -1
        self._before: int | None = None
        """the directory's modification time (ns) before the file was created; None if a broker created it"""
        self._created = False
        """whether the file was created here, not left by a killed process"""
        self._locked = 0
        self._process = OwnProcess(f"the lock of {fs.root}")

    def __enter__(self) -> Self:
        _refuse_if_held_here(self._fs.root)
        if os.geteuid() not in (0, self._fs.owner.st_uid):
            raise RecoveryRefused(
                f"{self._fs.root} belongs to another user: recover as the user that the broker runs as, or as root",
                reason="permission",
            )
        refuse_odd_lock(self._fs.root)
        for _ in range(_TRIES):
            before = self._fs.mtime("")
            try:
                self._descriptor, created = self._fs.open_or_create(LOCK_FILE, partial(self._note, before))
            except StorageError:
                with suppress(StorageError):  # a file system that is read-only keeps the time by itself
                    self._fs.set_mtime("", before)
                raise
            if self._lock():
                self._locked = self._fs.mtime("")
                self._created = created
                self._before = before if created else self._left_behind()
                self._fs.mtime_before = self._locked if self._before is None else self._before
                return self
            os.close(self._descriptor)  # whoever held it removed it meanwhile: a lock on it would keep nobody out
        raise RecoveryRefused(
            f"{self._fs.root} is being locked and unlocked repeatedly; stop the process that does this", reason="locked"
        )

    def _lock(self) -> bool:
        """Lock the open lock file exclusively, without waiting; return True. Return False if the file was removed or
        replaced since it was opened; the descriptor stays open then. On an error the descriptor is closed: raises
        `RecoveryRefused` if another process holds the lock, else `StorageError`.
        """
        try:
            with TAKING:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if is_under_its_name(self._descriptor, os.path.join(self._fs.root, LOCK_FILE)):
                    note_taken(self._descriptor)
                    return True
                return False
        except OSError as error:
            os.close(self._descriptor)
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise RecoveryRefused(
                    f"{self._fs.root} is locked: a broker or another recovery is using it; stop that first",
                    reason="locked",
                ) from None
            raise StorageError.wrap(error, "cannot take the broker's lock") from error

    def _note(self, before: int) -> bytes:
        return f"kafkalog {before} {self._fs.mtime('')}\n".encode()

    def _left_behind(self) -> int | None:
        """Return the modification time (ns) to restore for the directory if a killed kafkalog process left the lock
        file: the time before that process created the file, or the present time if the directory has changed since.
        None for a broker's file.
        """
        match = _NOTE.fullmatch(os.pread(self._descriptor, 64, 0))
        if match is None:
            return None
        return int(match.group(1)) if int(match.group(2)) == self._locked else self._locked

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._process.is_here:  # a forked child: the lock is its parent's
            return
        try:
            is_refusal = kind is not None and issubclass(kind, RecoveryRefused)
            is_removed = self._created or not is_refusal
            if self._before is not None and is_removed:  # leave no trace, not even in the directory's time
                now = self._fs.mtime("")
                self._fs.remove_unseen(LOCK_FILE, self._before if now == self._locked else now)
        finally:
            note_given_back(self._descriptor)
            os.close(self._descriptor)
