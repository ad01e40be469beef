"""Decision whether a job is large enough to decode records into columns with numpy.

Loading numpy takes 0.1 s and 30 MB; in this time plain Python decodes about 8 MB of small records. numpy is not
imported before the decision, and pyarrow not before columns are wanted. Headers need no decision: compiled code reads
them without numpy.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from kafkalog.codec.common.limits import MIB
from kafkalog.codec.native import library

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ENOUGH_BYTES", "kernel_is_worth_it", "together"]

ENOUGH_BYTES = 8 * MIB
"""Least bytes of log whose records are decoded into columns."""
_together: ContextVar[int] = ContextVar("kafkalog_together", default=0)


@lru_cache(maxsize=1)
def _can_make_columns() -> bool:
    """Whether the packages of the extra `fast` are installed."""
    return all(find_spec(name) is not None for name in ("numpy", "pyarrow"))


def kernel_is_worth_it(work_bytes: int) -> bool:
    """Whether compiled code and the packages for columns are available, and are worth loading for `work_bytes` bytes of
    log or for the surrounding job (`together`).
    """
    return max(work_bytes, _together.get()) >= ENOUGH_BYTES and library.is_there() and _can_make_columns()


@contextmanager
def together(work_bytes: int) -> Iterator[None]:
    """Context manager for a job that reads many small partitions; `work_bytes` is the size of the whole job. Inside it,
    each partition counts as if its log had at least `work_bytes` bytes. So the records even of small partitions are
    decoded into columns if the whole job is large enough. This holds for the current thread (context) only. The earlier
    value is restored at the end.
    """
    token = _together.set(work_bytes)
    try:
        yield
    finally:
        _together.reset(token)
