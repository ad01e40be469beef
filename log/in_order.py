"""Several iterators run in threads, their items given out as if one had run after the other."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from kafkalog.log.process import OwnProcess

__all__ = ["InOrder"]

T = TypeVar("T")
_WAITING = 2
"""Items of one iterator at most that wait for whoever reads."""
_LOOK_SECONDS = 0.05


class InOrder(Generic[T]):
    """`items(k)` are those of the k-th of `works`; ask for each k in turn.  A context manager: leaving it ends all.

    A work is begun when all before it have been, by one of `threads` threads; no more than that many are under way.
    What a work raises is raised where its items are read.  A forked child has none of the threads: reading there is
    `UsageError`.
    """

    def __init__(self, works: Sequence[Callable[[], Iterable[T]]], threads: int) -> None:
        self._works = works
        self._process = OwnProcess("a reader with threads")
        self._queues: list[queue.Queue[tuple[str, object]]] = [queue.Queue(_WAITING) for _ in works]
        self._next = iter(range(len(works)))
        self._lock = threading.Lock()
        self._over = threading.Event()
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
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while not self._over.is_set():
            with self._lock:
                number = next(self._next, None)
            if number is None:
                return
            try:
                for item in self._works[number]():
                    if not self._put(number, "item", item):
                        return
                self._put(number, "end", None)
            except BaseException as error:  # noqa: BLE001 - it is raised again where it is waited for
                self._put(number, "error", error)

    def _put(self, number: int, kind: str, item: object) -> bool:
        while not self._over.is_set():
            try:
                self._queues[number].put((kind, item), timeout=_LOOK_SECONDS)
            except queue.Full:
                continue
            return True
        return False

    def items(self, number: int) -> Iterator[T]:
        """Those of one work; to be read to the end before the next one's."""
        while True:
            self._process.require()
            kind, item = self._queues[number].get()
            if kind == "end":
                return
            if kind == "error":
                raise item  # type: ignore[misc]
            yield item  # type: ignore[misc]
