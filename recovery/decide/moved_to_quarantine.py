"""List the directories, and the files that belong to no partition, that a plan moves out of the log directory as a
whole.
"""

from __future__ import annotations

import os

from msgspec import Struct

from kafkalog.codec.names import CLEAN_SHUTDOWN_FILE
from kafkalog.recovery.decide.actions import ActionKind, Changes

__all__ = ["PutAway", "put_away"]


class PutAway(Struct, frozen=True, kw_only=True):
    """A directory or file that is moved to the quarantine as a whole."""

    path: str
    """relative to the log directory"""
    files: int | None
    """number of files in it, at any depth; None for a file"""
    size: int
    """size of all files in bytes"""
    is_whole: bool
    """False: some of it cannot be listed, and is not counted"""


def put_away(plan: Changes) -> list[PutAway]:
    """Return the directories and files that the plan moves to quarantine as a whole, in the order of its actions. Files
    in directories and the clean-shutdown marker are left out. Directories are listed again for the number and size of
    their files, because a survey has only their first level; what cannot be listed is not counted (`is_whole`).
    """
    moved = []
    for action in plan.actions:
        if action.kind is ActionKind.REMOVE_DIRECTORY:
            moved.append(_directory(plan.root, action.path))
        elif action.kind is ActionKind.REMOVE and "/" not in action.path and action.path != CLEAN_SHUTDOWN_FILE:
            moved.append(PutAway(path=action.path, files=None, size=plan.survey.files[action.path].size, is_whole=True))
    return moved


def _directory(root: str, name: str) -> PutAway:
    files = size = 0
    failed: list[OSError] = []
    for above, _directories, names in os.walk(os.path.join(root, name), onerror=failed.append):
        for file_name in names:
            try:
                size += os.lstat(os.path.join(above, file_name)).st_size
                files += 1
            except OSError as error:
                failed.append(error)
    return PutAway(path=name, files=files, size=size, is_whole=not failed)
