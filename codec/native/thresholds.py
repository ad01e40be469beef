"""Decide whether a job is large enough for compiled code and columns. Loading numpy takes 0.1 s and 30 MB; plain Python
reads about 8 MB of small records in that time. Neither numpy is imported before the decision, nor pyarrow before
columns are wanted.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from kafkalog.codec.common.limits import MIB
from kafkalog.codec.native import library

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["ENOUGH_BYTES", "headers_are_worth_it", "kernel_is_worth_it", "together"]

ENOUGH_BYTES = 8 * MIB
"""Least bytes of log for compiled code."""
ENOUGH_BATCHES = 1_000
"""Least number of batches for compiled code if records are not examined: plain Python takes 0.1 ms or more for each."""

_together: ContextVar[int] = ContextVar("kafkalog_together", default=0)


@lru_cache(maxsize=1)
def _fast_is_there() -> bool:
    """Whether there is compiled code and the extra `fast` is installed."""
    return library.is_there() and all(find_spec(name) is not None for name in ("numpy", "pyarrow"))


def kernel_is_worth_it(work_bytes: int) -> bool:
    """Whether compiled code is available and worth loading for `work_bytes` bytes of log, or for the surrounding job
    (`together`).
    """
    return max(work_bytes, _together.get()) >= ENOUGH_BYTES and _fast_is_there()


@contextmanager
def together(work_bytes: int) -> Iterator[None]:
    """Context manager in which decisions of this thread (context) about compiled code treat every job as at least
    `work_bytes` bytes of log, so that many small partitions together are worth loading it. The value before is restored
    at the end.
    """
    token = _together.set(work_bytes)
    try:
        yield
    finally:
        _together.reset(token)


def headers_are_worth_it(work_bytes: int, batch_bytes: Callable[[], int]) -> bool:
    """Whether compiled code is worth loading if records are not examined. `batch_bytes` returns the approximate size of
    a batch. True if numpy is already loaded and the bytes are enough.
    """
    if not kernel_is_worth_it(work_bytes):
        return False
    return "numpy" in sys.modules or work_bytes >= ENOUGH_BATCHES * batch_bytes()
