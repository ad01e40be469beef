"""Write the rows of one task: assign them to partitions, and write batches to the attempt's file."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.limits import MIB
from kafkalog.log.writing.broker_directories import counts_in
from kafkalog.log.writing.column_partitions import ColumnPartitions, Numbers
from kafkalog.log.writing.partition_counts import PartitionCounts
from kafkalog.log.writing.topics import check_topic, partition_name
from kafkalog.spark.batch_building import BatchSettings, build_batches
from kafkalog.spark.query_warnings import tell
from kafkalog.spark.sink_schema import check_schema, rows_of
from kafkalog.spark.staging import Staged, StagingFile, TopicPartition, work_directory
from kafkalog.spark.worker_memory import set_aside
from kafkalog.spark.write_options import WriteOptions, parse_write_options

__all__ = ["Prepared", "write_task"]

_HELD_BYTES = 64 * MIB
"""Size of rows held by a task before batches are built."""
_BATCHES_AT_ONCE = 64
_MOST_PARTITIONS = 10_000
"""Without numPartitions, a larger number is considered a mistake, such as a column with other contents."""


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class Prepared:
    """What driver and tasks need for a write: checked options, and the numbers of partitions.

    Creating it warns about options without an effect. Raises `UsageError` for wrong options or columns and if the path
    is not a log directory, `StorageError` if it cannot be read. With `overwrite`, existing partitions do not count.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        self.options = parse_write_options(options)
        check_schema(schema, self.options.topic)
        if os.path.lexists(self.options.path) and not os.path.isdir(self.options.path):
            raise UsageError(f"{self.options.path} is not a directory")
        if self.options.ignored:
            tell(f"options without an effect here are ignored: {', '.join(self.options.ignored)}", UserWarning)
        there = {} if overwrite else counts_in(self.options.path)
        self.counts = PartitionCounts(there, self.options.num_partitions, "option numPartitions")
        self.job = uuid.uuid4().hex


class _Task:
    """The rows of a task that are not written yet, by partition, and the file into which their batches go."""

    def __init__(self, prepared: Prepared, task: int, file: StagingFile) -> None:
        self._prepared = prepared
        self._options: WriteOptions = prepared.options
        self._settings = BatchSettings(self._options.codec, self._options.level, self._options.batch_bytes)
        self._file = file
        self._held: dict[TopicPartition, list[pa.RecordBatch]] = {}
        self._sizes: dict[TopicPartition, int] = {}
        self._total = 0
        self._seen = 0
        """size of all rows so far, which decides whether to load compiled code"""
        self._partitions = ColumnPartitions(self._options.partitioner, first_turn=task)

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows from Spark: assign them to partitions and keep them. When a partition has enough rows for some
        batches, or all together have `_HELD_BYTES`, batches are written to the attempt's file. Missing timestamps
        become the current time.

        Raises `UsageError` for rows that cannot be written, such as a wrong partition number, and if the job is over;
        `StorageError` if the file cannot be written.
        """
        if not batch.num_rows:
            return
        rows = rows_of(batch, _now_ms())
        for owner, chosen in self._by_partition(batch, rows.column("key")):
            part = rows if len(chosen) == rows.num_rows else rows.take(pa.array(chosen))
            size = part.nbytes if len(chosen) == rows.num_rows else part.get_total_buffer_size()
            self._held.setdefault(owner, []).append(part)
            self._sizes[owner] = self._sizes.get(owner, 0) + size
            self._total += size
            self._seen += size
            if self._sizes[owner] >= _BATCHES_AT_ONCE * self._options.batch_bytes:
                self._flush(owner)
        if self._total >= _HELD_BYTES:
            self.finish()

    def finish(self) -> None:
        """Write batches of all rows that are held to the attempt's file. Raises `UsageError` if a batch is too large,
        `StorageError` if the file cannot be written.
        """
        for owner in list(self._held):
            self._flush(owner)

    def _flush(self, owner: TopicPartition) -> None:
        held = self._held.pop(owner)
        self._total -= self._sizes.pop(owner)
        largest = min(self._options.config.max_message_bytes, self._options.config.segment_bytes)
        for rows in held if len(held) == 1 else pa.Table.from_batches(held).combine_chunks().to_batches():
            for batch in build_batches(rows, self._settings, work_bytes=self._seen):
                if len(batch.data) > largest:
                    raise UsageError(
                        f"a batch of {len(batch.data)} bytes for {owner[0]}-{owner[1]}: max.message.bytes is "
                        f"{self._options.config.max_message_bytes}, segment.bytes {self._options.config.segment_bytes}"
                    )
                self._file.append(owner, batch)

    def _by_partition(self, batch: pa.RecordBatch, keys: pa.Array) -> Iterator[tuple[TopicPartition, Numbers]]:
        names = set(batch.schema.names)
        if self._options.topic is not None:
            topics, codes = [self._options.topic], np.zeros(batch.num_rows, np.int64)
        else:
            column = batch.column("topic")
            if column.null_count:
                raise UsageError(
                    "null topic present in the data: use the option topic for all rows, or fill the column"
                )
            encoded = column.cast(pa.string()).dictionary_encode()
            topics, codes = encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64)
        counts = np.array([self._prepared.counts[topic] for topic in topics], np.int64)[codes]
        numbers = self._numbers(batch.column("partition") if "partition" in names else None, keys, counts)
        places = codes << 32 | numbers
        order = np.argsort(places, kind="stable")
        cuts = np.flatnonzero(np.diff(places[order])) + 1
        for chosen in np.split(order, cuts):
            place = int(places[chosen[0]])
            owner = topics[place >> 32], place & 0xFFFFFFFF
            if owner not in self._held and owner not in self._file.extents:
                _check_name(owner)
            yield owner, chosen

    def _numbers(self, column: pa.Array | None, keys: pa.Array, counts: Numbers) -> Numbers:
        """Return the partition number of each row, in order. It is the value of the column `partition` if there is one.
        If that is null or missing, the partitioner computes the number from the key; rows without a key are spread over
        the partitions. Raises `UsageError` if a number is negative or not less than numPartitions. Without this option,
        the limit is a default maximum, or the largest number of partitions in `counts` if that is higher.
        """
        numbers = self._partitions.numbers(keys, counts, column)
        most = self._options.num_partitions or max(_MOST_PARTITIONS, int(counts.max()))
        wrong = (numbers < 0) | (numbers >= most)
        if wrong.any():
            hint = "" if self._options.num_partitions else "; the option numPartitions allows more"
            raise UsageError(f"partition {numbers[wrong][0]} is not between 0 and {most - 1}{hint}")
        return numbers


def _check_name(owner: TopicPartition) -> None:
    check_topic(owner[0])
    partition_name(f"{owner[0]}-{owner[1]}")


def write_task(prepared: Prepared, batches: Iterator[pa.RecordBatch], job: str, task: int, attempt: str) -> Staged:
    """Run one attempt of a task: write the rows in `batches` to one staged file of the job. Return its name and the
    extents of each partition (position, size and number of records per batch). No file is created if there are no rows.
    The file is durable when this returns; the log directory does not change. Raises `UsageError` for rows that cannot
    be written or if the job is over, `StorageError` for I/O errors.
    """
    file = StagingFile(work_directory(prepared.options.path), job, f"{task}-{attempt}.batches")
    done = False
    try:
        rows = _Task(prepared, task, file)
        for batch in batches:
            rows.add(batch)
        rows.finish()
        done = True
    finally:
        file.close(durable=done)
    set_aside()
    return Staged(task, job, os.path.basename(file.path), file.extents)
