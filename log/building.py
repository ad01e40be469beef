"""Whole partition directories from columns of records: segments, indexes and checkpoints, as the writer leaves them.

Each (topic, partition) among the records becomes a directory that a broker opens.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from kafkalog.codec.arguments import checked
from kafkalog.codec.columnar.schema import TYPES
from kafkalog.codec.encode.columns import DEFAULT_BATCH_BYTES, build_batches
from kafkalog.codec.errors import UsageError
from kafkalog.codec.model import Codec
from kafkalog.codec.names import DirectoryState, PartitionName
from kafkalog.codec.scan import scan
from kafkalog.log import fs
from kafkalog.log.config import LogConfig
from kafkalog.log.directory import refuse_inside
from kafkalog.log.files import PathLike
from kafkalog.log.writer import Log

__all__ = ["Built", "build_partitions"]

_BATCHES_AT_ONCE = 64
_MOST_OPEN = 500


@dataclass(slots=True)
class Built:
    """One partition that was written."""

    topic: str
    partition: int
    path: str
    first_offset: int
    records: int = 0
    batches: int = 0

    def as_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {
            "topic": self.topic, "partition": self.partition, "path": self.path, "firstOffset": self.first_offset,
            "records": self.records, "batches": self.batches,
        }  # fmt: skip


@dataclass(slots=True)
class _Target:
    log: Log
    built: Built


class _Builder:
    """The logs that are open, and how batches are made."""

    def __init__(
        self, root: str, config: LogConfig, codec: Codec, batch_bytes: int, keep_offsets: bool, append: bool
    ) -> None:
        self.root = root
        self.config = config
        self.codec = codec
        self.batch_bytes = batch_bytes
        self.keep_offsets = keep_offsets
        self.append = append
        self.targets: dict[tuple[str, int], _Target] = {}

    def take(self, stack: ExitStack, topic: str, partition: int, records: pa.RecordBatch) -> None:
        """Append records of one partition."""
        target = self.targets.get((topic, partition))
        if target is None:
            target = self.targets[topic, partition] = self._open(stack, topic, partition, records)
        log = target.log
        batches: Iterator[bytes] = build_batches(
            records,
            base_offset=log.end_offset,
            keep_offsets=self.keep_offsets,
            batch_bytes=self.batch_bytes,
            codec=self.codec,
            partition_leader_epoch=log.leader_epoch,
        )
        while some := list(islice(batches, _BATCHES_AT_ONCE)):
            for data in some:
                log.append(scan(data).batches, keep_offsets=True)
            target.built.batches += len(some)
        target.built.records += records.num_rows

    def _open(self, stack: ExitStack, topic: str, partition: int, records: pa.RecordBatch) -> _Target:
        if len(self.targets) >= _MOST_OPEN:
            raise UsageError(f"more than {_MOST_OPEN} partitions at once; build some topics after the others")
        name = PartitionName(topic, partition, DirectoryState.LIVE)
        path = os.path.join(self.root, str(name))
        if os.path.lexists(path) and not self.append:
            raise UsageError(f"{path} exists already; with append records go after what it holds")
        log = stack.enter_context(Log.open(path, self.config))
        if self.keep_offsets and log.end_offset == 0 and records["offset"][0].as_py():
            log.truncate_fully_and_start_at(max(records["offset"][0].as_py(), 0))
        return _Target(log, Built(topic, partition, path, log.end_offset))


@checked
def build_partitions(
    records: Iterable[pa.RecordBatch],
    root: PathLike,
    *,
    topic: str | None = None,
    partition: int | None = None,
    config: LogConfig | None = None,
    codec: Codec = Codec.NONE,
    batch_bytes: int = DEFAULT_BATCH_BYTES,
    keep_offsets: bool = False,
    append: bool = False,
) -> list[Built]:
    """Write the partitions of a log directory from columns; see `encode.columns.build_batches` for those.

    `topic` and `partition` stand for the columns of that name, or for all records where there are none; without
    either it is partition 0.  Offsets count from 0 or the end of the log, or are kept.  Raises `UsageError` for what
    cannot be written, and then leaves what was written before.
    """
    if batch_bytes < 1:
        raise UsageError("batch_bytes must be positive")
    if not os.path.isdir(root):
        refuse_inside(os.path.dirname(os.path.abspath(root)), root)
        fs.make_directory(os.path.abspath(root))
    builder = _Builder(os.fspath(root), config or LogConfig(), codec, batch_bytes, keep_offsets, append)
    with ExitStack() as stack:
        for batch in records:
            if keep_offsets and "offset" not in batch.schema.names:
                raise UsageError("there is no column offset to keep")
            for place, part in _by_partition(batch, topic, partition):
                builder.take(stack, *place, part)
    return [target.built for target in builder.targets.values()]


def _by_partition(
    records: pa.RecordBatch, topic: str | None, partition: int | None
) -> Iterator[tuple[tuple[str, int], pa.RecordBatch]]:
    """The records of each partition, in the order in which partitions appear."""
    if records.num_rows == 0:
        return
    topics, partitions = _column(records, "topic", topic), _column(records, "partition", partition)
    if topics.null_count:
        raise UsageError("a record has no topic; name one for all")
    partitions = pc.fill_null(partitions, 0)
    places = pa.StructArray.from_arrays([topics, partitions], ["topic", "partition"])
    first, last = places[0], places[-1]
    if first == last and pc.count_distinct(topics).as_py() == pc.count_distinct(partitions).as_py() == 1:
        yield (first["topic"].as_py(), first["partition"].as_py()), records
        return
    seen = dict.fromkeys((each["topic"], each["partition"]) for each in places.to_pylist())
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
