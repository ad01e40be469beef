"""Which execution a piece of work deserves: columns earn the loading of numpy only on many bytes.

Loading numpy takes 0.1 s and 30 MB; plain Python reads about 8 MB of small records in that time.  Nothing here imports
it before the answer is yes, nor pyarrow before columns are wanted.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from kafkalog.codec.limits import MIB
from kafkalog.codec.native import library

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["ENOUGH_BYTES", "headers_are_worth_it", "kernel_is_worth_it", "together"]

ENOUGH_BYTES = 8 * MIB
"""Log bytes from which on the kernel is used."""
ENOUGH_BATCHES = 1_000
"""Batches from which on it is used where records are not examined; plain Python takes 0.1 ms for each, or more."""

_together: ContextVar[int] = ContextVar("kafkalog_together", default=0)


@lru_cache(maxsize=1)
def _fast_is_there() -> bool:
    """Whether there is compiled code, and what the extra `fast` installs."""
    return library.is_there() and all(find_spec(name) is not None for name in ("numpy", "pyarrow"))


def kernel_is_worth_it(work_bytes: int) -> bool:
    """Whether so many log bytes are worth loading the compiled execution for, and there is one."""
    return max(work_bytes, _together.get()) >= ENOUGH_BYTES and _fast_is_there()


@contextmanager
def together(work_bytes: int) -> Iterator[None]:
    """Whatever is decided within is a part of work on so many log bytes: many small partitions are worth it too."""
    token = _together.set(work_bytes)
    try:
        yield
    finally:
        _together.reset(token)


def headers_are_worth_it(work_bytes: int, batch_bytes: Callable[[], int]) -> bool:
    """Whether compiled code is worth loading where records are not examined.

    `batch_bytes` tells about how large a batch is.

    What is loaded already costs nothing.
    """
    if not kernel_is_worth_it(work_bytes):
        return False
    return "numpy" in sys.modules or work_bytes >= ENOUGH_BATCHES * batch_bytes()
