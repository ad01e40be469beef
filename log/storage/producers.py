"""Producer state as the broker rebuilds it (`ProducerStateManager`, `ProducerAppendInfo`, `ProducerStateEntry`).

Idempotence history, open transactions and snapshots.  Only the newest remembered batch of a producer matters here: it
is all that a snapshot stores.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass, replace
from typing import NamedTuple

from kafkalog.codec.errors import FormatError
from kafkalog.codec.index_files import encode_producer_snapshot, read_producer_snapshot
from kafkalog.codec.model import (
    NO_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    ControlType,
    ProducerEntry,
)
from kafkalog.codec.names import FileKind, segment_file
from kafkalog.log.storage.content import Content, Literal, join
from kafkalog.log.storage.java import (
    BufferUnderflowError,
    IllegalArgumentError,
    InvalidRecordError,
    InvalidTxnStateError,
    JavaHashMap,
    JavaIOError,
    NullPointerError,
    int32,
    int64,
    parse_long,
)
from kafkalog.log.storage.log_file import LogBatch
from kafkalog.log.storage.tree import Tree

__all__ = ["CompletedTransaction", "ProducerAppend", "ProducerState", "ProducerStateManager", "Snapshots"]

_MAX_SEQUENCE = 2**31 - 1
_KEY_SIZE = 4
_MARKER_SIZE = 6
_VERSION_SIZE = 2


class CompletedTransaction(NamedTuple):
    """A transaction that a marker ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class _LastBatch(NamedTuple):
    last_sequence: int
    last_offset: int
    offset_delta: int


@dataclass(slots=True)
class ProducerState:
    """What is known of one producer."""

    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = -1
    last_timestamp: int = NO_TIMESTAMP
    current_txn_first_offset: int | None = None
    last_batch: _LastBatch | None = None

    def set_epoch(self, epoch: int) -> None:
        """A new epoch forgets the batches of the old one."""
        if self.producer_epoch != epoch:
            self.last_batch = None
            self.producer_epoch = epoch

    def update(self, newer: ProducerState) -> None:
        """Take over what an append has learned."""
        self.set_epoch(newer.producer_epoch)
        self.last_batch = newer.last_batch or self.last_batch
        newer.last_batch = None
        self.coordinator_epoch = newer.coordinator_epoch
        self.current_txn_first_offset = newer.current_txn_first_offset
        self.last_timestamp = newer.last_timestamp

    def entry(self) -> ProducerEntry:
        """As a snapshot stores it."""
        batch = self.last_batch or _LastBatch(NO_SEQUENCE, NO_OFFSET, 0)
        open_transaction = self.current_txn_first_offset
        return ProducerEntry(
            self.producer_id,
            self.producer_epoch,
            batch.last_sequence,
            batch.last_offset,
            batch.offset_delta,
            self.last_timestamp,
            self.coordinator_epoch,
            NO_OFFSET if open_transaction is None else open_transaction,
        )

    @classmethod
    def from_entry(cls, entry: ProducerEntry) -> ProducerState:
        """From a snapshot; negative offsets mean none."""
        batch = _LastBatch(entry.last_sequence, entry.last_offset, entry.offset_delta)
        return cls(
            entry.producer_id,
            entry.producer_epoch,
            entry.coordinator_epoch,
            entry.timestamp,
            entry.current_txn_first_offset if entry.current_txn_first_offset >= 0 else None,
            batch if entry.last_offset >= 0 else None,
        )


def _last_sequence(header: BatchHeader) -> int:
    if header.base_sequence == NO_SEQUENCE:
        return NO_SEQUENCE
    if header.base_sequence > int32(_MAX_SEQUENCE - header.last_offset_delta):
        return int32(header.last_offset_delta - (_MAX_SEQUENCE - header.base_sequence) - 1)
    return int32(header.base_sequence + header.last_offset_delta)


def _marker(key: bytes | None, value: bytes | None) -> tuple[ControlType, int]:
    """Type and coordinator epoch of a transaction marker, or the exception that reading it raises."""
    if key is None:
        raise NullPointerError("a control record without a key")
    if len(key) < _KEY_SIZE:
        raise InvalidRecordError(f"Invalid value size found for end control record key: {len(key)}")
    if int.from_bytes(key[:2], "big", signed=True) < 0:
        raise InvalidRecordError("Invalid version found for control record")
    kind = int.from_bytes(key[2:4], "big", signed=True)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        raise IllegalArgumentError(f"Invalid control record type for end transaction marker {kind}")
    if value is None:
        raise NullPointerError("a transaction marker without a value")
    if len(value) < _VERSION_SIZE:
        raise BufferUnderflowError("a transaction marker that is too short")
    if int.from_bytes(value[:2], "big", signed=True) < 0:
        raise InvalidRecordError("Invalid version found for end transaction marker")
    if len(value) < _MARKER_SIZE:
        raise BufferUnderflowError("a transaction marker that is too short")
    return ControlType(kind), int.from_bytes(value[2:6], "big", signed=True)


