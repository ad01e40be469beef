"""Which stream of a consumer gets which partition: each belongs to one, and none ever moves.

Decided by `ZookeeperConsumerConnector`: the partitions of a topic are shared out in ranges, the first streams getting
one more where they do not divide evenly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

__all__ = ["in_ranges", "least_loaded"]

_T = TypeVar("_T")


def in_ranges(items: Sequence[_T], count: int) -> list[list[_T]]:
    """Items, in order, shared out among so many."""
    each, more = divmod(len(items), count)
    starts = [number * each + min(number, more) for number in range(count + 1)]
    return [list(items[starts[number] : starts[number + 1]]) for number in range(count)]


def least_loaded(loads: Sequence[int]) -> int:
    """The number of the smallest load, the first of several."""
    return min(range(len(loads)), key=loads.__getitem__)
