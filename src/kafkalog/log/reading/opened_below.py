"""Find open transactions that begin below the log start, as far as a broker knows them after a start. A start builds
the producer state from the newest producer snapshot above the log start, or from the log start on
(`ProducerStateManager.truncateAndReload`, `UnifiedLog.rebuildProducerState`). Batches below are never read for it: a
transaction that only those batches show is not open after a start, and consumers do not wait for it.
"""

from __future__ import annotations

from typing import Protocol

from kafkalog.codec.errors import FormatError, StorageError
from kafkalog.codec.index_files import read_producer_snapshot
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.names import parse_segment_file
from kafkalog.log.disk.files import FileSource
from kafkalog.log.reading.readable import ReadablePartition

__all__ = ["opened_below_start", "start_of_state"]


class _WithSnapshots(ReadablePartition, Protocol):
    @property
    def snapshots(self) -> tuple[str, ...]:
        """Paths of the producer snapshots, by offset."""


def start_of_state(partition: ReadablePartition) -> int | None:
    """Return the offset from which batches count for the producer state; None if no batch is below the log start."""
    begins = partition.segments[0].base_offset if partition.segments else 0
    return partition.log_start_offset if partition.log_start_offset > begins else None


def opened_below_start(partition: _WithSnapshots, limits: Limits = DEFAULT_LIMITS) -> dict[int, int]:
    """Return the first offsets, by producer id, of transactions that began below the log start and are open according
    to the snapshot that a start would use. Empty if there is none.
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
                return {
                    entry.producer_id: entry.current_txn_first_offset
                    for entry in read_producer_snapshot(source, source=path, limits=limits)
                    if 0 <= entry.current_txn_first_offset < start
                }
        except (FormatError, StorageError):
            continue  # a start deletes it, and takes the one before
    return {}
