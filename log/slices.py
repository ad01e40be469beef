"""Reading a part of one segment into Arrow batches: what `Partition.to_arrow` chains and a Spark task does.

What a consumer is given is decided in `consumer_view`.  Damage is given out as such between the rows, in its place.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from kafkalog.codec.columnar.assembler import ArrowAssembler, Fault
from kafkalog.codec.findings import Finding, FindingCode, Severity, StopReason
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import NO_END, AbortedTransaction, RecordBatch
from kafkalog.codec.rules import MAX_RELATIVE_OFFSET, Continuity, ends_reading
from kafkalog.codec.scan import Scanner
from kafkalog.log.batch_filter import BatchFilter
from kafkalog.log.consumer_view import ConsumerView, Selection
from kafkalog.log.end_of_walk import end_of_walk
from kafkalog.log.files import FileSource
from kafkalog.log.held_files import HeldFiles
from kafkalog.log.resync import Expected, Resync
from kafkalog.log.walk import STOPPING

if TYPE_CHECKING:
    from kafkalog.codec.headers.message_runs import MessageRun
    from kafkalog.codec.headers.run_scanner import RunScanner
    from kafkalog.codec.headers.runs import BatchRun

__all__ = ["NO_END", "Damage", "Slice", "SliceReader"]


@dataclass(frozen=True, slots=True)
class Slice:
    """Bytes of one log file, from the beginning of a batch on, and the offsets that are wanted of them."""

    path: str
    start: int
    end: int
    base_offset: int
    """of the segment"""
    start_offset: int
    """records below are not wanted"""
    end_offset: int = NO_END
    """records from here on are not wanted"""
    is_last: bool = False
    """nothing of the log comes after it: where it ends unfinished, the log ends"""
    opens_from: int | None = None
    """where the whole read begins, if this part of it begins later; see `Selection`"""

    @property
    def size(self) -> int:
        """Bytes."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that cannot be read as records, or not all of them."""

    finding: Finding
    start: int
    end: int
    next_offset: int
    """the offset that should come here"""
    is_missing: bool = False
    """the file is shorter than it was when it was listed"""
    goes_on: bool = False
    """reading goes on with what comes after, and all of it was read: offsets repeat"""


