"""Find open transactions that begin below the log start offset, as a broker knows them after a start. A start builds
the producer state from the newest producer snapshot above the log start, or from the log start on
(`ProducerStateManager.truncateAndReload`, `UnifiedLog.rebuildProducerState`). It never reads batches below: a
transaction that only those batches show is not open after a start, and consumers do not wait for it.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from kafkalog.codec.common.errors import FormatError, StorageError
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.files.index_files import read_producer_snapshot
from kafkalog.codec.model import ProducerEntry
from kafkalog.codec.names import parse_segment_file
from kafkalog.log.disk.files import FileSource
from kafkalog.log.reading.readable import ReadablePartition
from kafkalog.log.storage.producers.evidence import opened_of

__all__ = ["LoadedSnapshot", "WithSnapshots", "opened_below_start", "snapshot_of_start", "start_of_state"]


class WithSnapshots(ReadablePartition, Protocol):
    """A partition with its producer snapshots."""

    @property
    def snapshots(self) -> tuple[str, ...]:
        """Paths of the producer snapshots, by offset."""


class LoadedSnapshot(NamedTuple):
    """Offset and entries of a producer snapshot."""

    offset: int
    entries: tuple[ProducerEntry, ...]


def start_of_state(partition: ReadablePartition) -> int | None:
    """Return the offset from which batches count for the producer state: the log start offset if there are records
    below it; None if the first segment begins there.
    """
    begins = partition.segments[0].base_offset if partition.segments else 0
    return partition.log_start_offset if partition.log_start_offset > begins else None


def opened_below_start(partition: WithSnapshots, limits: Limits = DEFAULT_LIMITS) -> dict[int, int]:
    """Return the first offsets, by producer id, of transactions that began below the log start and are open according
    to the producer snapshot that a start would use. Empty if there are none, or no snapshot. Raises `StorageError` if
    the log must be read for its end offset and cannot be read.
    """
    loaded = snapshot_of_start(partition, limits)
    start = partition.log_start_offset
    opened = {} if loaded is None else opened_of(loaded.entries)
    return {producer_id: first for producer_id, first in opened.items() if first < start}


def snapshot_of_start(partition: WithSnapshots, limits: Limits = DEFAULT_LIMITS) -> LoadedSnapshot | None:
    """Return the producer snapshot that a broker would load at its start; None if there is none. It is the newest
    readable one whose offset is above the log start offset and not above the log end offset. A damaged or unreadable
    snapshot is skipped, because a broker deletes it. The log is read for its end offset if necessary; raises
    `StorageError` if it cannot be read.
    """
    start = partition.log_start_offset
    last = partition.segments[-1].base_offset if partition.segments else start
    for path in reversed(partition.snapshots):
        parsed = parse_segment_file(path.rpartition("/")[2])
        if parsed is None or parsed.base_offset <= start:
            continue  # a start deletes it, like a snapshot above the log end offset
        if parsed.base_offset > last and parsed.base_offset > partition.log_end_offset(limits=limits):
            continue
        try:
            with FileSource(path) as source:
                entries = tuple(read_producer_snapshot(source, source=path, limits=limits))
                return LoadedSnapshot(parsed.base_offset, entries)
        except (FormatError, StorageError):
            continue  # a start deletes it, and loads an older one
    return None
