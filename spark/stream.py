"""Read a stream: decide on the driver how far each trigger reads, and read like the batch reader.

The decisions follow `KafkaMicroBatchStream`, except that the log end must be found in the files. Spark keeps one reader
in a process of its own for the life of a query, and copies of it in the tasks.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from kafkalog.codec.common.errors import UsageError
from kafkalog.spark.bounds import LATEST, TopicPartition
from kafkalog.spark.followed import FollowedLogs, View, bytes_between, end_within
from kafkalog.spark.reader import LogInputPartition, LogReader
from kafkalog.spark.schema import Layout
from kafkalog.spark.stream_offsets import from_json, shared_out, to_json
from kafkalog.spark.stream_options import StreamOptions

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # before Spark 4.2 a Python source gets no limits
    _LIMITS = False

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """An empty base class, since this version of Spark has no such class."""
else:
    _LIMITS = True

__all__ = ["LogStreamReader"]


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of a stream. Its offsets are JSON values like `{"topic": {"0": 23}}`, as in checkpoints of Spark's
    Kafka source: for each partition, the offset of the next record to read.
    """

    def __init__(self, options: StreamOptions, layout: Layout) -> None:
        limited = (options.max_offsets, options.min_offsets, options.max_bytes) != (None, None, None)
        if limited and not _LIMITS:
            raise UsageError(
                "maxOffsetsPerTrigger, minOffsetsPerTrigger and maxBytesPerTrigger need Spark 4.2 or later: "
                "older versions ask a Python source for everything"
            )
        self._options = options
        self._layout = layout
        self._logs = FollowedLogs(options.read)
        self._initial: dict[str, dict[str, int]] | None = None
        self._begins_at_the_end = False
        self._target: dict[TopicPartition, int] | None = None
        self._available: dict[TopicPartition, int] | None = None
        self._until: dict[str, dict[str, int]] | None = None
        self._triggered = 0.0

    # -- offsets -----------------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, dict[str, int]]:  # noqa: N802 - Spark's name
        """Return the start offsets of a new query, like `{"topic": {"0": 23}}`. They are determined by the first call
        and then kept. A query with a checkpoint ignores them and continues from the checkpoint. Raises `UsageError` if
        the options do not fit the partitions or a path does not exist, `StorageError` if a file cannot be read. With
        FAILFAST, raises `StorageError` also for a link or other entry in place of data, and `FormatError` if damage may
        hide the start timestamp.
        """
        if self._initial is None:
            views = self._logs.look(all_there=True)
            self._initial = to_json(self._logs.starts(views))
            start = self._options.read.start
            at_the_end = start.offset == LATEST or any(offset == LATEST for _, offset in start.offsets or ())
            self._begins_at_the_end = at_the_end or self._options.read.latest_if_no_start
        return self._initial

    def latestOffset(self, start: Any = None, limit: ReadLimit | None = None) -> dict[str, dict[str, int]]:  # noqa: N802
        """Return the offsets (exclusive) at which the next batch ends. They are equal to `start` if there is nothing
        new. If `start` is None, the batch starts at the result of the last call.

        If `limit` is None or `ReadAllAvailable`, everything new is included. With any other `limit`, the options
        maxOffsetsPerTrigger and maxBytesPerTrigger apply; the number in `limit` is ignored. After the first batch,
        minOffsetsPerTrigger applies too: the result is equal to `start` while there are fewer new offsets and the
        maximum delay has not passed.

        If a query begins at the latest offset, its first batch is empty, so that Spark stores its start. With the
        trigger AvailableNow the batch has nothing beyond the ends that the logs had when the query began. An offset of
        `start` beyond these ends is kept. minOffsetsPerTrigger has no effect with this trigger.

        Lists the directories again. Data from `start` on that no longer exists raises `StorageError`, or is a warning
        with failOnDataLoss=false. Raises `UsageError` if `start` is not of a kafkalog stream or a path no longer
        exists, and otherwise as `initialOffset`.
        """
        if self._begins_at_the_end and start in (None, self._initial):
            # An empty first batch: Spark stores only where a batch ends, and a restart would find a later log end.
            self._begins_at_the_end = False
            self._triggered = time.monotonic()
            self._until = self.initialOffset()
            return self._until
        start = self._until if start is None else start  # Spark passes it since 4.2
        begun = from_json(start) if start is not None else {}
        views = self._logs.look()
        if start is not None:
            self._logs.check(views, begun)
        until = self._available = self._logs.ends(views, begun)
        if self._target is not None:
            # no data that was written after the query began, and no offset before those that a batch has read
            until = {
                key: max(min(end, self._target.get(key, 0)), min(begun.get(key, 0), end))
                for key, end in until.items()
                if key in self._target or key in begun
            }
        if limit is not None and not isinstance(limit, ReadAllAvailable):
            until = self._limited(views, begun, until)
        self._until = to_json(until)
        return self._until

    def _limited(
        self, views: dict[TopicPartition, View], begun: dict[TopicPartition, int], until: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        starts = {key: max(begun.get(key, views[key].first), views[key].first) for key in until}
        sizes = {key: max(0, end - starts[key]) for key, end in until.items()}
        options = self._options
        now = time.monotonic()
        waited_ms = (now - self._triggered) * 1000
        too_little = sum(sizes.values()) < (options.min_offsets or 0) and waited_ms < options.max_delay_ms
        if too_little and self._triggered and self._target is None:
            return begun
        self._triggered = now
        if options.max_offsets is not None:
            shares = shared_out(options.max_offsets, sizes)
            until = {key: starts[key] + shares[key] if sizes[key] else end for key, end in until.items()}
        if options.max_bytes is not None:
            new = {key: (starts[key], end) for key, end in until.items() if end > starts[key]}
            shares = shared_out(options.max_bytes, {key: bytes_between(views[key], *new[key]) for key in new})
            for key, (low, high) in new.items():
                until[key] = end_within(views[key], low, high, shares[key])
        return until

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the limit that Spark passes to `latestOffset`. The first of the options maxOffsetsPerTrigger,
        maxBytesPerTrigger and minOffsetsPerTrigger that is set decides it; there is no limit if none is set. Triggers
        such as AvailableNow may ignore it.
        """
        options = self._options
        if options.max_offsets is not None:
            return ReadMaxRows(options.max_offsets)
        if options.max_bytes is not None:
            return ReadMaxBytes(options.max_bytes)
        if options.min_offsets is not None:
            return ReadMinRows(options.min_offsets)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, dict[str, int]] | None:  # noqa: N802 - Spark's name
        """Return the ends of the logs that the last call of `latestOffset` found, regardless of limits, for the
        progress that the query reports. None until a call has looked for them.
        """
        return None if self._available is None else to_json(self._available)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Look for the ends of the logs now; the query reads up to them and then stops. Raises `UsageError` for a path
        that does not exist, `StorageError` if a file cannot be read.
        """
        self._target = {key: view.end for key, view in self._logs.look(patient=False).items()}

    # -- records -----------------------------------------------------------------------------------------------------

    def partitions(self, start: Any, end: Any) -> list[LogInputPartition]:
        """Return one Spark input partition for each task of a batch from the offsets `start` to `end` (exclusive);
        empty if there is nothing to read. Raises `UsageError` for offsets that are not of a kafkalog stream. Raises
        `StorageError` if data is missing or a file cannot be read (missing data is a warning with
        failOnDataLoss=false).
        """
        tasks = self._logs.plan(from_json(start), from_json(end))
        work_bytes = sum(piece.slice.size for task in tasks for piece in task)
        return [LogInputPartition(task, work_bytes) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the Arrow batches of one task, as `LogReader.read` does."""
        return LogReader(self._options.read, self._layout).read(partition)