class SliceReader:
    """Iterates over Arrow batches and damage; afterwards `next_offset` is the one after the last batch.

    With `tolerant` it goes on after damage with the next valid batch, else damage is the last thing it gives.  Of
    batches that `batches` does not accept, only the checksums are examined.  The file is one of `files`, if given.
    With `tells_of_repeats` the first batch that begins below the end of one before it is told of: what is repeated is
    not read again.
    Raises `StorageError` where the file cannot be opened or read.
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
        tells_of_repeats: bool = False,
    ) -> None:
        self._slice = wanted
        self._tells_of_repeats = tells_of_repeats
        view = ConsumerView(wanted.start_offset, wanted.end_offset, tuple(aborted or ()), batches)
        self._selection = Selection(view, opens_from=wanted.opens_from)
        self._open = FileSource if files is None else files.open
        self._assembler = assembler
        self._tolerant = tolerant
        self._limits = limits
        self._complete: list[pa.RecordBatch | Fault] = []

    @property
    def next_offset(self) -> int:
        """The one after the last batch so far."""
        return self._selection.next_offset

    def __iter__(self) -> Iterator[pa.RecordBatch | Damage]:
        for piece in self._pieces():
            is_last = isinstance(piece, Damage) and not self._tolerant and not piece.goes_on
            yield piece
            if is_last:
                return
            del piece  # the next one may be as large

    def _pieces(self) -> Iterator[pa.RecordBatch | Damage]:
        wanted = self._slice
        position = wanted.start
        with self._open(wanted.path) as source:
            resync = Resync(source, self._limits)
            while position < min(wanted.end, source.size):
                scanner = self._scanner(source, position)
                for found in self._found(scanner):
                    yield from self._taken()
                    if found is not None:
                        yield from self._batch(found) if isinstance(found, RecordBatch) else self._run(found)
                        del found
                    if self._assembler.is_full or (not isinstance(scanner, Scanner) and scanner.is_large_next):
                        yield from self._faults(self._assembler.flush())
                    if self._selection.is_over:
                        break
                yield from self._taken()
                yield from self._faults(self._assembler.flush())
                position = scanner.valid_bytes
                if scanner.stop is None or scanner.stop is StopReason.END:
                    break
                is_tail = scanner.stop in (StopReason.TORN_TAIL, StopReason.ZERO_TAIL)
                if is_tail and source.size_now() < wanted.end:
                    break
                end = min(wanted.end, source.size)
                ended = end_of_walk(scanner, resync, self._expected(), through_damage=self._tolerant, end=end)
                if ended.is_tail:
                    break
                position = end if ended.resumed is None else ended.resumed
                for finding in ended.findings:
                    yield self._damage(finding, ended.position, position)
            size = source.size_now()
            if max(position, size) < wanted.end and not self._selection.is_over:
                detail = f"the file has {size} bytes, and had at least {wanted.end} when it was listed"
                finding = Finding(FindingCode.TORN_TAIL, Severity.ERROR, position, self.next_offset, detail)
                yield replace(self._damage(finding, position, wanted.end), is_missing=True)

    def _scanner(self, source: FileSource, position: int) -> Scanner | RunScanner:
        if not self._assembler.takes_runs:
            return Scanner(source, position=position, end=self._slice.end, limits=self._limits)
        from kafkalog.codec.headers.run_scanner import RunScanner

        return RunScanner(source, position=position, end=self._slice.end, limits=self._limits)

    def _found(self, scanner: Scanner | RunScanner) -> Iterator[RecordBatch | BatchRun | MessageRun | None]:
        if isinstance(scanner, Scanner):
            return iter(scanner)
        # what a filter leaves out is not decoded, so batches are not taken straight on then
        if not self._selection.takes_windows:
            return iter(scanner.all_runs())
        return scanner.not_decoded_by(self._window, keeps=self._assembler.has_views)

    def _window(self, window: bytes | memoryview, position: int) -> tuple[int, bool]:
        """Take what a kernel decodes of a window, see `WindowDecoder`.  What it completes waits for `_taken`."""
        from kafkalog.codec.columnar.run_decoder import Order

        selection = self._selection
        order = Order(selection.next_offset, self._slice.base_offset, selection.end_offset, selection.flags)
        taken, enough, complete = self._assembler.add_window(window, order)
        self._complete += complete
        selection.next_offset = order.next_offset
        return taken, enough

    def _taken(self) -> Iterable[pa.RecordBatch | Damage]:
        if not self._complete:
            return ()
        complete, self._complete = self._complete, []
        return self._faults(complete)

    def _run(self, run: BatchRun | MessageRun) -> Iterator[pa.RecordBatch | Damage]:
        """What many batches complete: as `_batch` one by one, without examining each where all are ordinary."""
        for part in self._selection.parts(run, self._slice.base_offset):
            if isinstance(part, RecordBatch):
                yield from self._batch(part)
            else:
                yield from self._faults(self._assembler.add_run(*part, self._selection.end_offset))

    def _expected(self) -> Expected:
        """What the next batch after damage must continue."""
        wanted = self._slice
        seen = self.next_offset > wanted.start_offset  # else what is wanted may begin inside a batch below it
        first = self.next_offset if seen else wanted.base_offset
        return Expected.in_segment(first, None if wanted.is_last else wanted.base_offset + MAX_RELATIVE_OFFSET + 1)

    def _damage(self, finding: Finding, start: int, end: int) -> Damage:
        error = replace(finding, severity=Severity.ERROR, file=self._slice.path)
        return Damage(error, start, end, self.next_offset)

    def _batch(self, batch: RecordBatch) -> Iterable[pa.RecordBatch | Damage]:
        """What a batch completes: nothing, most of the time; it is taken as that is read."""
        if ends_reading(batch.header, self._slice.base_offset):
            return self._stopped(batch)
        reached = self.next_offset
        low = self._selection.low_of(batch)
        pieces = () if low is None else self._faults(self._assembler.add(batch, low, self._selection.end_offset))
        if self._selection.repeats and self._tells_of_repeats:
            self._tells_of_repeats = False
            return itertools.chain([self._repeated(batch, reached)], pieces)
        return pieces

    def _repeated(self, batch: RecordBatch, reached: int) -> Damage:
        first = batch.header.first_offset
        detail = f"offset {first} after {reached - 1}; what is below offset {reached} from here on is not given again"
        finding = Finding(FindingCode.OFFSET_NOT_INCREASING, Severity.ERROR, batch.position, first, detail)
        damage = self._damage(finding, batch.position, batch.position + batch.size)
        return replace(damage, goes_on=True)

    def _stopped(self, batch: RecordBatch) -> Sequence[pa.RecordBatch | Damage]:
        """What no consumer reads past, valid checksum or not."""
        stopping = next(each for each in Continuity(self._slice.base_offset).check(batch) if each.code in STOPPING)
        damage = self._damage(stopping, batch.position, batch.position + batch.size)
        return [*self._faults(self._assembler.flush()), damage]

    def _faults(self, pieces: Iterable[pa.RecordBatch | Fault]) -> Iterator[pa.RecordBatch | Damage]:
        for piece in pieces:
            if isinstance(piece, Fault):
                batch = piece.batch
                yield self._damage(piece.finding, batch.position, batch.position + batch.size)
            else:
                yield piece
            del piece
