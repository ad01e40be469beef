"""Produce items in advance in a thread, while earlier ones are used. It is for work that mostly runs without the
interpreter's lock, such as compiled code that reads and checks windows of a log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import TypeVar

from kafkalog.codec.common.errors import StorageError
from kafkalog.log.disk.process import processors
from kafkalog.log.reading.in_order import InOrder

__all__ = ["ahead"]

T = TypeVar("T")


def ahead(make: Callable[[], Iterable[T]], *, size_of: Callable[[T], int], room: int) -> Iterator[T]:
    """Yield the items of `make()` in order, while a thread produces the next ones in advance. Waiting items take at
    most `room` bytes, or are one item that is larger; `size_of` returns an item's size in bytes. `make` is called,
    iterated and closed in that thread. If the process has only one processor, or no thread can be started, the items
    are produced in the calling thread instead. Exceptions of `make` are raised to the caller. With a thread, the next
    step in a forked child raises `UsageError`.
    """
    with ExitStack() as stack:
        jobs = [(None, lambda _await_turn: make())]
        try:
            running = stack.enter_context(InOrder(jobs, 1, size_of=size_of, room=room)) if processors() > 1 else None
        except StorageError:  # no thread can be started
            running = None
        if running is None:
            yield from make()
            return
        for _, items in running:
            yield from items
