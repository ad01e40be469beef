"""Take the lock that a broker holds on its log directory; all logs that this process writes there share it. It is a
POSIX record lock on `.lock` (`org.apache.kafka.server.util.FileLock`), which `flock` would not see. Such a lock belongs
to the process and is lost when any descriptor of the file is closed, so one table has all locks of this process. A
forked child has no locks: its table is empty, and closing inherited descriptors releases nothing.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import threading
from functools import cached_property

from kafkalog.codec.common.errors import RecoveryRefused, StorageError, UsageError
from kafkalog.codec.names import LOCK_FILE
from kafkalog.log.disk import fs
from kafkalog.log.disk.files import NotRegularFileError, what_it_is
from kafkalog.log.disk.holders import TAKING, held_by_us, is_under_its_name, note_given_back, note_taken
from kafkalog.log.disk.pointer import LogCut, ends_of, logs_cut_by_runs, read_pointer, runs_of_other_versions
from kafkalog.log.disk.process import OwnLock, OwnProcess

__all__ = ["SEVERAL", "HeldDirectory", "hold", "is_held_here", "latest_cut", "refuse_half_done", "refuse_odd_lock"]

_GUARD = threading.RLock()
SEVERAL = "several partitions"
"""Name in place of a partition's for a user that opens one log after another, such as a `Producer`."""
_TRIES = 100
_HELD: dict[tuple[int, int], HeldDirectory] = {}


def _begin_child() -> None:
    global _GUARD
    _GUARD = threading.RLock()  # a thread that does not exist in the child may have held the old one
    _HELD.clear()


os.register_at_fork(after_in_child=_begin_child)


