"""Detect a commit of Spark's writer to many partitions that has not ended, to warn operators. The writer keeps its
journal in `<log directory>.writing`; only `kafkalog.spark.journal` reads its content.
"""

from __future__ import annotations

import os

__all__ = ["COMMIT_JOURNAL", "log_directory_of", "unfinished_commit", "work_directory"]

COMMIT_JOURNAL = "commit.json"
_SUFFIX = ".writing"


def work_directory(log_directory: str) -> str:
    """Return the path of the directory with the files of a commit that are not yet in the log directory."""
    return log_directory.rstrip("/") + _SUFFIX


def log_directory_of(work: str) -> str:
    """Return the log directory whose `work_directory` this is."""
    return work.removesuffix(_SUFFIX)


def unfinished_commit(log_directory: str) -> str | None:
    """Return a sentence for the user if a commit of Spark's writer into this log directory has begun and not ended. It
    was interrupted or is still running. Return None if there is no such commit. Only the existence of its journal is
    checked.
    """
    journal = os.path.join(work_directory(log_directory), COMMIT_JOURNAL)
    if not os.path.lexists(journal):
        return None
    return (
        f"a commit from Spark has not ended ({journal}): some of its rows may be there and others not; unless it is at "
        "work, the next commit takes it back or ends it, so do not start a broker before that"
    )