class ProducerAppend:
    """What the batches of one producer change (`ProducerAppendInfo` with replication as origin)."""

    def __init__(self, current: ProducerState) -> None:
        self.state = replace(current, last_batch=None)
        self.started: list[int] = []

    def append(self, batch: LogBatch) -> CompletedTransaction | None:
        """Take in one batch; a marker may complete a transaction."""
        header = batch.header
        if not isinstance(header, BatchHeader):
            return None
        if header.is_control:
            found = batch.first_record()
            if found is None:
                return None
            record, timestamp = found
            kind, coordinator_epoch = _marker(record.key, record.value)
            return self._end_transaction(header, kind, coordinator_epoch, timestamp)
        self._data(header, batch.last_offset)
        return None

    def stretch(self, last: BatchHeader, transactional_from: int | None) -> None:
        """Take in several data batches, the last of them and the first offset that is part of a transaction."""
        if self.state.current_txn_first_offset is None and transactional_from is not None:
            self.state.current_txn_first_offset = transactional_from
            self.started.append(transactional_from)
        self._written(last, int64(last.last_offset))

    def _written(self, header: BatchHeader, last_offset: int) -> None:
        state = self.state
        state.set_epoch(header.producer_epoch)
        state.last_batch = _LastBatch(_last_sequence(header), last_offset, int32(last_offset - header.base_offset))
        state.last_timestamp = header.max_timestamp

    def _data(self, header: BatchHeader, last_offset: int) -> None:
        self._written(header, last_offset)
        state = self.state
        if state.current_txn_first_offset is not None and not header.is_transactional:
            raise InvalidTxnStateError(
                f"Expected transactional write from producer {state.producer_id} at offset {header.base_offset}"
            )
        if state.current_txn_first_offset is None and header.is_transactional:
            state.current_txn_first_offset = header.base_offset
            self.started.append(header.base_offset)

    def _end_transaction(
        self, header: BatchHeader, kind: ControlType, coordinator_epoch: int, timestamp: int
    ) -> CompletedTransaction | None:
        state = self.state
        first = state.current_txn_first_offset
        state.set_epoch(header.producer_epoch)
        state.coordinator_epoch = coordinator_epoch
        state.current_txn_first_offset = None
        state.last_timestamp = timestamp
        if first is None:
            return None
        return CompletedTransaction(state.producer_id, first, header.base_offset, kind is ControlType.ABORT)


class Snapshots:
    """The snapshot files of a directory by offset: as they were listed, and as they were changed through this.

    Of two names for one offset a broker takes the one listed last, which no rule decides.
    """

    def __init__(self, tree: Tree, directory: str) -> None:
        self._tree = tree
        self._directory = directory
        suffix = FileKind.PRODUCER_SNAPSHOT.value
        self._paths = {
            parse_long(name.split(".", 1)[0]): f"{directory}/{name}"
            for name in tree.all_names(directory)
            if name.endswith(suffix)
        }
        self._offsets = sorted(self._paths)
        self._is_plain = all(path == self._path(offset) for offset, path in self._paths.items())
        self._seen = self._changes()

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{segment_file(offset, FileKind.PRODUCER_SNAPSHOT)}"

    def _changes(self) -> int:
        return self._tree.files.changes(self._directory, FileKind.PRODUCER_SNAPSHOT.value.removeprefix("."))

    @property
    def is_current(self) -> bool:
        """Listing them anew would give the same: every name is Kafka's own, and nobody else has changed anything."""
        return self._is_plain and self._seen == self._changes()

    def __len__(self) -> int:
        return len(self._offsets)

    def __contains__(self, offset: int) -> bool:
        return offset in self._paths

    def offsets(self) -> list[int]:
        """All of them, in order."""
        return list(self._offsets)

    @property
    def newest(self) -> int | None:
        """The largest offset."""
        return self._offsets[-1] if self._offsets else None

    def path(self, offset: int) -> str:
        """The file of an offset."""
        return self._paths[offset]

    def outside(self, low: int, high: int) -> list[int]:
        """Offsets at or below `low` and above `high`."""
        first, behind = bisect_right(self._offsets, low), bisect_right(self._offsets, high)
        return self._offsets[:first] + self._offsets[max(first, behind) :]

    def put(self, offset: int, content: Content) -> None:
        """Write the file of an offset under Kafka's name for it."""
        path = self._path(offset)
        before = self._changes()
        self._tree.files[path] = content
        self._seen += self._changes() - before
        if offset not in self._paths:
            insort(self._offsets, offset)
        self._paths[offset] = path

    def delete(self, offset: int) -> None:
        """Remove the file of an offset."""
        before = self._changes()
        self._tree.delete(self._paths.pop(offset))
        self._seen += self._changes() - before
        del self._offsets[bisect_right(self._offsets, offset) - 1]


