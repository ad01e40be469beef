"""Examine a log repeatedly while another process appends to it. Each look reads only the bytes added since the previous
one. A batch that is not complete with a valid checksum is not data yet; if sound batches follow it, it is damage, and
the log continues after it. While a broker rolls a segment or renames the files of a compaction, listings are repeated
until it is done.
"""

from __future__ import annotations

import errno
import time
from itertools import zip_longest

from msgspec import Struct

from kafkalog.codec.common.errors import StorageError, UsageError
from kafkalog.codec.common.findings import Finding, StopReason
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.common.source import BufferSource, Source
from kafkalog.codec.headers.one_batch import OneBatch
from kafkalog.codec.model import BATCH, AbortedTransaction, RecordBatch
from kafkalog.codec.names import SWAP
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log.directories.inventory import Inventory, open_all
from kafkalog.log.directories.partition import Partition
from kafkalog.log.disk.files import FileSource, PathLike
from kafkalog.log.disk.unchanged import SETTLED_NS
from kafkalog.log.reading.known_ends import known_transactions
from kafkalog.log.reading.opened_below import opened_below_start, start_of_state
from kafkalog.log.reading.transactions import KnownTransactions, TransactionTracker, why_it_ends
from kafkalog.log.walk.batches import Passed
from kafkalog.log.walk.cursor import ENDING, Cursor
from kafkalog.log.walk.segment import Segment

__all__ = ["Followed", "Follower", "Unread", "settled"]

_LISTINGS = 10
"""Most listings before an unfinished compaction counts as abandoned instead of running."""
_PAUSE_S = 0.02
_BEYOND = 1 << 62


def settled(*paths: PathLike, tolerant: bool = False, limits: Limits = DEFAULT_LIMITS) -> Inventory:
    """Return the result of `open_all` when two consecutive listings have the same segments and no segment is being
    replaced. A single listing during a roll may miss a segment and have the one after it. After ten listings the last
    result is returned in any case; a remaining `.swap` file is then left over from an abandoned compaction. After each
    listing with a `.swap` file this thread sleeps 20 ms.

    With `tolerant`, anything that cannot be read is left out, with a finding; otherwise `StorageError` is raised. A
    file that disappears during a listing is an error only in the last one. Raises `UsageError` without a path, or for a
    path without Kafka data.
    """
    before: object = None
    error: OSError | None = None
    inventory: Inventory | None = None
    for _ in range(_LISTINGS):
        try:
            inventory, error = open_all(*paths, tolerant=tolerant, limits=limits), None
        except OSError as os_error:
            if os_error.errno != errno.ENOENT:
                raise
            error = os_error
            continue
        now = [
            (partition.path, [segment.base_offset for segment in partition.segments])
            for partition in inventory.partitions
        ]
        if any(name.endswith(SWAP) for partition in inventory.partitions for name in partition.unfinished):
            time.sleep(_PAUSE_S)
        elif now == before:
            break
        before = now
    if error is not None:
        raise error if isinstance(error, StorageError) else StorageError.wrap(error, "cannot list the directory")
    if inventory is None:
        raise UsageError("no path was given")
    return inventory


class Followed(Struct, frozen=True, kw_only=True):
    """State of a partition at one moment."""

    partition: Partition
    end_offset: int
    """offset after the last complete batch"""
    first_open_offset: int | None = None
    """first offset of the earliest transaction without a marker, if transactions are followed; None if none is open"""
    aborted: tuple[AbortedTransaction, ...] = ()
    """aborted transactions in the order of their markers, then undecided ones"""
    unread: Unread | None = None
    """bytes after the end that will not become a batch any more; None if there are none"""
    open_transaction: str | None = None
    """why committed data ends before the end; None if it does not"""
    damaged_from: int | None = None
    """offset that should have come at the first damage, if transactions are followed; None without damage"""

    @property
    def last_stable_offset(self) -> int:
        """First offset of the earliest open transaction, but at least the log start offset; the end offset if none is
        open.
        """
        if self.first_open_offset is None:
            return self.end_offset
        return max(self.first_open_offset, self.partition.log_start_offset)


class Unread(Struct, frozen=True):
    """Bytes at the end of a log that contain no complete batch with a valid checksum, or none that a reader takes."""

    path: str
    start: int
    end: int


