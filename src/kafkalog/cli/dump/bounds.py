"""Offsets at which reading a partition begins and ends, separately for each partition: from the options, or from kcat's
`-o` and `-G`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from kafkalog.cli.dump.request import Dump
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.findings import Finding
from kafkalog.log import Partition
from kafkalog.log.reading.consumer_view import READ_COMMITTED

__all__ = ["Begin", "Bounds", "Committed", "begin_of"]

Committed = Mapping[tuple[str | None, int | None], int]
"""(topic, partition) -> the offset that a group has committed"""

_NUMBER = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_TIME = re.compile(r"([se])@([0-9]{1,19})", re.ASCII)


class Bounds(Struct, frozen=True):
    """The bounds of one partition: the first offset (inclusive), the end offset (exclusive), and the time (ms) at which
    reading ends. None means no bound.
    """

    start_offset: int | None = None
    end_offset: int | None = None
    stop_time: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing can lie within."""
        return self.start_offset is not None and self.end_offset is not None and self.start_offset >= self.end_offset


class Begin(Struct, frozen=True, kw_only=True):
    """Start position from the request, the same for all partitions."""

    word: str | None = None
    """beginning, end or stored"""
    offset: int | None = None
    """absolute; before the end where it is negative"""
    start_time: int | None = None
    stop_time: int | None = None

    def of(self, partition: Partition, request: Dump, committed: Committed, findings: list[Finding]) -> Bounds:
        """Return the bounds within which a partition is read: `start_offset` (inclusive), `end_offset` (exclusive) and
        `stop_time` (ms, exclusive); None means no bound. `committed` has the committed offset by (topic, partition).

        With `--offset` they contain only that offset. Otherwise the start is this position, or `request.start_offset`
        if it is unset, and the end is `--end-offset`. With `--deleted` the end is in both cases at most
        `partition.deleted_below`.

        The position is the end of the partition for `end`, for a time that no record reaches, and for `stored` without
        a commit; a negative number counts from that end, but not below the log start offset. The end of the partition
        is `deleted_below` if it is set, else the last stable offset (read_committed) or the log end offset. Damage met
        while searching for a time ends the search and is added to `findings`. Raises `StorageError` if a file cannot be
        read.
        """
        end = _earlier(request.end_offset, partition.deleted_below)
        if request.one_offset is not None:
            return Bounds(request.one_offset, _earlier(request.one_offset + 1, partition.deleted_below))
        if self.start_time is not None:
            timestamp = partition.offset_for_timestamp(self.start_time, findings=findings)
            start: int | None = self._end(partition, request) if timestamp is None else timestamp.offset
        elif self.word == "end":
            start = self._end(partition, request)
        elif self.word == "stored":
            start = committed.get((partition.topic, partition.partition))
            start = self._end(partition, request) if start is None or start < 0 else start  # as clients ignore it
        elif self.offset is not None and self.offset < 0:
            start = max(self._end(partition, request) + self.offset, partition.log_start_offset)
        else:
            start = self.offset if self.offset is not None else request.start_offset
        return Bounds(start, end, self.stop_time)

    @staticmethod
    def _end(partition: Partition, request: Dump) -> int:
        if partition.deleted_below is not None:
            return partition.deleted_below
        if request.isolation_level == READ_COMMITTED:
            return partition.last_stable_offset()
        return partition.log_end_offset()


def _earlier(one: int | None, other: int | None) -> int | None:
    """Return the smaller of two ends, where None means no end; None if both are None."""
    return min(one, other) if one is not None and other is not None else one if other is None else other


def begin_of(texts: Sequence[str], group: str | None) -> Begin:
    """Return the start position and stop time from all `-o` texts: beginning, end, stored, N, -N, s@MS and e@MS. If no
    text gives a start, the position is `stored` if `-G` names a group, and unset otherwise.

    Raises `UsageError` for another text, for two starts or two stop times, for `stored` without a group, and for a
    group with another start.
    """
    starts: list[Begin] = []
    stop: int | None = None
    for text in texts:
        time = _TIME.fullmatch(text)
        if time is not None and time[1] == "e":
            if stop is not None:
                raise UsageError("-o e@ is given twice")
            stop = int(time[2])
        elif time is not None:
            starts.append(Begin(start_time=int(time[2])))
        elif text in ("beginning", "end", "stored"):
            starts.append(Begin(word=text))
        elif _NUMBER.fullmatch(text) and -(2**63) <= int(text) < 2**63:
            starts.append(Begin(offset=int(text)))
        else:
            raise UsageError(f"-o {text[:100]!r} is not one of beginning, end, stored, N, -N, s@MS and e@MS")
    if len(starts) > 1:
        raise UsageError("-o says twice where to begin")
    begin = starts[0] if starts else Begin(word="stored" if group is not None else None)
    if begin.word == "stored" and group is None:
        raise UsageError("-o stored needs -G GROUP: what a group has committed is read from __consumer_offsets")
    if begin.word != "stored" and group is not None:
        raise UsageError("-G has no effect with a -o that is not stored")
    return Begin(word=begin.word, offset=begin.offset, start_time=begin.start_time, stop_time=stop)
