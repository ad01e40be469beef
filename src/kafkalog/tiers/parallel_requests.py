"""Many small requests to a remote tier, several at a time, because each has the latency of a request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["in_order"]

_AT_A_TIME = 8
_FEW = 4
Item = TypeVar("Item")
Answer = TypeVar("Answer")


def in_order(ask: Callable[[Item], Answer], items: Sequence[Item]) -> list[Answer]:
    """Call `ask` for each item, several at a time if there are enough items, and return the answers in the order of the
    items. If calls fail, the error of the first failing item is raised.
    """
    if len(items) < _FEW:
        return [ask(each) for each in items]
    with ThreadPoolExecutor(_AT_A_TIME) as threads:
        return list(threads.map(ask, items))
