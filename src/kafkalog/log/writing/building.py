"""Write whole partition directories from columns of records: segments, indexes and checkpoints, as the writer `Log`
writes them. Each (topic, partition) among the records becomes a directory that a broker can open.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import islice

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from kafkalog.codec.columnar.schema import TYPES
from kafkalog.codec.common.errors import KafkaLogError, UsageError
from kafkalog.codec.encode.columns import DEFAULT_BATCH_BYTES, build_batches, record_columns
from kafkalog.codec.model import Codec
from kafkalog.codec.plain.scanner import scan
from kafkalog.log.directories.partition import open_partition
from kafkalog.log.disk.files import PathLike
from kafkalog.log.writing.choosing_partitions import Partitioner
from kafkalog.log.writing.column_partitions import ColumnPartitions
from kafkalog.log.writing.config import LogConfig
from kafkalog.log.writing.open_logs import OpenLogs
from kafkalog.log.writing.record_places import place_of
from kafkalog.log.writing.writer import Log

__all__ = ["Built", "build_partitions"]

_BATCHES_AT_ONCE = 64
_LARGEST_PARTITION = 2**31 - 1


class Built(Struct, kw_only=True):
    """Result of writing one partition."""

    topic: str
    """topic"""
    partition: int
    """partition number"""
    path: str
    """path of the partition directory"""
    first_offset: int
    """offset of the first record that was written"""
    records: int = 0
    """number of records that were written"""
    batches: int = 0
    """number of batches that were written"""


class _Builder:
    """Writer of columns of records to the open logs, with settings for their batches. `built` has the result of each
    partition.
    """

    def __init__(self, logs: OpenLogs, codec: Codec, batch_bytes: int, keep_offsets: bool, append: bool) -> None:
        self.logs = logs
        self.codec = codec
        self.batch_bytes = batch_bytes
        self.keep_offsets = keep_offsets
        self.append = append
        self.built: dict[tuple[str, int], Built] = {}
        self.topics: set[str] = set()
        """topics of the records so far"""

    def take(self, topic: str, partition: int, records: pa.RecordBatch) -> None:
        """Append records to one partition, as batches of about `batch_bytes`, and add their number to its result in
        `built`. The log is opened or created if necessary. With `keep_offsets` records keep their offsets, and a log
        that ends at offset 0 starts at the offset of the first record.

        Raises `UsageError` for records that cannot be written, and for a partition that existed before if `append` is
        False. Raises `FormatError` for a damaged log, and `StorageError` for I/O errors. Raises `RecoveryRefused` if a
        recovery of the directory has not ended. Batches that were written before an error stay.
        """
        built = self.built.get((topic, partition))
        if built is None:
            built = self._open(topic, partition, records)
        log = self.logs.log(topic, partition)
        batches: Iterator[bytes] = build_batches(
            records,
            base_offset=log.end_offset,
            keep_offsets=self.keep_offsets,
            batch_bytes=self.batch_bytes,
            codec=self.codec,
            partition_leader_epoch=log.leader_epoch,
        )
        while group := list(islice(batches, _BATCHES_AT_ONCE)):
            for data in group:
                log.append(scan(data).batches, keep_offsets=True)
            built.batches += len(group)
        built.records += records.num_rows

    def begin_topic(self, topic: str) -> int:
        """Return the number of partitions of a topic. At the first call for a topic, missing partitions are created,
        and all its partitions are added to `built`. Raises `UsageError` if a partition exists and `append` is False,
        and the errors of `Log.open`: `UsageError`, `FormatError`, `RecoveryRefused` and `StorageError`.
        """
        count = self.logs.count(topic)
        if (topic, 0) not in self.built:
            for number in range(count):
                self._check_new(self.logs.directories.path_of(topic, number))
            self.logs.partitions(topic)
            for number in range(count):
                self.built[topic, number] = self._built(topic, number, self.logs.log(topic, number))
        return count

    def begin_topics(self, topics: set[str]) -> None:
        """Record the topics of the next records. With `append`, check the logs of topics that are new. If one needs
        recovery, `FormatError` or `UsageError` is raised before any of these records are written; `StorageError` if one
        cannot be read.
        """
        if self.append:
            self.logs.refuse_damaged(topics - self.topics)
        self.topics |= topics

    def refuse_existing(self, topic: str, partition: int) -> None:
        """Raise `UsageError` if a partition existed before and `append` is False."""
        if (topic, partition) not in self.built:
            self._check_new(self.logs.directories.path_of(topic, partition))

    def _check_new(self, path: str) -> None:
        if os.path.lexists(path) and not self.append:
            raise UsageError(f"{path} already exists; with append, records are added to it")

    def _built(self, topic: str, partition: int, log: Log) -> Built:
        return Built(topic=topic, partition=partition, path=log.path, first_offset=log.end_offset)

    def _open(self, topic: str, partition: int, records: pa.RecordBatch) -> Built:
        self._check_new(self.logs.directories.path_of(topic, partition))
        log = self.logs.log(topic, partition)
        if self.keep_offsets and log.end_offset == 0 and (first := _column(records, "offset", None)[0].as_py()):
            log.truncate_fully_and_start_at(max(first, 0))
        built = self.built[topic, partition] = self._built(topic, partition, log)
        return built


def build_partitions(
    records: Iterable[pa.RecordBatch],
    path: PathLike | Sequence[PathLike],
    *,
    topic: str | None = None,
    partition: int | None = None,
    num_partitions: int | None = None,
    partitioner: Partitioner = "murmur2",
    config: LogConfig | None = None,
    codec: Codec = Codec.NONE,
    batch_bytes: int = DEFAULT_BATCH_BYTES,
    keep_offsets: bool = False,
    append: bool = False,
    option: str = "num_partitions",
) -> list[Built]:
    """Write partitions of a log directory from batches of columns. Return the result of each partition, in the order of
    first use; for the columns see `encode.columns.build_batches`. Offsets continue from the end of the log, or are kept
    with `keep_offsets`. Existing partitions are refused unless `append` is True.

    `path` may be several directories, all log directories of one broker, or the directory that contains them. Records
    of an existing partition are appended to it in its directory. A new partition is created in the directory with the
    fewest. A single directory that does not exist is created. All directories are locked meanwhile. `topic` and
    `partition` replace the columns of that name, which may then be missing.

    With `num_partitions` each topic has that many partitions; `option` is the name of this parameter in messages. A
    record without a partition number then gets one by its key. `partitioner` is `murmur2`, `hash`, or a function of a
    key's bytes and the number of partitions. Records without a key are distributed in turn. Without `num_partitions`, a
    record without a number goes to partition 0.

    Raises `UsageError` for records or arguments that cannot be written. Raises `FormatError` for a damaged log. Raises
    `RecoveryRefused` if a recovery of a directory has not ended. Raises `StorageError` for I/O errors. Records written
    before the error stay in the logs, and notes of the error name them. If a log of one of the first batch's topics is
    damaged, nothing is written.
    """
    if batch_bytes < 1:
        raise UsageError("batch_bytes must be positive")
    if num_partitions is not None and (partition is not None or keep_offsets):
        raise UsageError(f"{option} spreads records by their keys: do not give a partition or offsets")
    places = ColumnPartitions(partitioner)
    logs = OpenLogs(path, config or LogConfig(), num_partitions, option=option)
    builder = _Builder(logs, codec, batch_bytes, keep_offsets, append)
    try:
        _write(records, logs, builder, topic, partition, num_partitions, places)
    except (KafkaLogError, KeyboardInterrupt) as error:
        for note in _what_stays(builder.built.values()):
            error.add_note(note)
        raise
    return list(builder.built.values())


def _what_stays(built: Iterable[Built]) -> Iterator[str]:
    """Yield a sentence for each partition to which records were added before building failed: they stay there. It has
    the first and the last written offset. Partitions that cannot be read are skipped.
    """
    for result in built:
        with suppress(KafkaLogError):
            end = open_partition(result.path).log_end_offset()
            if end > result.first_offset:
                place = f"{result.topic}-{result.partition}"
                yield f"{place}: what was written before stays, offsets {result.first_offset} to {end - 1}"


def _write(
    records: Iterable[pa.RecordBatch],
    logs: OpenLogs,
    builder: _Builder,
    topic: str | None,
    partition: int | None,
    num_partitions: int | None,
    places: ColumnPartitions,
) -> None:
    taken = 0
    with closing(logs):
        for batch in records:
            if builder.keep_offsets and "offset" not in batch.schema.names:
                raise UsageError("there is no column offset to keep")
            if batch.num_rows == 0:
                continue
            topics = _column(batch, "topic", topic)
            if topics.null_count:
                row = topics.is_null().to_pylist().index(True)
                raise UsageError(f"{place_of(batch, row, taken)}: a record has no topic; name one for all")
            numbers = _column(batch, "partition", partition)
            builder.begin_topics(set(pc.unique(topics).to_pylist()))
            if num_partitions is None:
                numbers = pc.fill_null(numbers, 0)
                _check(batch, topics, numbers.to_numpy(), None, taken)
            else:
                numbers = _by_key(batch, topics, numbers, places, builder, taken)
            parts = list(_by_partition(batch, topics, numbers))
            for place, _part in parts:
                builder.refuse_existing(*place)
            for place, part in parts:
                builder.take(*place, part)
            taken += batch.num_rows


def _by_key(
    records: pa.RecordBatch,
    topics: pa.Array,
    given: pa.Array,
    places: ColumnPartitions,
    builder: _Builder,
    taken: int,
) -> pa.Array:
    """Return the partition number of each record. It is the record's number in `given`, if that is not null. Otherwise
    it depends on the key; records without a key get the partitions in turn. Each record without a key advances the
    turn of `places`, even if it has a number in `given`. Missing partitions of the topics are created. `taken` is the
    number of records before this batch, for messages.

    Raises `UsageError` for a number that is not a partition of the topic, or for a partition that existed before if
    `append` is False; also the errors of `Log.open`: `UsageError`, `FormatError`, `RecoveryRefused` and `StorageError`.
    """
    encoded = topics.dictionary_encode()
    partitions_of_topic = np.array([builder.begin_topic(topic) for topic in encoded.dictionary.to_pylist()], np.int64)
    counts = partitions_of_topic[encoded.indices.to_numpy()]
    keys = (
        record_columns(records).column("key") if "key" in records.schema.names else pa.nulls(len(topics), pa.binary())
    )
    numbers = places.numbers(keys, counts, given)
    _check(records, topics, numbers, counts, taken)
    return pa.array(numbers, TYPES["partition"])


def _check(
    records: pa.RecordBatch,
    topics: pa.Array,
    numbers: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64] | None,
    taken: int,
) -> None:
    """Raise `UsageError`, with the place of the record, for the first record whose partition number is negative or not
    below the number of partitions. `counts` has the number of partitions for each record; None: any number that is not
    negative is valid. `topics` and `taken`, the number of records before this batch, are for the message.
    """
    wrong = numbers < 0
    if counts is not None:
        wrong |= numbers >= counts
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        most = _LARGEST_PARTITION if counts is None else counts[row] - 1
        place = place_of(records, row, taken)
        raise UsageError(f"{place}: partition {numbers[row]} of {topics[row]} is not between 0 and {most}")


def _by_partition(
    records: pa.RecordBatch, topics: pa.Array, partitions: pa.Array
) -> Iterator[tuple[tuple[str, int], pa.RecordBatch]]:
    """Yield (topic, partition) and the records of each partition, which keep their order; partitions come in the order
    in which they first appear. `topics` and `partitions` belong to the rows of `records`, which must not be empty.
    """
    places = pa.StructArray.from_arrays([topics, partitions], ["topic", "partition"])
    first, last = places[0], places[-1]
    if first == last and pc.count_distinct(topics).as_py() == pc.count_distinct(partitions).as_py() == 1:
        yield (first["topic"].as_py(), first["partition"].as_py()), records
        return
    seen = dict.fromkeys((place["topic"], place["partition"]) for place in places.to_pylist())
    for name, number in seen:
        mask = pc.and_(pc.equal(topics, name), pc.equal(partitions, number))
        yield (name, number), records.filter(mask)


def _column(records: pa.RecordBatch, name: str, given: object) -> pa.Array:
    if given is not None or name not in records.schema.names:
        return pa.repeat(pa.scalar(given, TYPES[name]), records.num_rows)
    try:
        return records[name].cast(TYPES[name])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise UsageError(f"column {name} is {records[name].type}, not {TYPES[name]}") from None
