"""Check whether a log object belongs to its name and to the objects beside it, if no event gives its size.

A batch has its offset and leader epoch, but neither topic nor partition. So a log with the same offsets in the wrong
place is read without error. It is therefore compared with files made at the same time: with the last entry of the time
index, written when a segment is closed (`LogSegment.onBecomeInactiveSegment`), and with the last batch of a producer in
the snapshot at the segment's end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.files.index_files import TIME_ENTRY, TimeEntry, decode_producer_snapshot
from kafkalog.codec.files.text import LeaderEpoch
from kafkalog.codec.model import NO_TIMESTAMP, BatchHeader, ProducerEntry, RecordBatch
from kafkalog.codec.names import FileKind
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log.disk.remote_file import RemoteFile
from kafkalog.log.walk.lookup import start_position
from kafkalog.tiers.lineage import epoch_at
from kafkalog.tiers.segments import RemoteSegment

__all__ = ["Identity", "last_time_entry"]

_FARTHEST = (1 << 31) - 1
"""maximum relative offset in a segment"""

Beside = Callable[[FileKind], RemoteFile | None]
"""opens a file beside the log; None if there is none"""


@dataclass(slots=True)
class Identity:
    """Evidence of which log a segment's log object should be: its name, the neighbouring segments, and the files beside
    it.
    """

    base_offset: int
    last_offset: int | None
    """maximum offset, since the next segment begins after it; None for the last segment"""
    epochs: Sequence[LeaderEpoch]
    """leader epochs of the log it is read for"""
    beside: Beside
    before: Callable[[], RemoteFile | None]
    """opens the producer snapshot at the base offset"""
    described: RemoteSegment | None = None
    """metadata from an object that names the segment, if there is one"""
    until: int | None = field(default=None, init=False)
    """size of the log up to the next segment, if it extends further; set by `doubt`"""

    def doubt(self, log: RemoteFile) -> str | None:
        """Return the reason why this may be another log; None if there is no doubt. Reads batches of the log and the
        files beside it. May set `until`. Raises `StorageError` if a file cannot be read.
        """
        head = next(iter(Scanner(log)), None)
        if head is None:
            return "it begins with no valid batch" if log.size else "it is empty"
        return self._of_head(head) or self._of_witnesses(log)

    def is_of_other_times(self, log: RemoteFile) -> bool:
        """Return whether the timestamps contradict the time index or the metadata, so that it is another log. False
        without a valid time index. Raises `StorageError` if a file cannot be read.
        """
        return self._by_time(log) is False

    def _of_head(self, head: RecordBatch) -> str | None:
        first = head.header.first_offset
        if first < self.base_offset or (self.last_offset is not None and first > self.last_offset):
            return f"it begins with offset {first}"
        return self._of_epoch(head, "first")

    def _of_witnesses(self, log: RemoteFile) -> str | None:
        agrees: list[str] = []
        contradicts: list[str] = []
        for name, asked in (("time index", self._by_time), ("producer snapshot", self._by_producers)):
            found = asked(log)
            if found is not None:
                (agrees if found else contradicts).append(name)
        if contradicts and len(contradicts) >= len(agrees):
            return f"the {' and the '.join(contradicts)} beside it {'are' if len(contradicts) > 1 else 'is'} of another"
        if not agrees:
            return "nothing beside it tells whether it is"
        return self._of_end(log)

    def _by_time(self, log: RemoteFile) -> bool | None:
        """Return whether the log agrees with its time index; None if there is no index or its size is invalid. They
        agree if the batch with the offset of the last entry has exactly the timestamp of the entry. If the index has no
        timestamp, no batch may have one. Return False also if the segment's metadata has another maximum timestamp than
        the index. Raises `StorageError` if a file cannot be read.
        """
        index = self.beside(FileKind.TIME_INDEX)
        if index is None or index.size % TIME_ENTRY.size:
            return None
        entry = last_time_entry(index)
        if self.described is not None and (NO_TIMESTAMP if entry is None else entry.timestamp) != self._newest:
            return False
        if entry is None:  # no batch has a timestamp
            return all(batch.header.max_timestamp == NO_TIMESTAMP for batch in Scanner(log, check_crc=False))
        batch = self._batch_at(log, self.base_offset + entry.relative_offset)
        return batch is not None and batch.header.max_timestamp == entry.timestamp

    @property
    def _newest(self) -> int:
        return NO_TIMESTAMP if self.described is None else self.described.max_timestamp

    def _by_producers(self, log: RemoteFile) -> bool | None:
        """Return whether the log agrees with the producer snapshot at its end. Return False if an entry from below the
        segment has another last offset in the previous snapshot. Otherwise return None if the snapshot is missing,
        invalid, or without an entry in this segment. Otherwise the batch of the latest entry must have the entry's
        producer id, last sequence and timestamp. The timestamp is not compared for a transactional batch, because the
        transaction's marker changes it in the snapshot.

        Raises `StorageError` if a file cannot be read.
        """
        own, before = _producers(self.beside(FileKind.PRODUCER_SNAPSHOT)), _producers(self.before())
        older = {producer_entry.producer_id: producer_entry.last_offset for producer_entry in before}
        for entry in own:
            known = older.get(entry.producer_id)
            if known is not None and 0 <= entry.last_offset < self.base_offset and entry.last_offset != known:
                return False
        latest = max(own, key=lambda each: each.last_offset, default=None)
        if latest is None or latest.last_offset < self.base_offset:
            return None
        batch = self._batch_at(log, latest.last_offset)
        if batch is None or not isinstance(batch.header, BatchHeader):
            return False
        header = batch.header  # a transaction's marker changes the timestamp of its producer
        return (batch.last_offset, header.producer_id, header.last_sequence) == (
            latest.last_offset, latest.producer_id, latest.last_sequence
        ) and (header.is_transactional or header.max_timestamp == latest.timestamp)  # fmt: skip

    def _batch_at(self, log: RemoteFile, offset: int) -> RecordBatch | None:
        for batch in Scanner(log, position=self._position(log, offset)):
            if batch.last_offset >= offset:
                return batch
        return None

    def _position(self, log: RemoteFile, offset: int) -> int:
        index = self.beside(FileKind.OFFSET_INDEX)
        return start_position(log, index, base_offset=self.base_offset, target=offset, limits=DEFAULT_LIMITS)

    def _of_end(self, log: RemoteFile) -> str | None:
        """Return the reason why the log may be another one, judged by its last batch up to the segment's end. The
        reason is that the batch has another last offset than was copied, or another leader epoch. Return None if
        nothing is wrong or there is no batch. If later batches follow, `until` is set to the position of the first one,
        and the offset is not compared. Raises `StorageError` if the log cannot be read.
        """
        last = None
        target = self.base_offset + _FARTHEST if self.last_offset is None else self.last_offset
        for batch in Scanner(log, position=self._position(log, target), check_crc=False):
            if batch.header.first_offset > target:
                self.until = batch.position
                break
            last = batch
        if last is None:
            return None
        if self.described is not None and self.until is None and last.last_offset != self.described.end_offset:
            return f"it ends with offset {last.last_offset}, and was copied up to {self.described.end_offset}"
        return self._of_epoch(last, "last")

    def _of_epoch(self, batch: RecordBatch, which: str) -> str | None:
        epoch = batch.header.partition_leader_epoch if isinstance(batch.header, BatchHeader) else -1
        known = epoch_at(self.epochs, batch.header.first_offset)
        if epoch < 0 or known is None or known == epoch:
            return None
        return f"its {which} batch has leader epoch {epoch}, and the log has {known} there"


def last_time_entry(index: RemoteFile) -> TimeEntry | None:
    """Return the last entry of a time index, which has the largest timestamp of a closed segment. None if the index is
    empty or that timestamp is not above 0. A partial entry at the end is ignored. Raises `StorageError` if the index
    cannot be read.
    """
    slot = index.size // TIME_ENTRY.size - 1
    data = index.read(slot * TIME_ENTRY.size, TIME_ENTRY.size) if slot >= 0 else b""
    if len(data) != TIME_ENTRY.size:
        return None
    entry = TimeEntry(*TIME_ENTRY.struct.unpack(data))
    return entry if entry.timestamp > 0 else None


def _producers(file: RemoteFile | None) -> list[ProducerEntry]:
    if file is None or file.size > DEFAULT_LIMITS.snapshot_bytes:
        return []
    try:
        return decode_producer_snapshot(file.read(0, file.size))
    except FormatError:
        return []