def _identity(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError as error:
        raise StorageError.wrap(error, "cannot examine the directory") from error
    return status.st_dev, status.st_ino


def _modified_ns(path: str) -> int:
    """Return the modification time of a directory in ns since 1970. Raises `StorageError` if it cannot be examined."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError as error:
        raise StorageError.wrap(error, "cannot examine the directory") from error


def refuse_odd_lock(path: str) -> None:
    """Raise `NotRegularFileError` if the file `.lock` in the log directory `path` is a link, a directory or anything
    else that is not a regular file. Does nothing if the file is missing or cannot be examined.
    """
    file = os.path.join(path, LOCK_FILE)
    try:
        mode = os.lstat(file).st_mode
    except OSError:  # reported when the file is opened
        return
    if not stat.S_ISREG(mode):
        detail = f"{what_it_is(mode)}, which locks nothing: remove it, and a broker makes a new file"
        raise NotRegularFileError(errno.EINVAL, detail, file)


def is_held_here(path: str) -> bool:
    """Whether this process has locked the log directory `path` to write in it, according to its own table of locks. To
    try the lock would not show it, because a process can lock a file twice, and would release it.
    """
    with _GUARD:
        return bool(_HELD) and os.path.isdir(path) and _identity(path) in _HELD


def refuse_half_done(path: str) -> None:
    """Raise `RecoveryRefused` if a recovery of the log directory `path`, or the undo of one, has begun and not ended.
    It does not matter which version of kafkalog began it. Raise the error also if a recovery's journal, or the pointer
    file that names recoveries, cannot be read. A quarantine that cannot be listed is skipped.

    A writer must call this after it has locked the directory. Before that, another process could still begin a recovery
    and be killed.
    """
    pointer = read_pointer(path)
    for run_id in () if pointer is None else pointer.at_work:
        raise RecoveryRefused(
            f"run {run_id} has left {path} half done; nothing was changed",
            reason="unfinished",
            advice=ends_of(path, run_id),
        )
    for sentence in runs_of_other_versions(path, pointer):
        raise RecoveryRefused(f"{sentence}; nothing was changed", reason="unfinished")


class HeldDirectory:
    """A log directory that this process has locked by its file `.lock`, which is created if necessary. `partitions` are
    the names of the partitions being written. Creating an instance raises `UsageError` if another process has the lock,
    `RecoveryRefused` if a recovery of the directory has not ended, `StorageError` for I/O errors.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.partitions: set[str] = set()
        self.written: set[str] = set()
        """names of all partitions that were open since the directory was locked"""
        self.was_clean: bool | None = None
        """whether all partitions had been closed in order when the directory was locked; None until examined"""
        self.marker: bytes | None = None
        """content of the clean shutdown marker at that time; None without one"""
        self.failed = False
        """whether a log of this directory could not be closed in order"""
        self.process = OwnProcess(f"the lock of {path}")
        self.guard = OwnLock(self.process)
        file = os.path.join(path, LOCK_FILE)
        refuse_odd_lock(path)
        for _ in range(_TRIES):
            self._before = _modified_ns(path)
            self._descriptor, self._created = fs.lock_file(file)
            if self._lock(file):
                self._locked = _modified_ns(path)
                self._refuse_half_done()
                return
        raise UsageError(f"{path} is being locked and unlocked repeatedly; stop the process that does this")

    def _refuse_half_done(self) -> None:
        try:
            refuse_half_done(self.path)
        except BaseException:
            self._give_up()
            raise

    def _lock(self, file: str) -> bool:
        """Take the POSIX lock on `file`, which is already open as `self._descriptor`, without waiting. Return True, and
        note the lock in this process's table. Return False if the previous holder has removed the file, because a lock
        on a removed file excludes nobody.

        Raises `UsageError` if another process has the lock, `StorageError` for other errors. The descriptor is closed
        unless True is returned.
        """
        try:
            with TAKING:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if is_under_its_name(self._descriptor, file):
                    note_taken(self._descriptor)
                    return True
        except OSError as error:
            os.close(self._descriptor)
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise UsageError(
                    f"{self.path} is locked: a broker or another writer is using it; stop that first"
                ) from None
            raise StorageError.wrap(error, "cannot take the broker's lock") from error
        os.close(self._descriptor)
        return False

    @cached_property
    def _logs_cut(self) -> dict[str, LogCut]:
        return logs_cut_by_runs(self.path)  # no run begins while the directory is locked

    def refused(self, partition: str) -> None:
        """Record that a log was not opened: `written` no longer contains the partition, so its log does not count as
        closed in order.
        """
        self.written.discard(partition)

    def release(self, partition: str) -> None:
        """Remove a partition from `partitions`. After the last one, release the directory's lock and remove the file
        `.lock`, as a broker does in a clean shutdown; the file is kept if it existed before and no log was opened. Does
        nothing in a forked child. Raises `StorageError` if the file cannot be removed or the directory cannot be
        examined.
        """
        if not self.process.is_here:
            return
        with _GUARD:
            self.partitions.discard(partition)
            if not self.partitions:
                _HELD.pop(_identity(self.path), None)
                self._give_up()

    def _give_up(self) -> None:
        """Remove the file `.lock`, as a broker does in a clean shutdown, and release the lock. If the file existed
        before and no log was opened, it is not removed.

        If this process created the file, and the directory's modification time has not changed since, that time is set
        back to its former value. Raises `StorageError` for I/O errors; the lock is released all the same.
        """
        try:
            is_untouched = _modified_ns(self.path) == self._locked
            if self._created or self.written - {SEVERAL}:
                fs.remove(os.path.join(self.path, LOCK_FILE))
            if is_untouched and self._created:  # nothing was changed, so the old modification time is restored
                fs.set_modified(self.path, self._before)
        finally:
            note_given_back(self._descriptor)
            os.close(self._descriptor)


def latest_cut(held: HeldDirectory, partition: str) -> LogCut | None:
    """Return how the latest execution of a job truncated the log of a partition directory; None if none did. The
    executions of the directory are read once.
    """
    return held._logs_cut.get(partition)  # noqa: SLF001 - part of this module


def hold(path: str, partition: str) -> HeldDirectory:
    """Lock the log directory `path` to write the partition named `partition`. Return the lock, which all writers of the
    directory in this process share; the partition is added to its `partitions`. Call its `release` at the end.

    Raises `UsageError` if another process has the lock, or if this process already writes the partition or is
    recovering the directory. Raises `RecoveryRefused` if a recovery has not ended, or if that is unknown because its
    files cannot be read. Raises `StorageError` if the directory or the file `.lock` is unusable.
    """
    with _GUARD:
        key = _identity(path)
        held = _HELD.get(key)
        if held is None and held_by_us(path):
            raise UsageError(f"{path} is being recovered by this process; wait for that to end")
        if held is None:
            held = _HELD[key] = HeldDirectory(path)
        elif partition in held.partitions:
            if partition == SEVERAL:
                raise UsageError(f"{path} is open for writing in this process already, several partitions of it")
            raise UsageError(f"{os.path.join(path, partition)} is open for writing in this process already")
        held.partitions.add(partition)
        held.written.add(partition)
        return held
