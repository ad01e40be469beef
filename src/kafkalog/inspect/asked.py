"""What somebody asks of a report, besides the paths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from msgspec import Struct

from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.log.directories.selection import ALL, Selection

if TYPE_CHECKING:
    from kafkalog.log.directories.workers import ProgressState

__all__ = ["Asked", "Watch"]


def _unseen(_count: int) -> None:
    return


def _unseen_state(_state: ProgressState) -> None:
    return


class Watch:
    """Is told how far the work is; this one tells nobody."""

    def reading(self, _what: str, _total: int) -> AbstractContextManager[Callable[[int], None]]:
        """Note that so many bytes are to be read; what is given is told of each that was."""
        return nullcontext(_unseen)

    def planning(self) -> AbstractContextManager[Callable[[ProgressState], None]]:
        """Plans are made; what is given is told how far that is."""
        return nullcontext(_unseen_state)


class Asked(Struct, frozen=True, kw_only=True):
    """Which partitions, by which settings, and how much of it."""

    chosen: Selection = ALL
    config: Mapping[str, str] = {}
    """settings under Kafka's names"""
    at: int | None = None
    """the time in ms to treat as now"""
    deep: bool = True
    """decode every record"""
    with_bytes: bool = True
    """show the bytes around damage"""
    jobs: int = 1
    words: tuple[str, ...] = ()
    """the same as options, which the commands in the report repeat"""
    limits: Limits = DEFAULT_LIMITS
