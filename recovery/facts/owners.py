"""Find files that the broker's user may not open, as root leaves them after copying or restoring.

A broker opens every log and index for reading and writing, and renames files beside them (`LogSegment.open`,
`LogDirFailureChannel`). A file that belongs to another user takes its whole log directory offline. The broker's user is
derived from the owners of its directories: it is not root if some of them belong to another user.

Files that a broker only replaces or deletes (checkpoints, producer snapshots, `.deleted` files) need not be writable;
their directory must be.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from kafkalog.codec.common.errors import LimitExceeded, UsageError
from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.names import (
    CLEAN_SHUTDOWN_FILE,
    CLUSTER_METADATA_TOPIC,
    DELETED,
    LOCK_FILE,
    META_PROPERTIES,
    FileKind,
    parse_partition_directory,
    parse_segment_file,
)
from kafkalog.log.directories.directory import OFFSET_CHECKPOINTS
from kafkalog.log.disk.files import read_small, scan_directory

__all__ = ["ClosedFiles", "User", "closed_files"]

_OWN_FILES = frozenset({META_PROPERTIES, LOCK_FILE, *OFFSET_CHECKPOINTS})
_ROOT = 0
User = tuple[int, int]
"""user id and group id"""


class ClosedFiles(Struct, frozen=True, kw_only=True):
    """Paths in a log directory that the broker's user may not open or change."""

    user: User
    paths: list[str]
    """at least one"""
    is_root: bool
    """whether the log directory itself or its lock is among `paths`, so that no log is loaded"""
    emptied: str | None
    """one of `paths`: a partition directory whose log a start of Kafka 4.1 or later can empty; None if there is none"""
    is_late: bool
    """whether `paths` are only indexes that a start does not open, but the first read of their segment does"""

    @property
    def warning(self) -> str:
        """Phrase about the log that a start can empty, to follow a request to change the owner; empty if there is
        none.
        """
        if self.emptied is None:
            return ""
        return (
            " before any start: the recovery of Kafka 4.1 and later can empty the log of a partition beside which it "
            f"may not write, as in {self.emptied}"
        )


def closed_files(root: str, roots: Iterable[str]) -> ClosedFiles | None:
    """Return the broker's user and the paths in its log directory `root` that this user may not open or change. The
    user is the owner of most of the broker's log directories (`root` and `roots`), partition directories and
    `meta.properties`; root is not counted.

    None if the user may use all files, or if everything belongs to root, because the user is then unknown. None also if
    a directory cannot be listed or an entry cannot be examined.
    """
    try:
        user = _user({root, *roots})
        if user is None:
            return None
        entries = dict(_entries(root))
    except (OSError, UsageError):  # said by those who read what is in it
        return None
    closed = {path: status for path, status in entries.items() if _is_closed(path, status, user)}
    if not closed:
        return None
    is_root = root in closed or os.path.join(root, LOCK_FILE) in closed
    is_clean = os.path.exists(os.path.join(root, CLEAN_SHUTDOWN_FILE))
    newest = _newest(entries)
    return ClosedFiles(
        user=user,
        paths=[*closed],
        is_root=is_root,
        emptied=_emptied(closed, user, is_clean),
        is_late=is_clean and all(_is_opened_late(path, newest) for path in closed),
    )


def _newest(paths: Iterable[str]) -> dict[str, int]:
    """Return the base offset of the newest live `.log` file among `paths` in each directory that has one."""
    newest: dict[str, int] = {}
    for path in paths:
        parsed = parse_segment_file(os.path.basename(path))
        if parsed is not None and parsed.is_live_log:
            directory = os.path.dirname(path)
            newest[directory] = max(newest.get(directory, 0), parsed.base_offset)
    return newest


def _is_opened_late(path: str, newest: Mapping[str, int]) -> bool:
    """Whether a start after a clean shutdown does not open this file (`LazyIndex`): an offset or time index of a
    segment that is older than the newest one. False in the metadata log, which is always recovered. `newest` has the
    base offset of the newest segment by partition directory.
    """
    directory, name = os.path.split(path)
    parsed = parse_segment_file(name)
    partition = parse_partition_directory(os.path.basename(directory))
    return (
        parsed is not None
        and parsed.kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)
        and parsed.base_offset < newest.get(directory, 0)
        and partition is not None
        and partition.topic != CLUSTER_METADATA_TOPIC
    )


