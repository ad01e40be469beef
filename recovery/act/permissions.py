"""Check, before anything is changed, whether this user has the permissions to carry out a plan and to undo it."""

from __future__ import annotations

import fcntl
import os
import stat
import sys

from kafkalog.codec.common.errors import RecoveryRefused
from kafkalog.recovery.decide.actions import ActionKind, Changes

__all__ = ["refuse_without_permission"]

_GET_FLAGS = 0x80086601
"""FS_IOC_GETFLAGS of <linux/fs.h>"""
_APPEND_ONLY, _IMMUTABLE_FLAG = 0x20, 0x10
_OF_DIRECTORIES = (ActionKind.REMOVE_DIRECTORY, ActionKind.RENAME_DIRECTORY)
_IMMUTABLE = "it is immutable (`lsattr` shows that), its file system is read-only, or root may not do everything here"


def refuse_without_permission(made: Changes) -> None:
    """Raise `RecoveryRefused` if an action of the plan, or undoing it, would fail because of permissions, ownership, or
    an append-only or immutable attribute. Root is checked too: it fails on a read-only file system or in a container.
    Changes nothing; files that no longer exist are skipped.
    """
    asked: set[str] = set()
    for action in made.actions:
        if action.kind is ActionKind.TRUNCATE:
            _refuse_unless(made, action.path, os.W_OK | os.R_OK, "changed")
        if action.kind is ActionKind.REMOVE_DIRECTORY:  # it gets another parent, which is written in it
            _refuse_unless(made, action.path, os.R_OK | os.W_OK | os.X_OK, "moved", needs_owner=False)
        if action.path in made.survey.files or action.kind in _OF_DIRECTORIES:
            _refuse_append_only(os.path.join(made.root, action.path))
        for path in (action.path, action.target):
            directory = None if path is None else path.rpartition("/")[0]
            if directory is not None and directory not in asked:
                asked.add(directory)
                _refuse_unless(made, directory, os.W_OK | os.X_OK, "changed")
                _refuse_append_only(os.path.join(made.root, directory))
        if action.kind in (ActionKind.REMOVE, ActionKind.RENAME, ActionKind.WRITE) and action.path in made.survey.files:
            full = os.path.join(made.root, action.path)
            if not os.access(full, os.R_OK | os.W_OK, effective_ids=True):  # one look where all is well
                _refuse_unless(made, action.path, os.R_OK, "read", needs_owner=False)
                _refuse_immutable(full)


def _refuse_immutable(full: str) -> None:
    """Raise `RecoveryRefused` if this user is root, or owns the file and its mode lets the owner write. Called after
    write access was denied: then the file is immutable, its file system is read-only, or root is restricted, as in a
    container. Does nothing if the file is missing or the mode explains the denial.
    """
    if not os.path.lexists(full):
        return  # it is gone since it was seen, which is found out when it is compared
    user, facts = os.geteuid(), os.lstat(full)
    if user == 0 or (user == facts.st_uid and facts.st_mode & stat.S_IWUSR):
        raise _refused(full, "may not be changed", _IMMUTABLE)


def _refuse_append_only(full: str) -> None:
    """Raise `RecoveryRefused` if a file or directory has the append-only or immutable attribute (`lsattr`), which its
    mode does not show: even root cannot truncate or rename it. Does nothing if it cannot be opened or the file system
    has no such attributes.
    """
    try:
        descriptor = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return  # that it cannot be read is found out elsewhere
    flags = bytearray(8)
    try:
        fcntl.ioctl(descriptor, _GET_FLAGS, flags)
    except OSError:
        return  # a file system without such attributes
    finally:
        os.close(descriptor)
    if int.from_bytes(flags[:4], sys.byteorder) & (_APPEND_ONLY | _IMMUTABLE_FLAG):
        way = "it is append-only or immutable (`lsattr` shows that): take the attribute from it with `chattr -a -i`"
        raise _refused(full, "may not be changed", way)


def _refuse_unless(changes: Changes, path: str, how: int, done: str, *, needs_owner: bool = True) -> None:
    full = os.path.join(changes.root, path) if path else changes.root
    user = os.geteuid()
    if not os.access(full, how, effective_ids=True):
        if not os.path.lexists(full):
            return  # a directory that is made on the way
        why = f"may not be {done}"
    elif needs_owner and user and user != os.lstat(full).st_uid:
        why = "belongs to another user, and only its owner can put back its time"
    else:
        return
    raise _refused(full, why, _IMMUTABLE if user == 0 else "recover as the user that the broker runs as, or as root")


def _refused(full: str, why: str, way: str) -> RecoveryRefused:
    return RecoveryRefused(f"{full} {why} by this user (number {os.geteuid()}): {way}", reason="permission")
