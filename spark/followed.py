"""Keep the driver's view of a stream's logs: list them at every trigger, and follow what was appended.

Missing data is handled as in `KafkaMicroBatchStream`: with `failOnDataLoss` it fails the stream; otherwise there is a
warning, and the stream continues with what there is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from msgspec import Struct

from kafkalog.codec.common.errors import StorageError, UsageError
from kafkalog.codec.model import AbortedTransaction
from kafkalog.log.directories.follow import Follower, settled
from kafkalog.log.directories.partition import Partition
from kafkalog.log.disk.remote_file import MissingFileError
from kafkalog.log.reading.consumer_view import READ_COMMITTED
from kafkalog.log.reading.transactions import StaysOpen
from kafkalog.log.walk.header_walk import spans_from
from kafkalog.log.walk.segment import index_of
from kafkalog.spark.bounds import LATEST, TopicPartition
from kafkalog.spark.discovery import (
    Range,
    check_named,
    expand_paths,
    key_of,
    partitions_to_read,
    segments_between,
)
from kafkalog.spark.options import ReadOptions
from kafkalog.spark.planning import PartitionFacts, Piece, plan, target_bytes
from kafkalog.spark.query_warnings import LOGGER, tell
from kafkalog.spark.reader import LOSS
from kafkalog.spark.stream_offsets import Offsets
from kafkalog.spark.unreadable_entries import check_left_out, is_wanted

__all__ = ["FollowedLogs", "View", "bytes_between", "end_within"]

_LOOK_EVERY_S = 0.05
"""Spark asks every 10 ms while there is nothing new."""
_REST = 3
_LONGEST_REST_S = 1.0
"""The pause between looks is this multiple of the last one's duration, so that large directories are not listed all the
time.
"""
_TRIES = 5
"""Number of attempts if files disappear between listing and reading."""


class View(Struct, frozen=True, kw_only=True):
    """What is known of a partition at one moment."""

    partition: Partition
    first: int
    """log start offset"""
    end: int
    """end of what may be read: the log end, or with read_committed the last stable offset"""
    log_end: int
    aborted: tuple[AbortedTransaction, ...] | None
    """None: records of aborted transactions are wanted too"""


def name_of(key: TopicPartition) -> str:
    """Return the name of a partition, such as `topic-0`."""
    return f"{key[0]}-{key[1]}"


class FollowedLogs:
    """The partitions that a stream reads, listed again for each `look`. What is already known of a log is kept, so that
    only new batches are read.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._committed = options.isolation_level == READ_COMMITTED
        self._followers: dict[TopicPartition, Follower] = {}
        self._next_look = 0.0
        self._stays_open = StaysOpen()

    def look(self, *, all_there: bool = False, patient: bool = True) -> dict[TopicPartition, View]:
        """List the directories and return the view of each selected partition that has a segment. Sleeps first if the
        last look was a short time ago. If a file vanishes meanwhile, looks again, at most five times in all.

        If an open transaction ends the committed data, that is logged as a warning, once for each transaction. With
        `patient` it is not logged while the log was modified within the last 60 seconds, because a live writer may
        still end the transaction.

        With `all_there`, raises `UsageError` if a topic or partition that the options name does not exist. Raises
        `UsageError` also for a path that does not exist, has no Kafka data or is a segment file. The same holds for a
        partition that is in several directories if the option `replica` does not choose one. Raises `StorageError` if a
        file cannot be read, or with FAILFAST if one was left out of the listing.
        """
        time.sleep(max(0.0, self._next_look - time.monotonic()))
        started = time.monotonic()
        for attempt in range(_TRIES):
            try:
                views = self._look(all_there, patient)
            except MissingFileError:
                if attempt == _TRIES - 1:
                    raise
                continue
            break
        now = time.monotonic()
        self._next_look = now + max(_LOOK_EVERY_S, min(_REST * (now - started), _LONGEST_REST_S))
        return views

    def _look(self, all_there: bool, patient: bool) -> dict[TopicPartition, View]:
        inventory = settled(*expand_paths(self._options.paths))
        check_left_out(inventory, self._options)
        partitions = partitions_to_read(inventory, self._options, all_there=all_there)
        views = {}
        for partition in partitions:
            key = key_of(partition)
            if key is None or not os.path.isdir(partition.path):
                raise UsageError(f"{partition.path} is a segment; a stream follows partition and log directories")
            if not partition.segments:
                continue  # a new directory, without files yet
            follower = self._followers.setdefault(key, Follower(transactions=self._committed))
            followed = follower.look(partition)
            stable, why = followed.last_stable_offset, followed.open_transaction
            news = self._stays_open.news(name_of(key), partition.segments, stable, why, patient=patient)
            if news is not None:
                LOGGER.warning(news)
            end = followed.last_stable_offset if self._committed else followed.end_offset
            aborted = followed.aborted if self._committed else None
            first = partition.log_start_offset
            views[key] = View(
                partition=partition,
                first=first,
                end=max(end, first),
                log_end=max(followed.end_offset, first),
                aborted=aborted,
            )
        for key in self._followers.keys() - views.keys():
            del self._followers[key]
        return views

    def starts(self, views: Mapping[TopicPartition, View]) -> dict[TopicPartition, int]:
        """Return partition -> start offset of a new stream, for all partitions of `views`. It is the offset that
        `Range.start` returns, with two exceptions. For "latest" it is `View.end`, up to which the stream can read now.
        For a timestamp that no record reaches it is `View.end` too, if startingOffsetsByTimestampStrategy is `latest`.
        Raises the errors of `Range.start` (`UsageError`, `FormatError` and `StorageError`), and `UsageError` if a bound
        by partition does not name exactly these partitions.
        """
        bound = self._options.start
        check_named(bound, [view.partition for view in views.values()])
        offsets = {}
        for key, view in views.items():
            by_time = bound.timestamp_of(key) is not None
            start = LATEST if not by_time and bound.offset_of(key) == LATEST else self._first(view)
            offsets[key] = view.end if start == LATEST or (by_time and start >= view.log_end) else start
        return offsets

    def _first(self, view: View) -> int:
        return Range(view.partition, self._options).start()

    @staticmethod
    def ends(views: Mapping[TopicPartition, View], start: Offsets) -> dict[TopicPartition, int]:
        """Return partition -> offset (exclusive) up to which the stream can read, for all partitions of `views`. It is
        the partition's offset in `start` if that is higher, unless the log was truncated below it.
        """
        return {
            key: start[key] if view.end < start.get(key, 0) <= view.log_end else view.end for key, view in views.items()
        }

    def check(self, views: Mapping[TopicPartition, View], start: Offsets) -> None:
        """Report missing data with `lost`: the first report raises `StorageError`, or with failOnDataLoss=false each is
        a warning. `start` has the next offset to read by partition. A partition in it is reported if it has no view any
        more, is no longer selected, or was truncated below this offset. It is reported also if records were deleted
        before they were read. A new partition is reported if it does not begin at offset 0.
        """
        for key, offset in start.items():
            view = views.get(key)
            if view is None and not is_wanted(key, self._options):
                self.lost(
                    f"the checkpoint has {name_of(key)}, read up to offset {offset}, which the query's options no "
                    "longer name; name its topics again, or use another checkpointLocation"
                )
            elif view is None:
                self.lost(f"{name_of(key)}, read up to offset {offset}, no longer exists")
            elif offset > view.log_end:
                self.lost(
                    f"{name_of(key)} was read up to offset {offset} and ends at {view.log_end} now: it was truncated"
                )
            elif offset < view.first:
                self.lost(f"offsets {offset} to {view.first - 1} of {name_of(key)} were deleted before they were read")
        for key, view in views.items():
            if key not in start and view.first > 0:
                self.lost(f"{name_of(key)} is new and begins at offset {view.first} instead of 0")

    def lost(self, sentence: str) -> None:
        """Report lost data with a sentence: raise `StorageError`, or only warn with failOnDataLoss=false."""
        if self._options.fail_on_data_loss:
            raise StorageError(f"{sentence}; {LOSS}")
        tell(sentence)

    def plan(self, start: Offsets, end: Offsets) -> list[tuple[Piece, ...]]:
        """Return one tuple of pieces for each Spark task, for the records from the offsets `start` to `end`
        (exclusive); empty if there are none. Lists the directories again, and repeats this if files vanish meanwhile.
        Raises `MissingFileError` if they vanish each time. Other missing data raises `StorageError`, or is a warning
        with failOnDataLoss=false. Also raises the errors of `look`.
        """
        for attempt in range(_TRIES):
            try:
                return self._plan(start, end)
            except MissingFileError:
                if attempt == _TRIES - 1:
                    raise
        raise AssertionError

    def _plan(self, start: Offsets, end: Offsets) -> list[tuple[Piece, ...]]:
        views = self.look()
        wanted: dict[TopicPartition, tuple[int, int]] = {}
        total = 0
        for key, behind in end.items():
            view = views.get(key)
            first = start.get(key, view.first if view is not None else 0)
            # before Spark 4.2, `latestOffset` does not get the start of a restarted stream and cannot check it
            if behind < start.get(key, behind):
                self.lost(
                    f"{name_of(key)} was read up to offset {start[key]} and ends at {behind} now: it was truncated"
                )
            if behind <= first:
                continue
            if view is None:
                self.lost(f"{name_of(key)}, of which offsets {first} to {behind - 1} are to be read, is not there")
                continue
            if first < view.first:
                self.lost(f"offsets {first} to {view.first - 1} of {name_of(key)} were deleted before they were read")
            if behind > view.end:
                self.lost(
                    f"{name_of(key)} is to be read up to offset {behind} and ends at {view.end} now: it was truncated"
                )
            low, high = max(first, view.first), min(behind, view.end)
            if low < high:
                wanted[key] = low, high
                total += bytes_between(view, low, high)
        target = target_bytes(
            total,
            largest=self._options.max_partition_bytes,
            min_partitions=self._options.min_partitions,
            cores=os.cpu_count() or 1,
        )
        facts = [self._facts(views[key], low, high, target) for key, (low, high) in wanted.items()]
        return plan(facts, target, max_records=self._options.max_records_per_partition)

    def _facts(self, view: View, low: int, high: int, target: int) -> PartitionFacts:
        exact = self._options.max_records_per_partition is not None
        segments = segments_between(view.partition, low, high, target, exact=exact)
        reached = max((span.next_offset for segment in segments for span in segment.spans), default=low)
        followed_by = [segment.base_offset for segment in view.partition.segments if segment.base_offset >= high]
        if reached < high and not followed_by:
            self.lost(
                f"{view.partition.name} is to be read up to offset {high} and ends at {reached} now: it was truncated"
            )
        return PartitionFacts(
            topic=view.partition.topic,
            partition=view.partition.partition,
            segments=segments,
            start_offset=low,
            end_offset=high,
            aborted=view.aborted,
        )


