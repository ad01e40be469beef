"""Check whether the file systems have space for the files that an execution copies."""

from __future__ import annotations

import os
from collections.abc import Iterable

from kafkalog.codec.common.advice import Advice, Ask
from kafkalog.codec.common.errors import RecoveryRefused, StorageError
from kafkalog.log.storage.content import Zeros
from kafkalog.recovery.decide.actions import ActionKind, Changes, RecoveryAction

__all__ = ["refuse_if_full", "refuse_without_room", "written_bytes"]

_NEW = "new files"
_STEP_BYTES = 1000
"""Approximate upper bound of a journal's bytes for a step or a directory; a journal exists twice while it
is replaced.
"""
_OWN_DIRECTORIES = 4
"""Directories of an execution other than those that mirror the log directory's, and its pointer file."""


def refuse_without_room(made: Changes, place: str, *, same_mount: bool) -> None:
    """Raise `RecoveryRefused` if the file systems have no space for what an execution keeps and writes. Removed bytes,
    new files and the journal go into the quarantine at `place`. Unless `same_mount`, the quarantine is on another file
    system: whole files are copied there, and new files need space in the log directory too. Raises `StorageError` if a
    file system cannot be examined.
    """
    kept, new = [], written_bytes(made)
    for action in made.actions:
        kept += _saved(made, action, same_mount=same_mount)
    directories = {os.path.dirname(action.path) for action in made.actions}
    journal = _STEP_BYTES * (len(made.actions) + len(directories))
    own = [journal, journal, *[1] * (len(directories) + _OWN_DIRECTORIES)]
    refuse_if_full(place, [*kept, *new, *own], "what is removed or replaced, and for new files")
    if not same_mount:
        refuse_if_full(made.root, new, _NEW)


def written_bytes(changes: Changes) -> list[int]:
    """Return the sizes in bytes of the files that a plan writes, without their holes."""
    contents = [action.content for action in changes.actions if action.content is not None]
    return [sum(part.length for part in content.parts if not isinstance(part, Zeros)) for content in contents]


def _saved(changes: Changes, action: RecoveryAction, *, same_mount: bool) -> list[int]:
    """Return the sizes in bytes of the files that an action copies into the quarantine; a file with holes counts with
    its allocated bytes. The removed tail of a truncated file is always copied. Unless `same_mount`, removed and
    replaced files and all files of a removed directory are copied too. Empty for other actions and missing files.
    """
    before = changes.survey.files.get(action.path)
    match action.kind:
        case ActionKind.TRUNCATE if before is not None:
            return [min(before.size - (action.size or 0), before.allocated)]
        case ActionKind.REMOVE | ActionKind.WRITE if not same_mount and before is not None:
            return [min(before.size, before.allocated)]
        case ActionKind.REMOVE_DIRECTORY if not same_mount:
            inside = action.path + "/"
            return [min(facts.size, facts.allocated) for path, facts in changes.survey.files.items()
                    if path.startswith(inside)]  # fmt: skip
        case _:
            return []


def refuse_if_full(path: str, sizes: Iterable[int], what: str) -> None:
    """Raise `RecoveryRefused` if the file system of `path`, which need not exist, has no space for files of these
    `sizes` in bytes. Sizes are rounded up to whole blocks. Only the space that this user may take counts. `what` says
    in the message what the space is for; only with `_NEW` another place for the quarantine is not advised. Raises
    `StorageError` if the file system cannot be examined.
    """
    existing = os.path.abspath(path)
    while not os.path.isdir(existing):
        existing = os.path.dirname(existing)
    try:
        facts = os.statvfs(existing)
    except OSError as error:
        raise StorageError.wrap(error, "cannot examine the file system") from error
    room = facts.f_bavail * facts.f_frsize
    needed = sum(-(-size // facts.f_frsize) * facts.f_frsize for size in sizes)
    if needed > room:
        elsewhere = Advice("or name a place on another file system with {}", Ask.QUARANTINE)
        raise RecoveryRefused(
            f"the file system {_mount_of(existing)} of {path} has {room} bytes free, and {needed} are needed for "
            f"{what}: free some space there",
            reason="space",
            advice=[] if what == _NEW else [elsewhere],
        )


def _mount_of(directory: str) -> str:
    """Return the mount point of the file system that contains a directory."""
    directory = os.path.realpath(directory)
    while not os.path.ismount(directory):
        directory = os.path.dirname(directory)
    return directory