class _Mark(Struct, frozen=True, kw_only=True):
    """The last batch that was read, after which the next look continues if it is still there."""

    base_offset: int
    """base offset of its segment"""
    start: int
    end: int
    last_offset: int
    crc: int
    next_offset: int

    def of(self, segment: Segment) -> bool:
        """Whether the batch is in a segment."""
        return self.base_offset == segment.base_offset


class Follower:
    """Reader of one partition that is still written. Each call of `look` reads the batches added since the previous
    call. With `transactions` the log is read from its start, otherwise only from the end of the last segment.
    """

    def __init__(self, *, transactions: bool = False, limits: Limits = DEFAULT_LIMITS) -> None:
        self._follows_transactions = transactions
        self._limits = limits
        self._forget()

    def _forget(self) -> None:
        self._tracker = TransactionTracker(self._limits)
        self._from = 0
        """offset from which batches count for transactions"""
        self._mark: _Mark | None = None
        self._end = 0
        self._seen: tuple[int, int, int] | None = None
        self._fruitless: tuple[str, int, int] | None = None
        self._unread: Unread | None = None
        self._damaged_from: int | None = None

    def look(self, partition: Partition) -> Followed:
        """Read the batches added to a partition since the last look. Return its state: end offset, open and aborted
        transactions, damaged end. `partition` must have been listed just now. Without segments the end is the
        checkpointed log start offset, or 0.

        Nothing is read if the last segment's file is unchanged and was already a second old at the last look.
        Everything is read again if the last batch of the previous look is gone, because the log was truncated or
        rewritten.

        Raises `StorageError` if a file cannot be read, and `MissingFileError` if it was removed since it was listed.
        After an error, the next look reads everything again.
        """
        segments = partition.segments
        if not segments:
            self._forget()
            self._end = partition.checkpointed_log_start_offset or 0
            return self._followed(partition)
        last = segments[-1]
        stamp = (last.base_offset, last.size, last.modified_ns)
        if stamp == self._seen:
            return self._followed(partition)
        is_settled = last.modified_ns < time.time_ns() - SETTLED_NS
        try:
            self._catch_up(partition, is_settled=is_settled)
        except BaseException:
            self._forget()
            raise
        self._seen = stamp if is_settled else None
        return self._followed(partition)

    def _followed(self, partition: Partition) -> Followed:
        open_first_offsets = self._tracker.open_first_offsets
        first_open = min(open_first_offsets.values(), default=None)
        all_of_them = (*self._tracker.aborted, *self._tracker.undecided)
        aborted = tuple(
            transaction for transaction in all_of_them if transaction.last_offset >= partition.log_start_offset
        )
        why = why_it_ends(open_first_offsets, self._end, partition.log_start_offset)
        return Followed(
            partition=partition,
            end_offset=self._end,
            first_open_offset=first_open,
            aborted=aborted,
            unread=self._unread,
            open_transaction=why,
            damaged_from=self._damaged_from,
        )

    def _catch_up(self, partition: Partition, *, is_settled: bool, known: KnownTransactions | None = None) -> None:
        segments = partition.segments
        last = segments[-1]
        mark = self._mark
        self._unread = None
        by_base = {segment.base_offset: segment for segment in segments}
        marked_segment = by_base.get(mark.base_offset) if mark is not None else None
        if mark is None or marked_segment is None or not self._still_there(mark, marked_segment):
            self._forget()
            mark, marked_segment = None, None
            if self._follows_transactions:
                self._from = start_of_state(partition) or 0
                self._tracker.begin(opened_below_start(partition, self._limits), known)
        begins = mark is None
        self._end = max(last.base_offset, mark.next_offset if mark is not None else 0)
        if not self._follows_transactions:
            begin = mark.end if mark is not None and marked_segment is last else None
            self._read(last, begin, None, is_settled=is_settled)
            return
        remaining = segments[segments.index(marked_segment) if marked_segment is not None else 0 :]
        for segment, following in zip_longest(remaining, remaining[1:]):
            begin = mark.end if mark is not None and segment is marked_segment else 0
            self._read(segment, begin, following.base_offset if following else None, is_settled=is_settled)
        if begins and known is None:
            tracker = self._tracker
            known = known_transactions(partition, tracker.aborted, tracker.open_first_offsets, self._limits)
            if known is not None:
                self._forget()
                self._catch_up(partition, is_settled=is_settled, known=known)

    @staticmethod
    def _still_there(mark: _Mark, segment: Segment) -> bool:
        """Whether the marked batch is unchanged: the log was not truncated or rewritten below it. Raises `StorageError`
        if the log cannot be read.
        """
        with segment.open() as source:
            batch = next(iter(Scanner(source, position=mark.start, end=mark.end)), None)
        return batch is not None and (batch.last_offset, batch.header.crc) == (mark.last_offset, mark.crc)

    def _read(self, segment: Segment, position: int | None, next_base: int | None, *, is_settled: bool) -> None:
        """Read a segment from byte `position` to its end, and update the state: end offset, transactions, damage. If
        `position` is None, begin at the last entry of the offset index. `next_base` is the next segment's base offset,
        None for the last segment.

        Damage is skipped if a sound batch comes after it. `is_settled` says that the file has not been modified for a
        second. Only then does an incomplete batch at the end of the last segment count as unread, because a writer may
        otherwise still complete it. Raises `StorageError` if the file cannot be read.
        """
        is_last = next_base is None
        with segment.open() as source:
            if position is None:
                position = segment.position_of(_BEYOND, source, limits=self._limits)
            mark = self._mark
            known = mark.next_offset if mark is not None and mark.end == position and mark.of(segment) else None
            cursor = Cursor(source, segment.base_offset, next_base, position=position, expected=known)
            while True:
                scanner = Scanner(source, position=position, limits=self._limits)
                for batch in scanner:
                    self._take(batch, segment, cursor, source.size)
                is_torn = scanner.stop is StopReason.TORN_TAIL
                is_damage = is_torn or scanner.stop is StopReason.CORRUPT
                if scanner.stop is StopReason.END or (is_last and not is_damage):
                    return
                position = self._behind(segment, source, scanner.valid_bytes, cursor)
                is_tail = is_last and position >= source.size
                is_tail = is_tail and (is_torn or cursor.ended(scanner, through_damage=False).is_tail)
                if self._follows_transactions and not is_tail:
                    self._passed(segment, source, scanner.valid_bytes, scanner.findings[-1], cursor.next_offset)
                if position >= source.size:
                    if is_last and (is_settled or not is_torn):
                        self._unread = self._unread or Unread(segment.path, scanner.valid_bytes, source.size)
                    return
                cursor.resume(position)

    def _passed(self, segment: Segment, source: Source, position: int, finding: Finding, expected: int) -> None:
        """Record damage at byte `position` of a segment. Every open transaction ends here, because its marker may be in
        the damage (`TransactionTracker.damaged`). `expected` is the offset that a sound batch at this position would
        have; the lowest of all damage is kept. Raises `StorageError` if the log cannot be read.
        """
        self._damaged_from = expected if self._damaged_from is None else min(self._damaged_from, expected)
        head = bytes(source.read(position, BATCH.size))
        self._tracker.damaged(Passed(
            segment=segment, position=position, next_offset=expected, finding=finding.in_file(segment.path), head=head
        ))

    def _behind(self, segment: Segment, source: FileSource, position: int, cursor: Cursor) -> int:
        """Return the position in bytes of the next sound batch after damage at `position`; the size of the file if
        there is none. A search without result is remembered, and not repeated while the file is unchanged. Raises
        `StorageError` if the log cannot be read.
        """
        stamp = (segment.path, position, segment.modified_ns)
        if stamp == self._fruitless:
            return source.size
        sound_position = cursor.search(position, cursor.next_offset)
        if sound_position is None:
            self._fruitless = stamp
            return source.size
        return sound_position

    def _take(self, batch: RecordBatch, segment: Segment, cursor: Cursor, size: int) -> None:
        header, expected = batch.header, cursor.next_offset
        if cursor.judge(batch) in ENDING:  # a reader reports it if more batches follow
            self._unread = self._unread or Unread(segment.path, batch.position, size)
            if self._follows_transactions:
                head = BufferSource(batch.data)
                self._passed(segment, head, 0, cursor.why, expected)
            return
        if self._follows_transactions and batch.last_offset >= self._from:
            self._tracker.take(OneBatch(batch), segment)
        self._unread = None
        self._end = max(self._end, header.next_offset)
        end = batch.position + batch.size
        self._mark = _Mark(
            base_offset=segment.base_offset,
            start=batch.position,
            end=end,
            last_offset=batch.last_offset,
            crc=header.crc,
            next_offset=header.next_offset,
        )