def bytes_between(view: View, low: int, high: int) -> int:
    """Estimate how many log bytes the offsets from `low` to `high` (exclusive) have; 0 if no segment has such offsets.
    Offsets are assumed to be evenly distributed within each segment. Reads no file.
    """
    total = 0
    segments = view.partition.segments
    for number, segment in enumerate(segments):
        upto = segments[number + 1].base_offset if number + 1 < len(segments) else max(view.end, segment.base_offset)
        common = min(high, upto) - max(low, segment.base_offset)
        if common > 0:
            total += segment.size * common // (upto - segment.base_offset)
    return total


def end_within(view: View, start: int, end: int, max_bytes: int) -> int:
    """Return the offset (exclusive, at most `end`) up to which the batches from offset `start` on have at most
    `max_bytes`. The first batch is always included, even if it is larger. Return `end` if all batches fit, or if there
    are none. Reads batch headers. Raises `StorageError` if a file cannot be read.
    """
    left = max_bytes
    reached = start
    segments = [segment for segment in view.partition.segments if segment.base_offset < end]
    for segment in segments[index_of(segments, start) :]:
        for span in spans_from(segment, start):
            if span.next_offset <= start:
                continue
            if reached > start and span.size > left:
                return min(reached, end)
            left -= span.size
            reached = max(reached, span.next_offset)
            if reached >= end:
                return end
    return end