def _emptied(closed: Mapping[str, os.stat_result], user: User, is_clean: bool) -> str | None:
    """Return the first partition directory in `closed` whose log a start's recovery can empty: it opens all files of
    the log, cannot write a producer snapshot beside them, and truncates the segment (`LogLoader.recoverLog`). None if
    there is none. Logs are recovered after a stop that was not clean, the metadata log at every start.
    """
    unopened = {os.path.dirname(path) for path in closed}
    for path, status in closed.items():
        name = parse_partition_directory(os.path.basename(path))
        is_recovered = name is not None and (not is_clean or name.topic == CLUSTER_METADATA_TOPIC)
        if is_recovered and path not in unopened and _grants(status, user, stat.S_IROTH | stat.S_IXOTH):
            return path
    return None


def _user(roots: Iterable[str]) -> User | None:
    """Return the user and group id that own most of the log directories, their partition directories and
    `meta.properties`; root is not counted. If several own equally many, the highest ids are returned; None if all
    belong to root. Raises `OSError` or `StorageError` if a directory cannot be listed or an entry cannot be examined.
    """
    owners: Counter[User] = Counter()
    for root in roots:
        status = os.lstat(root)
        owners[status.st_uid, status.st_gid] += 1
        for entry in scan_directory(root):
            if entry.name == META_PROPERTIES or parse_partition_directory(entry.name) is not None:
                status = entry.stat(follow_symlinks=False)
                owners[status.st_uid, status.st_gid] += 1
    others = [owner for owner in owners if owner[0] != _ROOT]
    return max(others, key=lambda owner: (owners[owner], owner), default=None)


def _entries(root: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield (path, lstat) of everything that a broker opens: the log directory, its own files (`_OWN_FILES`), and
    partition directories with their direct content. A lock file that kafkalog itself created is left out. Raises
    `OSError` or `StorageError` while iterating if a directory cannot be listed or an entry cannot be examined.
    """
    yield root, os.lstat(root)
    for entry in scan_directory(root):
        is_partition = parse_partition_directory(entry.name) is not None
        if is_partition or (entry.name in _OWN_FILES and not _is_lock_of_ours(entry.path)):
            yield entry.path, entry.stat(follow_symlinks=False)
        if is_partition and entry.is_dir(follow_symlinks=False):
            for inside in scan_directory(entry.path):
                yield inside.path, inside.stat(follow_symlinks=False)


def _is_lock_of_ours(path: str) -> bool:
    """Whether a file is the lock file that kafkalog creates and later removes (`recovery.act.lock`). Raises
    `StorageError` if it cannot be read.
    """
    if os.path.basename(path) != LOCK_FILE or not os.path.isfile(path):
        return False
    try:
        return read_small(path, DEFAULT_LIMITS.checkpoint_bytes).startswith(b"kafkalog ")
    except LimitExceeded:  # which holds one line
        return False


def _is_closed(path: str, status: os.stat_result, user: User) -> bool:
    """Whether the mode bits of a file or directory do not let `user` (user id, group id) use it as a broker does. A
    broker reads, writes and searches a directory. It reads a file, and also writes it if it is the lock, or a segment
    file but no producer snapshot. False for a symbolic link and a `.deleted` file.
    """
    if stat.S_ISLNK(status.st_mode):
        return False
    if stat.S_ISDIR(status.st_mode):
        return not _grants(status, user, stat.S_IROTH | stat.S_IWOTH | stat.S_IXOTH)
    name = os.path.basename(path)
    parsed = parse_segment_file(name)
    if parsed is not None and parsed.pending == DELETED:
        return False
    is_written = name == LOCK_FILE or (parsed is not None and parsed.kind is not FileKind.PRODUCER_SNAPSHOT)
    return not _grants(status, user, stat.S_IROTH | (stat.S_IWOTH if is_written else 0))


def _grants(status: os.stat_result, user: User, needed: int) -> bool:
    """Whether the mode bits grant `user` all of `needed`, which are bits of `S_IRWXO`."""
    shift = 6 if status.st_uid == user[0] else 3 if status.st_gid == user[1] else 0
    return status.st_mode >> shift & needed == needed
