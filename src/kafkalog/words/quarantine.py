"""The sentence that names the quarantine, the folder with every byte that a recovery removed."""

from __future__ import annotations

import os

from kafkalog.recovery.act.operations import FILES, tail_of
from kafkalog.words.escapes import escape_controls

__all__ = ["place_in_quarantine", "quarantine_sentence"]


def quarantine_sentence(root: str, quarantine: str | None) -> str:
    """Return a sentence that names the quarantine, the folder in which a recovery keeps removed bytes. The sentence
    also warns if the quarantine is on another file system than the log directory `root`. There is no warning if one of
    the two cannot be examined. If `quarantine` is None, the name is empty.
    """
    text = f"every byte that was removed is in {escape_controls(quarantine or '')}"
    if quarantine is None or not _is_elsewhere(root, quarantine):
        return text
    return (
        f"{text}, on another file system than the log directory: in a container it is lost with the container; copy "
        "it to a disk that stays, or choose one there with --quarantine"
    )


def place_in_quarantine(root: str, kept_in: str, path: str, position: int) -> tuple[str, int]:
    """Return the file and position at which a byte is after an execution. Before, it was at `position` of the file
    `path` in the log directory `root`. `kept_in` is where the execution keeps its files: the whole old file, or its cut
    tail, in which positions count from the cut. If neither has the byte, return `path` and `position`.
    """
    whole = os.path.join(kept_in, FILES, os.path.relpath(path, root))
    if os.path.exists(whole):
        return whole, position
    folder, name = os.path.split(tail_of(os.path.relpath(path, root), 0).removesuffix("0"))
    try:
        names = os.listdir(os.path.join(kept_in, folder))
    except OSError:
        names = []
    for tail in names:
        kept = tail.removeprefix(name)
        if tail.startswith(name) and kept.isdecimal() and int(kept) <= position:
            return os.path.join(kept_in, folder, tail), position - int(kept)
    return path, position


def _is_elsewhere(root: str, quarantine: str) -> bool:
    """Whether the two are on different file systems; False if one of them cannot be examined."""
    try:
        return os.stat(root).st_dev != os.stat(quarantine).st_dev
    except OSError:
        return False
