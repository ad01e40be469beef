"""Run several iterators in threads, and return their items as if they had run one after another, within one bound on
memory. The iterator whose items are being read has its turn. It never waits for memory, so that all iterators finish
eventually; the others wait before they exceed the memory, and before they begin a large piece of work. The reading
thread can take part. If no item is ready, it works on an iterator of its own instead of sleeping, which saves a thread
and most wake-ups. It never waits for its own turn: an iterator that would have to wait is started again when its turn
comes.
"""

from __future__ import annotations

import errno
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from msgspec import Struct

from kafkalog.codec.common.errors import StorageError
from kafkalog.log.disk.process import OwnProcess

__all__ = ["InOrder", "Work"]

K = TypeVar("K")
T = TypeVar("T")
Work = Callable[[Callable[[], None]], Iterable[T]]
"""Function that returns an iterable of items. Its argument is a function that waits until the iterable has its turn."""


_NO_THREAD = "the system lets no thread begin: its limits on memory or on processes (ulimit -v, ulimit -u) are reached"


class _OverError(Exception):
    """The reader has finished."""


class _NotYetError(Exception):
    """The reading thread works on an iterator whose turn has not come."""


_Ready = tuple[str, object, int]
"""Kind of an entry, its item or error, and its size in bytes."""


class _Begun(Generic[K]):
    """A job that a thread has started, with the items that were produced and not read yet."""

    def __init__(self, key: K) -> None:
        self.key = key
        self.ready: SimpleQueue[list[_Ready]] = SimpleQueue()
        self.is_coming = False
        """whether an item is coming as soon as there is room, or the job has its turn"""


class _Own(Struct, Generic[T]):
    """A job that the reading thread works on. `items` is None if it must be started again when its turn comes."""

    number: int
    work: Work[T]
    items: Iterator[T] | None


class _End(Struct, frozen=True):
    error: BaseException | None


