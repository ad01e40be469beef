"""Parameters of a report other than the paths, and the interface through which its progress is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from msgspec import Struct

from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.log.directories.selection import ALL, Selection

if TYPE_CHECKING:
    from kafkalog.log.directories.workers import ProgressState

__all__ = ["Asked", "Watch"]


def _unseen(_count: int) -> None:
    return


def _unseen_state(_state: ProgressState) -> None:
    return


class Watch:
    """Receiver of the progress of a report. This class ignores it; subclasses show it."""

    def reading(self, _what: str, _total: int) -> AbstractContextManager[Callable[[int], None]]:
        """Begin to read a known number of bytes; the context's value is called with the number of bytes
        read each time.
        """
        return nullcontext(_unseen)

    def planning(self) -> AbstractContextManager[Callable[[ProgressState], None]]:
        """Begin to plan; the context's value is called with the progress."""
        return nullcontext(_unseen_state)


class Asked(Struct, frozen=True, kw_only=True):
    """Selected partitions, settings, and the extent of a report."""

    chosen: Selection = ALL
    config: Mapping[str, str] = {}
    """settings under Kafka's names"""
    server: Mapping[str, str] = {}
    """the broker's own properties, if they are known"""
    at: int | None = None
    """the time to treat as now, ms since 1970; None: the clock's"""
    deep: bool = True
    """whether every record is decoded"""
    with_bytes: bool = True
    """whether the bytes around damage are shown"""
    jobs: int = 1
    words: tuple[str, ...] = ()
    """the request as command-line options, which the commands in the report repeat"""
    limits: Limits = DEFAULT_LIMITS
