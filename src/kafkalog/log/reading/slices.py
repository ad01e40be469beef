"""Read a part of one segment into Arrow batches. `Partition.to_arrow` chains such parts, and a Spark task reads one.
`consumer_view` decides which records a consumer gets. Damage is yielded between the rows, at its place in the log.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.columnar.assembler import ArrowAssembler, Fault
from kafkalog.codec.common.findings import Finding, FindingCode, Severity, StopReason
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import NO_END, NO_PARTITION_LEADER_EPOCH, AbortedTransaction, RecordBatch
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.codec.rules.batches import MAX_RELATIVE_OFFSET, BatchVerdict
from kafkalog.log.disk.files import FileSource
from kafkalog.log.disk.held_files import HeldFiles
from kafkalog.log.reading.consumer_view import BatchSelection, ConsumerView
from kafkalog.log.reading.transactions import Undecided
from kafkalog.log.walk.batch_filter import BatchFilter
from kafkalog.log.walk.cursor import ENDING, Cursor

if TYPE_CHECKING:
    from kafkalog.codec.headers.message_runs import MessageRun
    from kafkalog.codec.headers.run_scanner import RunScanner
    from kafkalog.codec.headers.runs import BatchRun

__all__ = ["NO_END", "Damage", "Slice", "SliceReader"]

_MOST_LATER = 256
"""Most faults in headers that wait for the records of batches before them."""


class Slice(Struct, frozen=True, kw_only=True):
    """A range of bytes of one log file, beginning at a batch, with the wanted offsets."""

    path: str
    start: int
    end: int
    base_offset: int
    """base offset of the segment"""
    start_offset: int
    """lower offsets are not wanted"""
    end_offset: int = NO_END
    """end of the wanted offsets, exclusive"""
    is_last: bool = False
    """whether the log ends with this slice: an unfinished batch at its end is then the end of the log"""
    is_shared: bool = False
    """whether the previous part also reads the first batch, and reports its faults"""
    next_base: int | None = None
    """base offset of the next segment; None if unknown"""
    expected: int | None = None
    """offset that should come at `start`, if that is known and `start` is not 0; otherwise None"""
    likely_end: int | None = None
    """position up to which the wanted offsets probably reach, from the index: bytes after it are not read in advance"""
    opens_from: int | None = None
    """first offset of the whole read, if this part begins later; see `BatchSelection`"""
    leader_epoch: int = NO_PARTITION_LEADER_EPOCH
    """highest leader epoch of the segment's batches before this part; -1 if unknown"""

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.end - self.start


class Damage(Struct, frozen=True, kw_only=True):
    """A range of bytes with records that cannot be read, and the finding about it."""

    finding: Finding
    start: int
    end: int
    next_offset: int
    """offset that should come here"""
    is_missing: bool = False
    """whether the file is shorter than when it was listed"""
    goes_on: bool = False
    """whether all records were read nevertheless: reading continues after it, or it is an unfinished end of the log"""
    is_beside: bool = False
    """whether it is one more fault in the header of a batch at which reading ends: only a list of findings has it"""
    is_told_before: bool = False
    """whether another part of this read also reports it"""


