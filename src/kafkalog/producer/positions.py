"""State of a consumer: the existing partitions, their streams, and the next offset to read in each partition."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.limits import Limits
from kafkalog.codec.names import DirectoryState
from kafkalog.log.directories.follow import Followed, Follower, settled
from kafkalog.log.directories.partition import Partition
from kafkalog.log.reading.consumer_view import READ_COMMITTED, Reset
from kafkalog.log.reading.fetch import OffsetOutOfRangeError
from kafkalog.log.reading.transactions import StaysOpen
from kafkalog.producer.offset_store import TopicPartition
from kafkalog.producer.streams import LOGGER

__all__ = ["Positions"]


class Positions:
    """State shared by the streams of a consumer, protected by the lock `guard`. `chosen` selects topics by name;
    `assign` is called with newly found partitions and assigns them to streams. Both are set by the consumer.
    """

    def __init__(
        self,
        paths: Sequence[str],
        committed: Mapping[TopicPartition, int],
        *,
        reset: Reset | None,
        isolation_level: str,
        follow: bool,
        consumer_timeout_ms: int | None,
        poll_ms: int,
        limits: Limits,
    ) -> None:
        self.guard = threading.RLock()
        self.closed = threading.Event()
        self.isolation_level = isolation_level
        self.follow = follow
        self.consumer_timeout_ms = consumer_timeout_ms
        self.poll_ms = poll_ms
        self.limits = limits
        self.assign: Callable[[Sequence[Partition]], None] = lambda _: None
        self.chosen: Callable[[str], bool] = lambda _: False
        self.offsets: dict[TopicPartition, int] = {}
        """the next offset of each partition"""
        self._paths = paths
        self._committed = committed
        self._reset = reset
        self._there: dict[TopicPartition, Partition] = {}
        self._followers: dict[TopicPartition, Follower] = {}
        self._looked = 0.0
        self._open: dict[TopicPartition, tuple[Partition, int, str]] = {}
        self._stays_open = StaysOpen()

    def refresh(self) -> None:
        """List the directories again, and assign new partitions to streams. Does nothing if half of `poll_ms` has not
        passed since the last time. Raises the errors of `look`.
        """
        with self.guard:
            if time.monotonic() - self._looked < self.poll_ms / 2000:
                return
            self.look()

    def look(self) -> None:
        """List the directories now. New live partitions of selected topics get their first offset and are passed to
        `assign`. Partitions that disappeared keep their offset but are not read.

        Raises `StorageError` if a directory cannot be listed or the end of a new log cannot be read. Raises
        `UsageError` for a path without Kafka data or a partition in several directories. Raises `UsageError` or
        `OffsetOutOfRangeError` if a new partition has no usable committed offset and `reset` is None. If it raises, no
        new partition is kept.
        """
        with self.guard:
            live: dict[TopicPartition, Partition] = {}
            inventory = settled(*self._paths, limits=self.limits)
            for partition in inventory.readable(wants=lambda name: self.chosen(name.topic)):
                name = partition.name
                if name is not None and name.state is DirectoryState.LIVE:
                    live[name.topic, name.partition] = partition
            new = {key: partition for key, partition in live.items() if key not in self.offsets}
            self._there = live
            for key in self._followers.keys() - live.keys():
                del self._followers[key]
            # none of them if one fails: a partition with an offset counts as assigned
            self.offsets.update({key: self._first(key, partition) for key, partition in new.items()})
            self.assign(list(new.values()))
            self._looked = time.monotonic()

    def _first(self, key: TopicPartition, partition: Partition) -> int:
        """Return the first offset to read in a new partition. It is the committed offset if that is between log start
        and log end (both included). If there is none, or it is out of range, it is log start or log end according to
        `reset`; with `read_committed` the last stable offset stands for the log end.

        If `reset` is None, raises `UsageError` for a missing committed offset and `OffsetOutOfRangeError` for one out
        of range. Raises `StorageError` if the end of the log cannot be read.
        """
        committed = self._committed.get(key)
        if committed is None:
            if self._reset is None:
                raise UsageError(f"no offset is committed for {key[0]}-{key[1]}, and no reset says where to begin")
            return self._limit(partition, self._reset)
        start, end = partition.log_start_offset, partition.log_end_offset(limits=self.limits)
        return committed if start <= committed <= end else self._again(partition, committed, end)

    def _limit(self, partition: Partition, reset: Reset) -> int:
        if reset == "earliest" or not partition.segments:
            return partition.log_start_offset
        if self.isolation_level == READ_COMMITTED:
            return partition.last_stable_offset()
        return partition.log_end_offset(limits=self.limits)

    def _again(self, partition: Partition, offset: int, end: int) -> int:
        """Return the offset at which to continue if `offset` is out of range. Raises `OffsetOutOfRangeError` if `reset`
        is None.
        """
        if self._reset is None:
            raise OffsetOutOfRangeError(offset, partition.log_start_offset, end)
        return self._limit(partition, self._reset)

    def to_read(self, key: TopicPartition) -> tuple[Partition, int, int | None] | None:
        """Return the partition and the offsets to read now: the first one, and the one after the last (None: up to the
        end of the log). Return None if the partition disappeared or has no segments, or, with `follow`, if it has no
        new records.

        With `follow`, only bytes added since the last call are examined. The end is the end of the last complete batch,
        or for `read_committed` the last stable offset; an open transaction there is recorded in `open_transactions`. A
        position out of range is first reset, in `offsets` too; if `reset` is None, `OffsetOutOfRangeError` is raised.
        Raises `StorageError` if a file cannot be read.
        """
        with self.guard:
            partition, offset = self._there.get(key), self.offsets[key]
            if partition is None or not partition.segments:
                return None
            if not self.follow:
                return partition, offset, None
            followed = self._followed(key, partition)
            if not partition.log_start_offset <= offset <= followed.end_offset:
                offset = self.offsets[key] = self._again(partition, offset, followed.end_offset)
            committed = self.isolation_level == READ_COMMITTED
            end = followed.last_stable_offset if committed else followed.end_offset
            self.ended(key, partition, end, followed.open_transaction)
            return None if end <= offset else (partition, offset, end)

    def _followed(self, key: TopicPartition, partition: Partition) -> Followed:
        committed = self.isolation_level == READ_COMMITTED
        follower = self._followers.setdefault(key, Follower(transactions=committed, limits=self.limits))
        return follower.look(partition)

    def ended(self, key: TopicPartition, partition: Partition, end: int, open_transaction: str | None) -> None:
        """Record whether committed data of a partition ends at offset `end` because of an open transaction.
        `open_transaction` describes the transaction; None means that there is none.
        """
        with self.guard:
            self._open.pop(key, None)
            if open_transaction is not None:
                self._open[key] = partition, end, open_transaction

    @property
    def open_transactions(self) -> dict[TopicPartition, str]:
        """Partitions whose committed data ends at an open transaction, each with an explanation."""
        with self.guard:
            return {key: why for key, (_, _, why) in self._open.items()}

    def tell_of_open(self, keys: Iterable[TopicPartition], *, patient: bool) -> None:
        """Log a warning for each of `keys`, which are (topic, partition) pairs, if its committed data ends at an open
        transaction. Each transaction is reported once. With `patient`, a log that was written to within the last minute
        is skipped, because its transaction may still end.
        """
        with self.guard:
            for topic, number in [key for key in keys if key in self._open]:
                partition, end, why = self._open[topic, number]
                news = self._stays_open.news(f"{topic}-{number}", partition.segments, end, why, patient=patient)
                if news is not None:
                    LOGGER.warning(news)

    def consumed(self, key: TopicPartition, next_offset: int) -> None:
        """Set the position of a partition."""
        with self.guard:
            self.offsets[key] = next_offset
