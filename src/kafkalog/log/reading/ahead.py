"""Items made ahead by a thread of their own, while those before them are examined: for what runs mostly without the
interpreter's lock, as reading and checking windows of a log by compiled code does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import TypeVar

from kafkalog.codec.errors import StorageError
from kafkalog.log.disk.process import processors
from kafkalog.log.reading.in_order import InOrder

__all__ = ["ahead"]

T = TypeVar("T")


def ahead(make: Callable[[], Iterable[T]], *, size_of: Callable[[T], int], room: int) -> Iterator[T]:
    """What `make` gives, in order; called, iterated and closed in a thread if there is another core for it.

    Items wait for whoever reads as long as they take no more than `room` bytes by `size_of`.  What `make` raises is
    raised where its items are read.
    """
    with ExitStack() as stack:
        works = [(None, lambda _await_turn: make())]
        try:
            under_way = stack.enter_context(InOrder(works, 1, size_of=size_of, room=room)) if processors() > 1 else None
        except StorageError:  # the system lets no thread begin
            under_way = None
        if under_way is None:
            yield from make()
            return
        for _, items in under_way:
            yield from items
