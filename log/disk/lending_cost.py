"""Whether reading a part of a file takes less of the processor's time than mapping it where it is.

That depends on the machine: one copies out of the page cache faster than its system enters the pages of a mapping, and
another takes twice as long.  So both are tried once in a process for each file system, on a file that is worth it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress

from kafkalog.codec.limits import MIB
from kafkalog.codec.memory import own_pages
from kafkalog.log.disk.lending import lent

__all__ = ["reading_takes_less"]

_WORTH_IT = 32 * MIB
"""Bytes of a file from which on it matters, and the milliseconds are spent that it takes to know."""
_TRIED = 8 * MIB
_READ_AT_ONCE = 2 * MIB
"""Bytes that are mapped, or read, to compare both; and bytes read at a time, which stay in the processor's cache."""
_ROUNDS = 3
_known: dict[int, bool] = {}


def reading_takes_less(descriptor: int, position: int) -> bool:
    """Whether to read an open file rather than to have it lent, from a position on; False where that is not known."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return False
    if status.st_size < _WORTH_IT:
        return False
    if status.st_dev not in _known and status.st_size - position >= _TRIED:
        with suppress(OSError):
            _try(status.st_dev, descriptor, position)
    return _known.get(status.st_dev, False)


def _try(device: int, descriptor: int, position: int) -> None:
    memory = memoryview(own_pages(_READ_AT_ONCE, is_filled=True))

    def is_lent() -> bool:
        with lent(descriptor, position, _TRIED) as part:
            return part is not None

    def is_read() -> bool:
        places = range(position, position + _TRIED, _READ_AT_ONCE)
        return all(os.preadv(descriptor, [memory], place) == _READ_AT_ONCE for place in places)

    if is_lent() and is_read():  # this time, both bring in what is still missing
        _known[device] = _least_time(is_read) <= _least_time(is_lent)


def _least_time(work: Callable[[], object]) -> int:
    """Nanoseconds of this thread on the processor, the best of some rounds."""
    taken = []
    for _ in range(_ROUNDS):
        start = time.thread_time_ns()
        work()
        taken.append(time.thread_time_ns() - start)
    return min(taken)
