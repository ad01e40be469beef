"""Interface of a partition for reading, which `Partition` implements. It is in a module of its own because `Partition`
imports the modules that use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.log.walk.segment import Segment

if TYPE_CHECKING:
    from kafkalog.codec.common.findings import Finding
    from kafkalog.log.reading.transactions import Transactions

__all__ = [
    "ISOLATION_LEVELS", "READ_COMMITTED", "READ_UNCOMMITTED", "OffsetAndTimestamp", "ReadablePartition", "Reset",
    "check_isolation_level",
]  # fmt: skip

READ_UNCOMMITTED = "read_uncommitted"
READ_COMMITTED = "read_committed"
ISOLATION_LEVELS = (READ_UNCOMMITTED, READ_COMMITTED)

Reset = Literal["earliest", "latest"]
"""Offset at which reading continues if an offset is out of range (`auto.offset.reset`)."""


def check_isolation_level(level: str) -> None:
    """Raise `UsageError` unless the level is in `ISOLATION_LEVELS`."""
    if level not in ISOLATION_LEVELS:
        raise UsageError(f"isolation level {level!r} is not one of {', '.join(ISOLATION_LEVELS)}")


class OffsetAndTimestamp(NamedTuple):
    """Result of a search by time; `timestamp` is in ms, `leader_epoch` -1 if unknown."""

    offset: int
    timestamp: int
    leader_epoch: int


class ReadablePartition(Protocol):
    """A partition that can be read: its segments in order, and the first and last offset to read."""

    @property
    def path(self) -> str:
        """Path of the directory, or of a single segment file."""

    @property
    def topic(self) -> str | None:
        """Topic; None if unknown."""

    @property
    def partition(self) -> int | None:
        """Partition number; None if unknown."""

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Segments by base offset."""

    @property
    def limits(self) -> Limits:
        """Limits with which the partition was opened."""

    @property
    def log_start_offset(self) -> int:
        """First offset that consumers can read."""

    def log_end_offset(self, *, limits: Limits = DEFAULT_LIMITS) -> int:
        """Return the offset of the next record."""

    def transactions(self, *, through_damage: bool = False, limits: Limits = DEFAULT_LIMITS) -> Transactions:
        """Return aborted and open transactions."""

    def offset_for_timestamp(
        self, timestamp: int, *, findings: list[Finding] | None = None, through_damage: bool = False,
        limits: Limits = DEFAULT_LIMITS,
    ) -> OffsetAndTimestamp | None:  # fmt: skip
        """Return the first record with at least this timestamp (ms); None if there is none."""
