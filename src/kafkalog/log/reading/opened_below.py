"""Find open transactions that begin below the log start, as far as a broker knows them after a start. A start builds
the producer state from the newest producer snapshot above the log start, or from the log start on
(`ProducerStateManager.truncateAndReload`, `UnifiedLog.rebuildProducerState`). Batches below are never read for it: a
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
    """Producers at an offset, from a producer snapshot."""

    offset: int
    entries: tuple[ProducerEntry, ...]


def start_of_state(partition: ReadablePartition) -> int | None:
    """Return the offset from which batches count for the producer state; None if no batch is below the log start."""
    begins = partition.segments[0].base_offset if partition.segments else 0
    return partition.log_start_offset if partition.log_start_offset > begins else None


def opened_below_start(partition: WithSnapshots, limits: Limits = DEFAULT_LIMITS) -> dict[int, int]:
    """Return the first offsets, by producer id, of transactions that began below the log start and are open according
    to the snapshot that a start would use. Empty if there is none.
    """
    loaded = snapshot_of_start(partition, limits)
    start = partition.log_start_offset
    opened = {} if loaded is None else opened_of(loaded.entries)
    return {producer_id: first for producer_id, first in opened.items() if first < start}


def snapshot_of_start(partition: WithSnapshots, limits: Limits = DEFAULT_LIMITS) -> LoadedSnapshot | None:
    """Return the producer snapshot that a broker would load at its start: the newest one above the log start offset,
    and not above the log end offset, that can be read. One that is damaged or unreadable is skipped, as a broker
    deletes it. None if there is none. Raises `StorageError` if the log must be read for its end offset and cannot be.
    """
    start = partition.log_start_offset
    last = partition.segments[-1].base_offset if partition.segments else start
    for path in reversed(partition.snapshots):
        parsed = parse_segment_file(path.rpartition("/")[2])
        if parsed is None or parsed.base_offset <= start:
            continue  # a start deletes it, as it does one above the log's end
        if parsed.base_offset > last and parsed.base_offset > partition.log_end_offset(limits=limits):
            continue
        try:
            with FileSource(path) as source:
                entries = tuple(read_producer_snapshot(source, source=path, limits=limits))
                return LoadedSnapshot(parsed.base_offset, entries)
        except (FormatError, StorageError):
            continue  # a start deletes it, and takes the one before
    return None
