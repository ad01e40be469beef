"""Keep the state of the producers of a partition (`ProducerStateManager`): sequence numbers of idempotent producers,
open transactions, and the snapshots that save a scan at the next start.
"""

from __future__ import annotations

from heapq import heappop, heappush

from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.files.index_files import (
    ABORTED_TRANSACTION_VERSION,
    encode_producer_snapshot,
    read_producer_snapshot,
)
from kafkalog.codec.model import AbortedTransaction, ProducerEntry
from kafkalog.log.storage.disk import Disk
from kafkalog.log.storage.indexes import TransactionIndex
from kafkalog.log.storage.java import IllegalArgumentError, JavaHashMap, int64
from kafkalog.log.storage.producers.snapshots import Snapshots
from kafkalog.log.storage.producers.state import (
    AppendOrigin,
    CompletedTransaction,
    ProducerAppendInfo,
    ProducerStateEntry,
)

__all__ = ["ProducerStateManager"]


class InOrder:
    """Map from offset to a number (producer id or end offset), with fast access to the smallest offset, like Java's
    `TreeMap`.
    """

    def __init__(self) -> None:
        self._values: dict[int, int] = {}
        self._offsets: list[int] = []
        """heap of offsets; a removed offset stays in it until it is the smallest"""

    def __contains__(self, offset: int) -> bool:
        return offset in self._values

    def __setitem__(self, offset: int, value: int) -> None:
        if offset not in self._values:
            heappush(self._offsets, offset)
        self._values[offset] = value

    def __delitem__(self, offset: int) -> None:
        del self._values[offset]

    def __bool__(self) -> bool:
        return bool(self._values)

    def clear(self) -> None:
        """Remove all entries."""
        self._values.clear()
        self._offsets.clear()

    @property
    def first(self) -> int | None:
        """Smallest offset; None if there is none."""
        while self._offsets and self._offsets[0] not in self._values:
            heappop(self._offsets)
        return self._offsets[0] if self._offsets else None

    def first_of_other(self, value: int) -> int | None:
        """Return the smallest offset whose number is not `value`; None if there is none. The map is not changed."""
        passed = []
        while (first := self.first) is not None and self._values[first] == value:
            passed.append(heappop(self._offsets))
        for offset in passed:
            heappush(self._offsets, offset)
        return first

    def keep_from(self, least: int) -> None:
        """Remove the entries whose number is below `least`."""
        if any(value < least for value in self._values.values()):
            self._values = {offset: value for offset, value in self._values.items() if value >= least}
            self._offsets = sorted(self._values)


