"""Assignment of partitions to the streams of a consumer. Each partition belongs to one stream and never moves.

As in `ZookeeperConsumerConnector`, the partitions of a topic are divided into ranges. If they do not divide evenly, the
first streams get one more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

__all__ = ["in_ranges", "least_loaded"]

_T = TypeVar("_T")


def in_ranges(items: Sequence[_T], count: int) -> list[list[_T]]:
    """Divide items, in order, into `count` lists whose sizes differ by at most one, the larger ones first. Lists are
    empty if there are fewer items.
    """
    each, more = divmod(len(items), count)
    starts = [number * each + min(number, more) for number in range(count + 1)]
    return [list(items[starts[number] : starts[number + 1]]) for number in range(count)]


def least_loaded(loads: Sequence[int]) -> int:
    """Return the index of the smallest load, the first of several."""
    return min(range(len(loads)), key=loads.__getitem__)