class ProducerStateManager:
    """State of all producers of a partition, and its snapshot files; `snapshots` if they were listed already."""

    def __init__(
        self, tree: Tree, directory: str, now_ms: int, expiration_ms: int, snapshots: Snapshots | None = None
    ) -> None:
        self._tree = tree
        self._directory = directory
        self._now_ms = now_ms
        self._expiration_ms = expiration_ms
        self.producers: JavaHashMap[ProducerState] = JavaHashMap()
        self._ongoing: dict[int, int] = {}
        self._unreplicated: dict[int, int] = {}
        self._map_end = 0
        self._snapshot_end = 0
        self.snapshots = Snapshots(tree, directory) if snapshots is None else snapshots

    @property
    def map_end_offset(self) -> int:
        """Offset up to which the state is built."""
        return self._map_end

    @property
    def is_empty(self) -> bool:
        """Nothing is known."""
        return len(self.producers) == 0 and not self._unreplicated

    @property
    def has_snapshots(self) -> bool:
        """There is a snapshot file."""
        return len(self.snapshots) > 0

    def set_map_end(self, offset: int) -> None:
        """The state is built up to an offset."""
        self._map_end = offset

    def first_unstable_offset(self) -> int | None:
        """Where the earliest open (or not yet replicated) transaction begins."""
        return min([*self._ongoing, *self._unreplicated], default=None)

    def first_undecided_offset(self) -> int | None:
        """Where the earliest open transaction begins."""
        return min(self._ongoing, default=None)

    def prepare(self, producer_id: int) -> ProducerAppend:
        """Begin to take in batches of a producer."""
        return ProducerAppend(self.producers.get(producer_id) or ProducerState(producer_id))

    def update(self, append: ProducerAppend) -> None:
        """Take over what an append has learned."""
        current = self.producers.get(append.state.producer_id)
        if current is None:
            self.producers.put(append.state.producer_id, append.state)
        else:
            current.update(append.state)
        for first_offset in append.started:
            self.begin(first_offset, append.state.producer_id)

    def begin(self, first_offset: int, producer_id: int) -> None:
        """A transaction is open; of two with the same first offset the one that is told last counts."""
        self._ongoing[first_offset] = producer_id

    def last_stable_offset(self, completed: CompletedTransaction) -> int:
        """First offset of the earliest transaction of another producer, else the one behind the marker."""
        others = [first for first, producer in self._ongoing.items() if producer != completed.producer_id]
        return min(others, default=completed.last_offset + 1)

    def complete(self, completed: CompletedTransaction) -> None:
        """Close a transaction."""
        if completed.first_offset not in self._ongoing:
            raise IllegalArgumentError("Attempted to complete a transaction which was not started")
        del self._ongoing[completed.first_offset]
        self._unreplicated[completed.first_offset] = completed.last_offset

    def truncate_and_reload(self, log_start_offset: int, log_end_offset: int) -> None:
        """Drop unusable snapshots and load the newest that is left, unless the state already ends there."""
        for offset in self.snapshots.outside(log_start_offset, log_end_offset):
            self.snapshots.delete(offset)
        if log_end_offset == self._map_end:
            self._unreplicated = {k: v for k, v in self._unreplicated.items() if v >= log_start_offset}
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
                entries = read_producer_snapshot(self._tree.source(self.snapshots.path(newest)))
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
        state = ProducerState.from_entry(entry)
        self.producers.put(entry.producer_id, state)
        if state.current_txn_first_offset is not None:
            self._ongoing[state.current_txn_first_offset] = entry.producer_id

    def truncate_fully(self, offset: int) -> None:
        """Forget everything and start at an offset."""
        self.producers.clear()
        self._ongoing.clear()
        self._unreplicated.clear()
        for snapshot in self.snapshots.offsets():
            self.snapshots.delete(snapshot)
        self._snapshot_end = 0
        self._map_end = offset

    def take_snapshot(self) -> None:
        """Write the state, if it went on since the last snapshot."""
        if self._map_end <= self._snapshot_end:
            return
        path = f"{self._directory}/{segment_file(self._map_end, FileKind.PRODUCER_SNAPSHOT)}"
        if path in self._tree.directories:
            raise JavaIOError(f"{path} (Is a directory)")
        data = encode_producer_snapshot([state.entry() for state in self.producers.values()])
        old = self._tree.files.get(path)
        rest = () if old is None or old.size <= len(data) else old.slice(len(data), old.size).parts
        self.snapshots.put(self._map_end, join([Literal(data), *rest]))  # the writer does not truncate
        self._snapshot_end = self._map_end

    def delete_snapshots_of(self, base_offsets: list[int]) -> None:
        """Segments are deleted: so are their snapshots."""
        for offset in base_offsets:
            if offset in self.snapshots:
                self.snapshots.delete(offset)

    def remove_stray_snapshots(self, base_offsets: list[int]) -> None:
        """Keep the snapshots of segments, and of the others only the newest, if it lies behind the last segment."""
        self.snapshots = Snapshots(self._tree, self._directory)
        bases = frozenset(base_offsets)
        strays = [offset for offset in self.snapshots.offsets() if offset not in bases]
        keep = strays[-1:] if strays and strays[-1] >= max(base_offsets, default=strays[-1]) else []
        for offset in strays:
            if offset not in keep:
                self.snapshots.delete(offset)
