"""Many small questions to a remote tier, several at a time: each takes as long as a request."""

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
    """The answers, in the order of the items; an error of the first item that has one is raised."""
    if len(items) < _FEW:
        return [ask(each) for each in items]
    with ThreadPoolExecutor(_AT_A_TIME) as threads:
        return list(threads.map(ask, items))
