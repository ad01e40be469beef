"""What an object store has said of a path while many of its directories are looked at: asked once, and kept for that.

A listing says which files there are and how long they are, so that no request is needed for one that is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import TypeVar

from kafkalog.codec.limits import MIB
from kafkalog.log.disk.remote_file import RemoteEntry

__all__ = ["AT_A_TIME", "LookedAt", "in_threads", "looked_at", "looking_once"]

_ROOM = 64 * MIB
"""Bytes of all files that are read ahead, at most."""

AT_A_TIME = 16
"""requests that are under way together"""
_T = TypeVar("_T")
_R = TypeVar("_R")


class LookedAt:
    """Listings of directories and contents of small files, by their paths."""

    def __init__(self) -> None:
        self.listings: dict[str, list[RemoteEntry]] = {}
        self._contents: dict[str, bytes] = {}
        self._room = _ROOM

    def entry(self, path: str) -> RemoteEntry | None:
        """The entry of a path in the listing of its directory; None if that was not listed, or does not have it."""
        directory, _, name = path.rpartition("/")
        return next((each for each in self.listings.get(directory, ()) if each.name == name), None)

    def is_missing(self, path: str) -> bool:
        """Whether the directory of a path was listed and does not have it."""
        return path.rpartition("/")[0] in self.listings and self.entry(path) is None

    def keep(self, path: str, data: bytes) -> None:
        """Keep the content of a file, if there is room."""
        if len(data) <= self._room:
            self._room -= len(data)
            self._contents[path] = data

    def content(self, path: str) -> bytes | None:
        """The content of a file that was read ahead."""
        return self._contents.get(path)


_now: ContextVar[LookedAt | None] = ContextVar("looked_at", default=None)


def looked_at() -> LookedAt | None:
    """What is known within `looking_once`; None outside of it."""
    return _now.get()


@contextmanager
def looking_once() -> Iterator[None]:
    """Within it, object stores are asked once about each directory; afterwards all of that is forgotten."""
    if _now.get() is not None:
        yield
        return
    token = _now.set(LookedAt())
    try:
        yield
    finally:
        _now.reset(token)


def in_threads(act: Callable[[_T], _R], items: Iterable[_T]) -> list[_R]:
    """What `act` gives of each item, in their order, several at a time; the first error is raised."""
    from concurrent.futures import ThreadPoolExecutor  # only stores are asked in threads

    waiting = list(items)
    if len(waiting) < 2:
        return [act(each) for each in waiting]
    with ThreadPoolExecutor(min(AT_A_TIME, len(waiting))) as threads:
        runs = [threads.submit(copy_context().run, act, each) for each in waiting]
        return [each.result() for each in runs]