class ProducerStateManager:
    """State of all producers of a partition, and its snapshot files. `snapshots` is the list of these files if the
    caller has one; None: they are listed here. Methods that list, read, write or delete snapshot files raise
    `StorageError` if that fails.
    """

    def __init__(
        self, disk: Disk, directory: str, now_ms: int, expiration_ms: int, snapshots: Snapshots | None = None
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._now_ms = now_ms
        self._expiration_ms = expiration_ms
        self.producers: JavaHashMap[ProducerStateEntry] = JavaHashMap()
        self._ongoing = InOrder()
        self._unreplicated = InOrder()
        self._map_end = 0
        self._snapshot_end = 0
        self.snapshots = Snapshots(disk, directory) if snapshots is None else snapshots

    @property
    def map_end_offset(self) -> int:
        """Offset up to which the state was built (exclusive)."""
        return self._map_end

    @property
    def is_empty(self) -> bool:
        """Whether there are neither producers nor completed transactions that are not yet replicated."""
        return len(self.producers) == 0 and not self._unreplicated

    @property
    def has_snapshots(self) -> bool:
        """Whether there is a snapshot file."""
        return len(self.snapshots) > 0

    def set_map_end(self, offset: int) -> None:
        """Set the offset up to which the state was built."""
        self._map_end = offset

    def first_unstable_offset(self) -> int | None:
        """Return the first offset of the earliest transaction that is open or not yet replicated; None if there is
        none.
        """
        first, unreplicated = self._ongoing.first, self._unreplicated.first
        return unreplicated if first is None or (unreplicated is not None and unreplicated < first) else first

    def first_undecided_offset(self) -> int | None:
        """Return the first offset of the earliest open transaction; None if none is open."""
        return self._ongoing.first

    def last_entry(self, producer_id: int) -> ProducerStateEntry | None:
        """Return the state of a producer; None if it is unknown."""
        return self.producers.get(producer_id)

    def prepare(self, producer_id: int, origin: AppendOrigin = AppendOrigin.REPLICATION) -> ProducerAppendInfo:
        """Return an object that collects the changes by the next batches of a producer. The state is not changed until
        `update`.
        """
        return ProducerAppendInfo(
            self.producers.get(producer_id) or ProducerStateEntry(producer_id=producer_id), origin
        )

    def update(self, append: ProducerAppendInfo) -> None:
        """Apply the changes that an append collected to the state of its producer. An unknown producer is added. Record
        the transactions that the append began. `append` must not be used afterwards.
        """
        current = self.producers.get(append.state.producer_id)
        if current is None:
            self.producers.put(append.state.producer_id, append.state)
        else:
            current.update(append.state)
        for first_offset in append.started:
            self.begin(first_offset, append.state.producer_id)

    def begin(self, first_offset: int, producer_id: int) -> None:
        """Record an open transaction by its first offset. A second producer with the same first offset replaces the
        first.
        """
        self._ongoing[first_offset] = producer_id

    def last_stable_offset(self, completed: CompletedTransaction) -> int:
        """Return the last stable offset for the index entry of a completed transaction: the first offset of the
        earliest open transaction of another producer, or the offset after the marker if none is open.
        """
        first = self._ongoing.first_of_other(completed.producer_id)
        return completed.last_offset + 1 if first is None else first

    def complete(self, completed: CompletedTransaction) -> None:
        """Record that a transaction ended and waits for the replication of its marker. Raises `IllegalArgumentError` if
        it is not open.
        """
        if completed.first_offset not in self._ongoing:
            raise IllegalArgumentError("Attempted to complete a transaction which was not started")
        del self._ongoing[completed.first_offset]
        self._unreplicated[completed.first_offset] = completed.last_offset

    def finish(self, completed: CompletedTransaction, index: TransactionIndex | None = None) -> None:
        """Record that a transaction was completed: it is no longer open. If it was aborted and `index` is not None,
        first append it to that transaction index, which must belong to the segment with the marker.

        Raises `IllegalArgumentError` if the marker is not above the last one appended through `index`, or if the
        transaction is not open. In the second case the index keeps the appended entry.
        """
        if index is not None and completed.is_aborted:
            stable = self.last_stable_offset(completed)
            first, last = completed.first_offset, completed.last_offset
            index.append(AbortedTransaction(ABORTED_TRANSACTION_VERSION, completed.producer_id, first, last, stable))
        self.complete(completed)

    def on_high_watermark_updated(self, high_watermark: int) -> None:
        """Forget completed transactions whose marker is below the high watermark: they are replicated."""
        self._unreplicated.keep_from(high_watermark)

    def truncate_and_reload(self, log_start_offset: int, log_end_offset: int) -> None:
        """Delete the snapshot files at or below `log_start_offset` and those above `log_end_offset`. If the state
        already ends at `log_end_offset`, its producers are kept, and completed transactions with a marker below
        `log_start_offset` are forgotten; if `log_start_offset` is higher, the end of the state moves up to it.

        Otherwise the state is replaced by the newest readable snapshot, without expired producers; damaged snapshots
        that are newer are deleted. If there is no readable snapshot, the state becomes empty and ends at
        `log_start_offset`.
        """
        for offset in self.snapshots.outside(log_start_offset, log_end_offset):
            self.snapshots.delete(offset)
        if log_end_offset == self._map_end:
            self._unreplicated.keep_from(log_start_offset)
            self._map_end = max(self._map_end, log_start_offset)
            newest = self.snapshots.newest
            self._snapshot_end = log_start_offset if newest is None else newest
            return
        self.producers.clear()
        self._ongoing.clear()
        self._unreplicated.clear()
        self._load_newest(log_start_offset)

    def _load_newest(self, log_start_offset: int) -> None:
        while (newest := self.snapshots.newest) is not None:
            try:
                entries = read_producer_snapshot(self.snapshots.source(newest))
            except FormatError:
                self.snapshots.delete(newest)
                continue
            for entry in entries:
                if not self._expired(entry):
                    self._load(entry)
            self._snapshot_end = self._map_end = newest
            return
        self._snapshot_end = self._map_end = log_start_offset

    def _expired(self, entry: ProducerEntry) -> bool:
        idle = int64(self._now_ms - entry.timestamp)
        return entry.current_txn_first_offset < 0 and idle >= self._expiration_ms

    def _load(self, entry: ProducerEntry) -> None:
        state = ProducerStateEntry.from_entry(entry)
        self.producers.put(entry.producer_id, state)
        if state.current_txn_first_offset is not None:
            self._ongoing[state.current_txn_first_offset] = entry.producer_id

    def truncate_fully(self, offset: int) -> None:
        """Forget all producers and transactions, delete all snapshot files, and set the end of the state to
        `offset`.
        """
        self.producers.clear()
        self._ongoing.clear()
        self._unreplicated.clear()
        for snapshot in reversed(self.snapshots.offsets()):
            self.snapshots.delete(snapshot)
        self._snapshot_end = 0
        self._map_end = offset

    def take_snapshot(self) -> None:
        """Write the state to a snapshot file named after its end offset. Do nothing if the state has not advanced since
        the last snapshot. In a virtual directory (`Tree`), a directory of this name raises `JavaIOError`.
        """
        if self._map_end <= self._snapshot_end:
            return
        self.snapshots.put(
            self._map_end, encode_producer_snapshot([state.entry() for state in self.producers.values()])
        )
        self._snapshot_end = self._map_end

    def delete_snapshots_of(self, base_offsets: list[int]) -> None:
        """Delete the snapshots at these base offsets, whose segments were deleted."""
        for offset in base_offsets:
            if offset in self.snapshots:
                self.snapshots.delete(offset)

    def delete_snapshots_above(self, offset: int) -> None:
        """Delete the snapshots above an offset, the newest first, because the log was truncated there."""
        for snapshot in reversed([taken_at for taken_at in self.snapshots.offsets() if taken_at > offset]):
            self.snapshots.delete(snapshot)

    def delete_snapshots_up_to(self, log_start_offset: int) -> None:
        """Delete the snapshots at and below the log start offset, which the next start could not use."""
        for snapshot in [taken_at for taken_at in self.snapshots.offsets() if taken_at <= log_start_offset]:
            self.snapshots.delete(snapshot)

    def remove_and_mark_snapshot_for_deletion(self, offset: int) -> str | None:
        """Rename the snapshot of a retired segment with the suffix `.deleted`; return the new path, None if there is
        none.
        """
        return self.snapshots.mark_deleted(offset) if offset in self.snapshots else None

    def remove_stray_snapshots(self, base_offsets: list[int]) -> None:
        """Delete snapshot files whose offset is not in `base_offsets`, the base offsets of the segments. The newest of
        these files is kept if its offset is above the largest base offset, or if there are no segments. If files
        changed other than through this object, they are listed again first; raises `NumberFormatError` if the name of a
        snapshot file does not begin with a number.
        """
        if not self.snapshots.is_current:
            self.snapshots = Snapshots(self._disk, self._directory)
        bases = frozenset(base_offsets)
        strays = [offset for offset in self.snapshots.offsets() if offset not in bases]
        keep = strays[-1:] if strays and strays[-1] >= max(base_offsets, default=strays[-1]) else []
        for offset in strays:
            if offset not in keep:
                self.snapshots.delete(offset)
