"""What was learned from a file, for as long as the file stays as it was."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, TypeVar

from kafkalog.log.disk.files import status_of

__all__ = ["SETTLED_NS", "Unchanged", "settled_state"]

K = TypeVar("K")
T = TypeVar("T")

SETTLED_NS = 1_000_000_000
"""A file that was changed so long before a look did not change again with the same time of change."""
State = tuple[int, int, int, int]


def settled_state(path: str) -> State | None:
    """What tells a file from what it becomes when it is changed; None while it may change without being told."""
    status = status_of(path)
    if status is None or status.st_mtime_ns >= time.time_ns() - SETTLED_NS:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class Unchanged(Generic[K, T]):
    """Remembers the latest answer, and gives it again as long as it is asked the same of a file that did not change."""

    def __init__(self) -> None:
        self._asked: tuple[str, K, State] | None = None
        self._answer: list[T] = []

    def of(self, path: str, key: K, find: Callable[[], T]) -> T:
        """What `find` gave, or gives now."""
        before = settled_state(path)
        asked = None if before is None else (path, key, before)
        if asked is not None and asked == self._asked:
            return self._answer[0]
        found = find()
        if asked is not None and settled_state(path) == before:
            self._asked, self._answer = asked, [found]
        return found
