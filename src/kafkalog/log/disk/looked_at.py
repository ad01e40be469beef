"""Cache an object store's listings and small files while many directories are examined. A listing has all names and
sizes, so no request is needed for a file that does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import TypeVar

from kafkalog.codec.common.limits import MIB
from kafkalog.log.disk.remote_file import RemoteEntry

__all__ = ["AT_A_TIME", "LookedAt", "in_threads", "looked_at", "looking_once"]

_ROOM = 64 * MIB
"""Most bytes of all files that are read in advance."""

AT_A_TIME = 16
"""most requests at once"""
_T = TypeVar("_T")
_R = TypeVar("_R")


class LookedAt:
    """Cached listings of directories and contents of small files, by path."""

    def __init__(self) -> None:
        self.listings: dict[str, list[RemoteEntry]] = {}
        self._contents: dict[str, bytes] = {}
        self._room = _ROOM

    def entry(self, path: str) -> RemoteEntry | None:
        """Return the entry of a path from the cached listing of its directory; None if the directory was not listed, or
        does not contain it.
        """
        directory, _, name = path.rpartition("/")
        return next((entry for entry in self.listings.get(directory, ()) if entry.name == name), None)

    def is_missing(self, path: str) -> bool:
        """Whether the directory of a path was listed and does not contain it. False if it was not listed."""
        return path.rpartition("/")[0] in self.listings and self.entry(path) is None

    def keep(self, path: str, data: bytes) -> None:
        """Cache the content of a file, if there is room: 64 MiB for all files."""
        if len(data) <= self._room:
            self._room -= len(data)
            self._contents[path] = data

    def content(self, path: str) -> bytes | None:
        """Return the cached content of a file; None if it is not cached."""
        return self._contents.get(path)


_now: ContextVar[LookedAt | None] = ContextVar("looked_at", default=None)


def looked_at() -> LookedAt | None:
    """Return the cache within `looking_once`; None outside."""
    return _now.get()


@contextmanager
def looking_once() -> Iterator[None]:
    """Context manager within which listings and small files of object stores are cached, so that each directory is
    listed only once. The cache is dropped at its end. A nested context uses the outer cache.
    """
    if _now.get() is not None:
        yield
        return
    token = _now.set(LookedAt())
    try:
        yield
    finally:
        _now.reset(token)


def in_threads(act: Callable[[_T], _R], items: Iterable[_T]) -> list[_R]:
    """Call `act` with each item, in up to 16 threads; return the results in the order of the items. All calls are made
    even if one fails; then the error of the first failing item, in that order, is raised. A single item is handled in
    the calling thread.
    """
    from concurrent.futures import ThreadPoolExecutor  # loaded here, because only object stores need threads

    waiting = list(items)
    if len(waiting) < 2:
        return [act(item) for item in waiting]
    with ThreadPoolExecutor(min(AT_A_TIME, len(waiting))) as threads:
        results = [threads.submit(copy_context().run, act, item) for item in waiting]
        return [result.result() for result in results]
