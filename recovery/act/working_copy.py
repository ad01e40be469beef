"""Working on a copy of a log directory: made first, and gone again if nothing came of the work."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TypeVar

from kafkalog.codec.advice import Ask, Sentence
from kafkalog.codec.errors import RecoveryRefused, StorageError, UsageError
from kafkalog.log.directories.directory import new_directory
from kafkalog.log.disk.lock import refuse_half_done
from kafkalog.recovery.act.fs import FileSystem
from kafkalog.recovery.act.lock import refuse_if_locked
from kafkalog.recovery.facts.places import PathLike, root_of

__all__ = ["copy_for"]

Result = TypeVar("Result")


def copy_for(path: PathLike, target: PathLike, work: Callable[[str, Mapping[str, StorageError]], Result]) -> Result:
    """Copy a log directory to `target`, which must be new or empty, and work there.

    `work` is given the copy's path, and the directories that are not in it, because they could not be read, with why.
    """
    root, only = root_of(path)
    if only is not None:
        raise UsageError(
            Sentence(f"{os.fspath(path)} is one partition directory; ", Ask.INTO, " copies a whole log directory")
        )
    destination = new_directory(target, beside=root)
    refuse_if_locked(root)
    refuse_half_done(root)
    FileSystem.refuse_special(root)
    missing = FileSystem.missing(destination)
    copy = FileSystem.create(destination)
    try:
        return work(destination, copy.copy_tree(root))
    except (RecoveryRefused, StorageError, KeyboardInterrupt):  # nothing came of it: no half of a copy is left
        copy.remove_content()
        copy.remove_if_empty(missing)
        raise
    finally:
        copy.close()
