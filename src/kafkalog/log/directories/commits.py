"""A commit of many partitions at once that did not end, seen from beside it: what an operator is told of.

Spark's writer keeps its journal in `<log directory>.writing` (`kafkalog.spark.journal`); only there is it read.
"""

from __future__ import annotations

import os

__all__ = ["COMMIT_JOURNAL", "log_directory_of", "unfinished_commit", "work_directory"]

COMMIT_JOURNAL = "commit.json"
_SUFFIX = ".writing"


def work_directory(log_directory: str) -> str:
    """Where everything of a commit stands that is not in the log directory."""
    return log_directory.rstrip("/") + _SUFFIX


def log_directory_of(work: str) -> str:
    """The log directory whose `work_directory` this is."""
    return work.removesuffix(_SUFFIX)


def unfinished_commit(log_directory: str) -> str | None:
    """One sentence, where a commit into a log directory was cut short or is at work."""
    journal = os.path.join(work_directory(log_directory), COMMIT_JOURNAL)
    if not os.path.lexists(journal):
        return None
    return (
        f"a commit from Spark has not ended ({journal}): some of its rows may be there and others not; unless it is at "
        "work, the next commit takes it back or ends it, so do not start a broker before that"
    )
