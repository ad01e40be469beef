"""A few threads for what takes its time; they hold up nobody who wants to end the program.

The threads of `concurrent.futures` are waited for when an interpreter ends, which may be a walk over a terabyte.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

__all__ = ["Workers"]

T = TypeVar("T")


class _Task:
    """What is to be done; one that nobody waits for any more holds nothing while it is in the queue."""

    def __init__(self, future: Future[Any], call: Callable[[], Any]) -> None:
        self.future = future
        self.call: Callable[[], Any] | None = call

    def drop(self, _future: Future[Any]) -> None:
        """It is over, or was given up."""
        self.call = None


class Workers:
    """`count` threads; what is submitted is done in turn."""

    def __init__(self, count: int) -> None:
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, name=f"kafkalog-server-worker-{number}", daemon=True)
            for number in range(count)
        ]
        for each in self._threads:
            each.start()

    def submit(self, task: Callable[[], T]) -> Future[T]:
        """Have it done; what it raises is in the future."""
        future: Future[T] = Future()
        waiting = _Task(future, task)
        future.add_done_callback(waiting.drop)
        self._tasks.put(waiting)
        return future

    def _work(self) -> None:
        while (found := self._tasks.get()) is not None:
            future, task = found.future, found.call
            if task is None or not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(task())
            except BaseException as error:  # noqa: BLE001 - whoever asks for the result is told
                future.set_exception(error)

    def stop(self, seconds: float) -> None:
        """Begin nothing new, and wait so long for what is being done."""
        while not self._tasks.empty():
            found = self._tasks.get()
            if found is not None:
                found.future.cancel()
        for _ in self._threads:
            self._tasks.put(None)
        for each in self._threads:
            each.join(seconds)