class InOrder(Generic[K, T]):
    """An iterator over pairs of a key of `works` and the items of its job. The items must be read to their end before
    the next key is requested. It is a context manager, and leaving it ends all jobs. Jobs are started in the order of
    `works`, in `threads` threads, or as many as the system allows. With `takes_part` the reading thread is one of them;
    without it, entering raises `StorageError` if no thread can start. A job is a function that returns an iterator of
    items; its argument is a function that waits until the job has its turn. Finished items wait to be read if they take
    at most `room` bytes by `size_of`; in addition, one item of the job that has its turn may always wait. An exception
    of a job is raised when its items are read, and an exception of `works` when the next key is requested. In a forked
    child there are no threads, and reading raises `UsageError`.
    """

    def __init__(
        self,
        works: Iterable[tuple[K, Work[T]]],
        threads: int,
        *,
        size_of: Callable[[T], int],
        room: int,
        takes_part: bool = False,
    ) -> None:
        self._works = iter(works)
        self._takes_part = takes_part
        self._own: _Own[T] | None = None
        self._taking = threading.Lock()
        self._process = OwnProcess("a reader with threads")
        self._size_of = size_of
        self._room = room
        self._begun: list[_Begun[K]] = []
        self._ended: _End | None = None
        """set when there are no more jobs, or taking the next one failed; None before"""
        self._turn = 0
        self._waiting = 0
        """bytes that wait"""
        self._sleepers = 0
        """number of threads that wait for a change, usually 0"""
        self._changed = threading.Condition()
        self._is_over = False
        self._threads = [
            threading.Thread(target=self._run, name=f"kafkalog-{number}", daemon=True)
            for number in range(threads - takes_part)
        ]

    def __enter__(self) -> InOrder[K, T]:
        for number, thread in enumerate(self._threads):
            try:
                thread.start()
            except RuntimeError:
                del self._threads[number:]
                break
        if not self._threads and not self._takes_part:
            raise StorageError(errno.EAGAIN, _NO_THREAD)
        return self

    def __exit__(self, *_: object) -> None:
        if not self._process.is_here:
            return
        with self._changed:
            self._is_over = True
            self._tell()
        for thread in self._threads:
            thread.join()
        self._own = None  # closes the iterator
        close = getattr(self._works, "close", None)
        if close is not None:
            close()

    def _run(self) -> None:
        while True:
            taken = self._take()
            if taken is None:
                return
            try:
                self._work(*taken)
            except _OverError:
                return

    def _take(self) -> tuple[int, Work[T]] | None:
        """Take the next job from `works` and record it as begun. Return its number, counted from 0, and the job. Return
        None if there are no more, if the reader has finished, or if `works` raises an exception. The exception is
        stored, and the reading thread raises it later.
        """
        with self._taking:
            if self._ended is not None or self._is_over:
                return None
            try:
                key, work = next(self._works)
            except StopIteration:
                self._end(_End(None))
            except BaseException as error:  # noqa: BLE001 - the reading thread raises it
                self._end(_End(error))
            else:
                with self._changed:
                    self._begun.append(_Begun(key))
                    self._tell()
                    return len(self._begun) - 1, work
        return None

    def _end(self, end: _End) -> None:
        with self._changed:
            self._ended = end
            self._tell()

    def _tell(self) -> None:
        if self._sleepers:
            self._changed.notify_all()

    def _await(self, happened: Callable[[], bool]) -> None:
        """Wait until `happened` returns True. The lock `_changed` must be held."""
        if not happened():
            self._sleepers += 1
            self._changed.wait_for(happened)
            self._sleepers -= 1

    def _work(self, number: int, work: Work[T]) -> None:
        light: list[_Ready] = []  # items without size are passed on with the next one: waking the reader takes time
        try:
            for item in work(lambda: self._await_turn(number)):
                size = self._size_of(item)
                light.append(("item", item, size))
                del item  # the next one may be large
                if size:
                    self._put(number, light, size)
                    light = []
            light.append(("end", None, 0))
        except _OverError:
            raise
        except BaseException as error:  # noqa: BLE001 - the reading thread raises it
            light.append(("error", error, 0))
        self._put(number, light, 0)

    def _await_turn(self, number: int) -> None:
        """Wait until all jobs before job `number` were read to their ends. Raises `_OverError` if the reader has
        finished.
        """
        with self._changed:
            self._await(lambda: self._is_over or number <= self._turn)
            if self._is_over:
                raise _OverError

    def _put(self, number: int, some: list[_Ready], size: int) -> None:
        begun = self._begun[number]

        def may() -> bool:
            has_turn = number <= self._turn and begun.ready.empty()
            return self._is_over or has_turn or size == 0 or self._waiting + size <= self._room

        with self._changed:
            begun.is_coming = True
            self._await(may)
            if self._is_over:
                raise _OverError
            self._waiting += size
            begun.ready.put(some)
            begun.is_coming = False

    # -- the reading thread ------------------------------------------------------------------------------------------

    def _go_on(self) -> bool:
        """Advance the reading thread's own job by one step: produce an item, or record the job's end or error. If the
        thread has no job, take a new one first. Return True if a step was made. Return False if the thread does not
        take part or no job is left. Return False also if a job that does not have its turn must wait for it or for
        room.

        A job that asks for its turn too early is stopped and its items are dropped; it is started again when it has its
        turn. Raises an interrupt that arrived while a job was taken.
        """
        own = self._own
        if own is None:
            is_needed = self._turn == len(self._begun)
            if not self._takes_part or (self._waiting >= self._room and not is_needed):
                return False
            taken = self._take()
            if taken is None:
                self._raise_interruption()
                return False
            number, work = taken
            own = self._own = _Own(number, work, iter(work(lambda: self._require_turn(number))))
        has_turn = own.number == self._turn
        if not has_turn and (own.items is None or self._waiting >= self._room):
            return False
        if own.items is None:
            own.items = iter(own.work(lambda: None))
        ready = self._begun[own.number].ready
        try:
            item = next(own.items)
        except StopIteration:
            self._own = None
            ready.put([("end", None, 0)])
        except _NotYetError:
            own.items = None
            self._forget(ready)
        except Exception as error:  # noqa: BLE001 - raised when the items of the job are read
            self._own = None
            ready.put([("error", error, 0)])
        else:
            size = self._size_of(item)
            with self._changed:
                self._waiting += size
            ready.put([("item", item, size)])
        return True

    def _raise_interruption(self) -> None:
        """Raise an interrupt that arrived while the next job was taken, even if jobs before it are not yet read."""
        error = None if self._ended is None else self._ended.error
        if error is not None and not isinstance(error, Exception):
            raise error

    def _require_turn(self, number: int) -> None:
        if number != self._turn:
            raise _NotYetError

    def _forget(self, ready: SimpleQueue[list[_Ready]]) -> None:
        """Drop the items of a job that will be started again."""
        while not ready.empty():
            for _kind, _item, size in ready.get():
                self._take_off(size)

    def _take_off(self, size: int) -> None:
        with self._changed:
            self._waiting -= size
            self._tell()

    def _next_of(self, begun: _Begun[K]) -> list[_Ready]:
        while True:
            try:
                return begun.ready.get_nowait()
            except Empty:
                if begun.is_coming or not self._go_on():
                    return begun.ready.get()

    def __iter__(self) -> Iterator[tuple[K, Iterator[T]]]:
        for number in itertools.count():
            self._process.require()
            if not self._has_turn(number):
                break
            begun = self._begun[number]
            yield begun.key, self._items(begun)
        if self._ended is not None and self._ended.error is not None:
            raise self._ended.error

    def _has_turn(self, number: int) -> bool:
        """Give the turn to the job with this number, and wait until it has begun or no jobs are left; the reading
        thread may begin it itself. Return True if the job has begun, False if there is no such job.
        """
        with self._changed:
            self._turn = number
            self._tell()
        if number == len(self._begun):
            self._go_on()
        with self._changed:
            self._await(lambda: number < len(self._begun) or self._ended is not None)
            return number < len(self._begun)

    def _items(self, begun: _Begun[K]) -> Iterator[T]:
        while True:
            self._process.require()
            some = self._next_of(begun)
            some.reverse()
            while some:
                kind, item, size = some.pop()
                if size:
                    self._take_off(size)
                if kind == "end":
                    return
                if kind == "error":
                    raise item  # type: ignore[misc]
                yield item  # type: ignore[misc]
                del item  # released at once, because the next item may be large