class SliceReader:
    """Iterator over the Arrow batches of a slice and the `Damage` in it, in the order of the log. Afterwards
    `next_offset` is the offset after the last batch. Rows are collected by `assembler`. With `tolerant` it continues
    after damage with the next valid batch; otherwise damage is the last item. If the filter `batches` rejects a batch,
    only its checksum is compared. The file is opened with `files`, if not None. A header fault that does not end a
    consumer's reading is yielded as damage with `goes_on`. Raises `StorageError` if the file cannot be opened or read.
    """

    def __init__(
        self,
        wanted: Slice,
        assembler: ArrowAssembler,
        *,
        aborted: Sequence[AbortedTransaction] | None = None,
        tolerant: bool = False,
        batches: BatchFilter | None = None,
        limits: Limits = DEFAULT_LIMITS,
        files: HeldFiles | None = None,
    ) -> None:
        self._slice = wanted
        view = ConsumerView(
            start_offset=wanted.start_offset,
            end_offset=wanted.end_offset,
            aborted=tuple(aborted or ()),
            batches=batches,
        )
        self._selection = BatchSelection(view, opens_from=wanted.opens_from)
        self._open = FileSource if files is None else files.open
        self._assembler = assembler
        self._tolerant = tolerant
        self._limits = limits
        self._placed = 0
        """offset after the last batch with a wrong base offset, if that batch had the expected one. Only the reported
        place of later damage depends on it.
        """
        self._complete: list[pa.RecordBatch | Fault] = []
        self._later: list[Damage] = []
        """faults in headers of batches that are read. Damage of batches before them, whose records are collected and
        not decoded yet, comes first
        """
        self._cursor: Cursor

    @property
    def next_offset(self) -> int:
        """Offset after the last batch so far."""
        return self._selection.next_offset

    @property
    def expected(self) -> int | None:
        """Offset that should come after the last batch so far; None if unknown."""
        return self._cursor.expected

    @property
    def leader_epoch(self) -> int:
        """Highest leader epoch so far; -1 if there is none."""
        return self._cursor.continuity.leader_epoch

    def __iter__(self) -> Iterator[pa.RecordBatch | Damage]:
        for piece in self._pieces():
            is_last = isinstance(piece, Damage) and not self._tolerant and not piece.goes_on
            if not isinstance(piece, Damage) or not piece.is_told_before:
                yield piece
            if is_last:
                return
            del piece  # the next one may be as large

    def _pieces(self) -> Iterator[pa.RecordBatch | Damage]:
        wanted = self._slice
        position = wanted.start
        with self._open(wanted.path) as source:
            cursor = self._cursor = Cursor(
                source, wanted.base_offset, self._next_base, position=position, expected=wanted.expected,
                limits=self._limits,
            )  # fmt: skip
            cursor.continuity.leader_epoch = wanted.leader_epoch
            while position < min(wanted.end, source.size):
                scanner = self._scanner(source, position)
                for scanned in self._scanned(scanner):
                    yield from self._taken()
                    if scanned is not None:
                        yield from self._batch(scanned) if isinstance(scanned, RecordBatch) else self._run(scanned)
                        del scanned
                    if self._assembler.is_full or (not isinstance(scanner, Scanner) and scanner.is_large_next):
                        yield from self._flushed()
                    if self._selection.is_over:
                        break
                yield from self._taken()
                yield from self._flushed()
                position = scanner.valid_bytes
                if scanner.stop is None or scanner.stop is StopReason.END:
                    break
                is_tail = scanner.stop in (StopReason.TORN_TAIL, StopReason.ZERO_TAIL)
                if is_tail and source.size_now() < wanted.end:
                    break
                end = min(wanted.end, source.size)
                ended = cursor.ended(scanner, through_damage=self._tolerant, end=end)
                if ended.is_tail:
                    yield from (self._tail(finding, ended.position, end) for finding in ended.findings)
                    break
                position = end if ended.resumed is None else ended.resumed
                for finding in ended.findings:
                    yield self._damage(finding, ended.position, position, cursor.next_offset)
                cursor.resume(position)
            if self._selection.is_over or position >= wanted.end:
                return
            size = source.size_now()
            if size < wanted.end:
                detail = f"the file has {size} bytes, and had at least {wanted.end} when it was listed"
                finding = Finding(FindingCode.TORN_TAIL, Severity.ERROR, position, self.next_offset, detail)
                damage = self._damage(finding, position, wanted.end, NO_END)
                yield replace(damage, is_missing=True)

    def _scanner(self, source: FileSource, position: int) -> Scanner | RunScanner:
        if not self._assembler.takes_runs:
            return Scanner(source, position=position, end=self._slice.end, limits=self._limits)
        from kafkalog.codec.headers.run_scanner import WINDOW_OF_RECORDS, RunScanner

        return RunScanner(
            source,
            position=position,
            end=self._slice.end,
            likely_end=self._slice.likely_end,
            window_bytes=WINDOW_OF_RECORDS,
            limits=self._limits,
        )

    def _scanned(self, scanner: Scanner | RunScanner) -> Iterator[RecordBatch | BatchRun | MessageRun | None]:
        if isinstance(scanner, Scanner):
            return iter(scanner)
        # with a filter, batches must be selected before they are decoded
        if not self._selection.takes_windows:
            return iter(scanner.all_runs())
        return scanner.not_decoded_by(self._window)

    def _window(self, window: bytes | memoryview, position: int) -> tuple[int, bool]:
        """Decode batches at the start of a window of the file with compiled code (see `WindowDecoder`); `position` is
        the window's byte position in the file. Completed Arrow batches are appended to `_complete`; the selection and
        the cursor are advanced.

        Return the number of bytes decoded, and whether decoding stopped only because enough rows are held. Return (0,
        False) if the offsets must first be examined one by one.
        """
        from kafkalog.codec.columnar.run_decoder import Order

        selection = self._selection
        if not selection.is_in_order(self._cursor):
            return 0, False
        order = Order(
            next_offset=selection.next_offset, highest=self._cursor.highest, end=selection.end_offset,
            flags=selection.flags, leader_epoch=self._cursor.continuity.leader_epoch, position=position,
        )  # fmt: skip
        decoded_bytes, has_enough, complete = self._assembler.add_window(window, order)
        self._complete += complete
        if decoded_bytes:
            selection.next_offset = order.next_offset
            self._cursor.took(order.next_offset, order.leader_epoch)
        return decoded_bytes, has_enough

    def _taken(self) -> Iterable[pa.RecordBatch | Damage]:
        if not self._complete:
            return ()
        complete, self._complete = self._complete, []
        return self._faults(complete)

    def _run(self, run: BatchRun | MessageRun) -> Iterator[pa.RecordBatch | Damage]:
        """Yield the Arrow batches that a run of consecutive batches completes, and the damage in it; usually nothing.
        The result is the same as calling `_batch` for each batch, but ordinary batches are processed together.
        """
        for part in self._selection.parts(run, self._cursor):
            if isinstance(part, RecordBatch):
                yield from self._batch(part)
            else:
                yield from self._faults(self._assembler.add_run(*part, self._selection.end_offset))

    @property
    def _next_base(self) -> int | None:
        wanted = self._slice
        return None if wanted.is_last else self._most if wanted.next_base is None else wanted.next_base

    @property
    def _most(self) -> int:
        """Offset after the highest one that the segment can have."""
        return self._slice.base_offset + MAX_RELATIVE_OFFSET + 1

    def _damage(self, finding: Finding, start: int, end: int, first_offset: int) -> Damage:
        error = replace(finding, severity=Severity.ERROR, file=self._slice.path)
        low = self._slice.start_offset
        is_told_before = self._slice.is_shared and start == self._slice.start and first_offset < low
        place = max(self.next_offset, self._placed)
        return Damage(finding=error, start=start, end=end, next_offset=place, is_told_before=is_told_before)

    def _tail(self, finding: Finding, start: int, end: int) -> Damage:
        """Return the finding about an unfinished end of the log, after which there are no records."""
        finding = finding.in_file(self._slice.path)
        return Damage(finding=finding, start=start, end=end, next_offset=self.next_offset, goes_on=True)

    def _batch(self, batch: RecordBatch) -> Iterable[pa.RecordBatch | Damage]:
        """Advance the cursor past `batch`, and the selection unless the batch ends reading. Return an iterable, usually
        empty, of the Arrow batches that are now complete and of the damage in them. The rows of `batch` are added
        during iteration; there are none if it is not selected. Faults in its header are yielded by a later flush.

        If the batch ends reading or belongs to an undecided transaction, its own rows are not added: the iterable has
        the rows collected before, and then damage. If the batch ends reading and no offset from there on is selected,
        the iterable is empty, and iteration ends the selection.
        """
        cursor = self._cursor
        expected = cursor.next_offset
        verdict = cursor.judge(batch)
        if verdict in ENDING:
            return self._passed_by(batch, expected)
        low = self._selection.low_of(batch)
        if self._selection.held_back is not None:
            return self._held_back(batch, self._selection.held_back)
        pieces = () if low is None else self._faults(self._assembler.add(batch, low, self._selection.end_offset))
        if self._cursor.found:
            return itertools.chain(self._told(batch, is_opened=low is not None), pieces)
        return pieces

    def _held_back(self, batch: RecordBatch, transaction: Undecided) -> Iterator[pa.RecordBatch | Damage]:
        yield from self._flushed()
        end = batch.position + batch.size
        damage = self._damage(transaction.finding, batch.position, end, batch.header.first_offset)
        yield replace(damage, finding=transaction.finding, next_offset=batch.header.first_offset)

    def _told(
        self, batch: RecordBatch, *, is_opened: bool = False, is_beside: bool = False
    ) -> Iterator[pa.RecordBatch | Damage]:
        """Add to `_later` a `Damage` with `goes_on` for each fault in the header of a batch that ends no reading, as
        `RecordReader` reports it. Three kinds of faults are omitted: gaps; an unknown compression if the batch is
        opened, which reports it again; in the log's last segment, an overlap with a next one. Usually nothing is
        yielded. When 256 faults wait, they and the collected rows are yielded.
        """
        not_told = {FindingCode.OFFSET_GAP, FindingCode.CODEC_UNKNOWN if is_opened else None}
        if self._slice.next_base is None:  # the cursor of a part in the middle has a bound in its place
            not_told.add(FindingCode.SEGMENT_OVERLAP)
        for finding in self._cursor.found:
            if finding.code not in not_told:
                end = batch.position + batch.size
                damage = self._damage(finding, batch.position, end, batch.header.first_offset)
                finding = replace(finding, file=self._slice.path)
                self._later.append(replace(damage, finding=finding, goes_on=True, is_beside=is_beside))
        if len(self._later) >= _MOST_LATER:
            yield from self._flushed()

    def _flushed(self) -> Iterator[pa.RecordBatch | Damage]:
        """Yield all collected rows and the damage among them, and then what is left of `_later`."""
        yield from self._faults(self._assembler.flush())
        later, self._later = self._later, []
        yield from later

    def _passed_by(self, batch: RecordBatch, expected: int) -> Iterator[pa.RecordBatch | Damage]:
        """Handle a batch that ends a consumer's reading even if its checksum is valid. Yield the completed rows and
        header faults, then the damage. `expected` is the offset that should come here, apart from offsets that earlier
        such batches claim. If it is at or after the end of the view, yield nothing and end the reading.

        The next damage after a batch with a wrong base offset (`BatchVerdict.DISPLACED`) is placed at the end of that
        batch. The batch's offsets stay wanted, because a later batch or segment may have them.
        """
        selection, wanted = self._selection, self._slice
        # an earlier batch that no consumer reads past claims offsets that do not count
        if min(expected, max(selection.next_offset, wanted.base_offset, wanted.expected or 0)) >= selection.end_offset:
            selection.next_offset = selection.end_offset
            return
        why, found = self._cursor.why, self._cursor.found
        self._cursor.found = [finding for finding in found if finding != why]
        yield from self._told(batch, is_beside=True)
        yield from self._flushed()
        yield self._damage(why, batch.position, batch.position + batch.size, expected)
        is_possible = self._cursor.next_offset <= self._most
        if self._cursor.continuity.verdict is BatchVerdict.DISPLACED and is_possible:
            self._placed = max(self._placed, self._cursor.next_offset)

    def _faults(self, pieces: Iterable[pa.RecordBatch | Fault]) -> Iterator[pa.RecordBatch | Damage]:
        for piece in pieces:
            if isinstance(piece, Fault):
                batch = piece.batch
                while self._later and self._later[0].start <= batch.position:
                    yield self._later.pop(0)
                end = batch.position + batch.size
                first = batch.header.first_offset
                damage = self._damage(piece.finding, batch.position, end, first)
                lost = piece.finding.offset if piece.next_offset is None else min(piece.next_offset, batch.last_offset)
                yield replace(damage, next_offset=max(first if lost is None else lost, self._slice.start_offset))
            else:
                yield piece
            del piece
