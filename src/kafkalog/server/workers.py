"""A few threads for long tasks, shared fairly.

A generator is run in slices, and the next slice is for the owner that has used the least time. The threads do not delay
the end of the program, unlike those of `concurrent.futures`, which would finish a walk over a terabyte first.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, WeakMethod

from kafkalog.log.walk.sliced import Sliced

__all__ = ["Workers", "finished"]

T = TypeVar("T")
_SLICE_S = 0.02


def finished(result: T | Sliced[T]) -> Sliced[T]:
    """A result computed at once or in slices."""
    if isinstance(result, Generator):
        return (yield from result)
    return result


class _Promised(Future[Any]):
    """A result that may be cancelled while it is computed. The rest of the work is then skipped."""

    is_given_up = False

    def cancel(self) -> bool:
        """Cancel the task, even if it is running. Return False if it is running or done, as `Future.cancel` does."""
        self.is_given_up = True
        return super().cancel()


class _Task:
    """A task and its future. When the future is cancelled or done, the reference to the function is dropped, even if
    the task is still queued.
    """

    def __init__(self, future: _Promised, call: Callable[[], Any], owner: object) -> None:
        self.future = future
        self.call: Callable[[], Any] | None = call
        self.slices: Sliced[Any] | None = None
        self.owner = owner
        self.is_begun = False

    def drop(self, _future: Future[Any]) -> None:
        """Drop the references of a task that is done or cancelled."""
        self.call = None

    def go_on(self) -> bool:
        """Call the function, or continue its generator for up to 20 ms. Return whether the task is over; the future
        then has the result. If the future was cancelled, the function is not called. If the future is given up, the
        generator is closed, and the result is None. An exception of the function is raised to the caller; the future
        does not get it here.
        """
        if not self.is_begun:
            call = self.call
            if call is None or not self.future.set_running_or_notify_cancel():
                return True
            self.is_begun = True
            result = call()
            if not isinstance(result, Generator):
                self.future.set_result(result)
                return True
            self.slices = result
        if self.slices is None:
            return True
        until = time.monotonic() + _SLICE_S
        try:
            while time.monotonic() < until:
                if self.future.is_given_up:
                    self.slices.close()
                    self.future.set_result(None)
                    return True
                next(self.slices)
        except StopIteration as end:
            self.future.set_result(end.value)
            return True
        return False


class Workers:
    """`count` threads that run tasks in slices. An owner with several tasks gets no more time than one with a single
    task.
    """

    def __init__(self, count: int, name: str = "worker") -> None:
        self._ready = threading.Condition()
        self._queue: list[tuple[float, int, _Task]] = []
        self._numbers = itertools.count()
        self._used: WeakKeyDictionary[Any, float] = WeakKeyDictionary()
        self._least = 0.0
        self._stopping = False
        self._threads = [
            threading.Thread(target=self._work, name=f"kafkalog-server-{name}-{number}", daemon=True)
            for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, task: Callable[[], T], owner: object = None) -> Future[Any]:
        """Queue a task and return its future, which gets the task's result or exception. A task whose future is
        cancelled is dropped. A task submitted after `stop` is never run.

        If `task` returns a generator, the generator is run in slices, and its return value is the result. The tasks of
        one `owner` together get as much time as any other owner; tasks without an owner count as one owner.
        """
        future = _Promised()
        waiting = _Task(future, task, self if owner is None else owner)
        drop = WeakMethod(waiting.drop)  # a circle would hold results until the collector comes by
        future.add_done_callback(lambda done: (found := drop()) and found(done))
        with self._ready:
            self._put(waiting)
        return future

    def _put(self, task: _Task) -> None:
        used = max(self._used.get(task.owner, 0.0), self._least)  # who comes later has no claim to what was before
        heapq.heappush(self._queue, (used, next(self._numbers), task))
        self._ready.notify()

    def _take(self) -> _Task | None:
        with self._ready:
            while not self._queue and not self._stopping:
                self._ready.wait()
            if self._stopping:
                return None
            self._least, _, task = heapq.heappop(self._queue)
            return task

    def _work(self) -> None:
        while (task := self._take()) is not None:
            begun = time.monotonic()
            try:
                is_over = task.go_on()
            except BaseException as error:  # noqa: BLE001 - whoever asks for the result is told
                task.future.set_exception(error)
                is_over = True
            took = time.monotonic() - begun
            with self._ready:
                self._used[task.owner] = max(self._used.get(task.owner, 0.0), self._least) + took
                if not is_over and not self._stopping:
                    self._put(task)
            del task

    def stop(self, seconds: float) -> None:
        """End the threads: cancel the queued tasks and wait up to `seconds` for each thread. A task that is running
        ends after its current slice. The future of a task that has begun but not finished never gets a result.
        """
        with self._ready:
            self._stopping = True
            waiting, self._queue = self._queue, []
            self._ready.notify_all()
        for _, _, task in waiting:
            task.future.cancel()
        for thread in self._threads:
            thread.join(seconds)
