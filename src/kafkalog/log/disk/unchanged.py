"""Cache a result about a file for as long as the file is unchanged."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, TypeVar

from kafkalog.log.disk.files import status_of

__all__ = ["SETTLED_NS", "State", "Unchanged", "settled_state"]

K = TypeVar("K")
T = TypeVar("T")

SETTLED_NS = 1_000_000_000
"""Least age of a modification time in ns: a file could be changed again within its resolution."""
State = tuple[int, int, int, int]


def settled_state(path: str) -> State | None:
    """Return device, inode, size and modification time (ns) of a file; None if it does not exist or was modified within
    the last second. Raises `StorageError` if the file cannot be examined.
    """
    status = status_of(path)
    if status is None or status.st_mtime_ns >= time.time_ns() - SETTLED_NS:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class Unchanged(Generic[K, T]):
    """Cache of one result about a file: the latest. It is valid for the same path and key while the file is unchanged
    (device, inode, size and modification time).
    """

    def __init__(self) -> None:
        self._asked: tuple[str, K, State] | None = None
        self._answer: list[T] = []

    def of(self, path: str, key: K, find: Callable[[], T]) -> T:
        """Return the cached result if it is for this path and key and the file is unchanged; otherwise call `find` and
        return its result. The result replaces the cached one, unless the file changed during the call, does not exist,
        or was modified within the last second. Errors of `find` are passed on. Raises `StorageError` if the file cannot
        be examined.
        """
        before = settled_state(path)
        asked = None if before is None else (path, key, before)
        if asked is not None and asked == self._asked:
            return self._answer[0]
        answer = find()
        if asked is not None and settled_state(path) == before:
            self._asked, self._answer = asked, [answer]
        return answer
