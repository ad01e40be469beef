"""Several iterators run in threads, their items given out as if one had run after the other, with one bound for memory.

The work whose items are read has its turn.  It never waits for memory, so all go on in the end; the others wait before
they add to what is waiting already, and before they begin with something large.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from kafkalog.log.process import OwnProcess

__all__ = ["InOrder"]

T = TypeVar("T")


class _OverError(Exception):
    """Nobody reads any more."""


class InOrder(Generic[T]):
    """`items(k)` are those of the k-th of `works`; ask for each k in turn.  A context manager: leaving it ends all.

    A work is begun when all before it have been, by one of `threads` threads; no more than that many are under way.  It
    is given a function that waits until the work has its turn.  Items wait for whoever reads as long as they take no
    more than `room` by `size_of` together, and one item of the work that has its turn always may.  What a work raises
    is raised where its items are read.  A forked child has none of the threads: reading there is `UsageError`.
    """

    def __init__(
        self,
        works: Sequence[Callable[[Callable[[], None]], Iterable[T]]],
        threads: int,
        *,
        size_of: Callable[[T], int],
        room: int,
    ) -> None:
        self._works = works
        self._process = OwnProcess("a reader with threads")
        self._size_of = size_of
        self._room = room
        self._ready: list[deque[tuple[str, object, int]]] = [deque() for _ in works]
        self._begun = 0
        self._turn = 0
        self._waiting = 0
        self._changed = threading.Condition()
        self._is_over = False
        self._threads = [
            threading.Thread(target=self._run, name=f"kafkalog-{number}", daemon=True)
            for number in range(min(threads, len(works)))
        ]

    def __enter__(self) -> InOrder[T]:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._process.is_here:
            return
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                number = self._begun
                if self._is_over or number == len(self._works):
                    return
                self._begun += 1
            try:
                self._work(number)
            except _OverError:
                return

    def _work(self, number: int) -> None:
        try:
            for item in self._works[number](lambda: self._await_turn(number)):
                self._put(number, "item", item, self._size_of(item))
                del item  # the next one may be large
            self._put(number, "end", None, 0)
        except _OverError:
            raise
        except BaseException as error:  # noqa: BLE001 - it is raised again where it is waited for
            self._put(number, "error", error, 0)

    def _await_turn(self, number: int) -> None:
        """Wait until all works before this one were read to their ends."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or number <= self._turn)
            if self._is_over:
                raise _OverError

    def _put(self, number: int, kind: str, item: object, size: int) -> None:
        ready = self._ready[number]

        def may() -> bool:
            has_turn = number <= self._turn and not ready
            return self._is_over or has_turn or size == 0 or self._waiting + size <= self._room

        with self._changed:
            self._changed.wait_for(may)
            if self._is_over:
                raise _OverError
            ready.append((kind, item, size))
            self._waiting += size
            self._changed.notify_all()

    def items(self, number: int) -> Iterator[T]:
        """Those of one work; to be read to the end before the next one's."""
        ready = self._ready[number]
        with self._changed:
            self._turn = number
            self._changed.notify_all()
        while True:
            self._process.require()
            with self._changed:
                self._changed.wait_for(lambda: bool(ready))
                kind, item, size = ready.popleft()
                self._waiting -= size
                self._changed.notify_all()
            if kind == "end":
                return
            if kind == "error":
                raise item  # type: ignore[misc]
            yield item  # type: ignore[misc]
            del item  # what comes next may be large: this one is not held any longer
