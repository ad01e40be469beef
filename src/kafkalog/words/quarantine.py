"""The sentence that names the quarantine, the folder with every byte that a recovery removed."""

from __future__ import annotations

import os

from kafkalog.words.escapes import escape_controls

__all__ = ["quarantine_sentence"]


def quarantine_sentence(root: str, quarantine: str | None) -> str:
    """Return a sentence that names the quarantine, the folder in which a recovery keeps removed bytes. The sentence
    also warns if the quarantine is on another file system than the log directory `root`. If `quarantine` is None, the
    name is empty.
    """
    text = f"every byte that was removed is in {escape_controls(quarantine or '')}"
    if quarantine is None or not _is_elsewhere(root, quarantine):
        return text
    return (
        f"{text}, on another file system than the log directory: in a container it is lost with the container; copy "
        "it to a disk that stays, or choose one there with --quarantine"
    )


def _is_elsewhere(root: str, quarantine: str) -> bool:
    """Whether the two are on different file systems; False if one of them cannot be examined."""
    try:
        return os.stat(root).st_dev != os.stat(quarantine).st_dev
    except OSError:
        return False
