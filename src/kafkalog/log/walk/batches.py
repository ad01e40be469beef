"""Scan the batches of several segments up to damage. An incomplete batch or zeros at the end of the last segment are
the end of the log. Anything else is damage that a consumer cannot pass: the scan stops there with a finding, unless it
is asked to continue after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.common.findings import Finding, FindingCode, Severity, StopReason
from kafkalog.codec.common.limits import DEFAULT_LIMITS, MIB, Limits
from kafkalog.codec.common.source import Source
from kafkalog.codec.common.wording import counted
from kafkalog.codec.model import BATCH, RecordBatch
from kafkalog.codec.native.library import is_there
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.codec.rules.batches import BatchVerdict
from kafkalog.log.disk.files import FileSource
from kafkalog.log.disk.held_files import HeldFiles
from kafkalog.log.walk.batch_filter import BatchFilter
from kafkalog.log.walk.cursor import ENDING, Cursor
from kafkalog.log.walk.ending import EndOfWalk
from kafkalog.log.walk.on_damage import raised
from kafkalog.log.walk.segment import Segment, index_of
from kafkalog.log.walk.time_lookup import older_batches

if TYPE_CHECKING:
    from kafkalog.codec.headers.one_batch import AnyRun, OneBatch
    from kafkalog.codec.headers.run_scanner import RunScanner
    from kafkalog.codec.headers.runs import BatchRun

__all__ = ["SINGLY", "BatchReader", "LateRuns", "Passed", "RunsThenBatches", "scanner_of_runs"]

SINGLY = MIB
"""Bytes after damage that are scanned batch by batch: a scan may end soon, and runs need large windows."""
_LOWEST = -(2**63)


class Passed(Struct, frozen=True, kw_only=True):
    """A place that a scan could not read or does not pass."""

    segment: Segment
    position: int
    next_offset: int
    """offset that should come there"""
    finding: Finding
    head: bytes
    """bytes at that place, at most as many as a header"""


class BatchReader:
    """Iterator over the batches of `segments`. During the scan, `segment` is the segment of the latest batch, and
    `findings` has the faults so far. `start_offset` skips batches that end below it, using the offset index.
    `start_timestamp` (ms) may skip older batches, using the time index. With `through_damage` the scan continues after
    damage, at the next batch that is proven to continue the log (see `Resync`). Batches that the filter `batches` does
    not accept are skipped. `on_bytes` is called with the number of log bytes of each batch or run. With `hold` the
    files are kept open from the reader's creation on, see `HeldFiles`. Raises `StorageError`, and with `raises` also
    `FormatError` if damage ends the scan.
    """

    def __init__(
        self,
        segments: Sequence[Segment],
        *,
        start_offset: int | None = None,
        start_timestamp: int | None = None,
        through_damage: bool = False,
        raises: bool = False,
        batches: BatchFilter | None = None,
        limits: Limits = DEFAULT_LIMITS,
        on_bytes: Callable[[int], None] | None = None,
        hold: bool = True,
    ) -> None:
        self._segments = tuple(segments[0 if start_offset is None else index_of(segments, start_offset) :])
        self._files = HeldFiles([segment.path for segment in self._segments] if hold else ())
        self._start_offset = start_offset
        self._start_timestamp = start_timestamp
        self._through_damage = through_damage
        self._raises = raises
        self._filter = batches
        self._limits = limits
        self._on_bytes = on_bytes
        self._runs_after = 0
        self.segment: Segment | None = None
        self.findings: list[Finding] = []
        self.stop: StopReason | None = None
        self.expected: int | None = None
        """offset that should come where the latest batch is; None if any is accepted. Unknown for a run"""
        self.is_displaced = False
        """whether the latest batch belongs at `expected`, because its base offset is wrong"""
        self.passed: list[Passed] = []
        """damage so far, in order; not that at the end of a log"""
        self.damaged_at: tuple[Segment, int] | None = None
        """segment and position of the damage that ended the scan; None at the end of a log"""

    @property
    def damaged(self) -> bool:
        """Whether the scan found damage other than the tail of the log."""
        return any(finding.severity is Severity.ERROR for finding in self.findings)

    def __iter__(self) -> Iterator[RecordBatch]:
        for run in self.by_one():
            yield run.batch(0)

    def by_one(self) -> Iterator[OneBatch]:
        """Return an iterator over the batches, each as a run of one."""
        return cast("Iterator[OneBatch]", self._walk(runs=False))

    def by_run(self, *, after: int = 0) -> Iterator[BatchRun | OneBatch]:
        """Return an iterator over the batches that can yield consecutive v2 batches without findings as one run. Other
        batches, and some of these, are runs of one; without compiled code, all are. The first `after` bytes come batch
        by batch, so that a caller that needs few records gets them soon.
        """
        self._runs_after = after
        return self._walk(runs=is_there())

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self._segments)

    def is_passed(self, batch: RecordBatch) -> bool:
        """Whether a scan through damage has reported `batch`, the latest one, as damage: its records are not given."""
        last = self.passed[-1] if self.passed else None
        return last is not None and (last.segment, last.position) == (self.segment, batch.position)

    def _walk(self, *, runs: bool) -> Iterator[AnyRun]:
        try:
            for number, segment in enumerate(self._segments):
                self.segment = segment
                yield from self._one(segment, number, runs)
                is_last = number + 1 == len(self._segments)
                if self.stop is not StopReason.END and not is_last and not self._through_damage:
                    break
                self._files.passed(segment.path)
        finally:
            self._files.close()
        if self._raises and self.damaged_at is not None:
            raise raised(self.findings[-1])

    def _one(self, segment: Segment, number: int, runs: bool) -> Iterator[AnyRun]:
        start_offset = self._start_offset if number == 0 else None
        next_base = self._segments[number + 1].base_offset if number + 1 < len(self._segments) else None
        low = _LOWEST if start_offset is None else start_offset
        with self._files.open(segment.path) as source:
            position, reached = 0, None
            if start_offset is not None:
                position = segment.position_of(start_offset, source, limits=self._limits)
            if self._start_timestamp is not None:
                older = older_batches(segment, source, self._start_timestamp, limits=self._limits)
                if older.end > position:
                    position, reached = older.end, older.next_offset
            cursor = Cursor(
                source, segment.base_offset, next_base, position=position, expected=reached, limits=self._limits
            )
            while True:
                scanner = self._scanner(source, cursor.position, runs)
                for run in cursor.judged(scanner, gaps=True):
                    self.expected = run.expected
                    if self._stops(run, cursor, segment, source):
                        return
                    wanted: AnyRun | None = run.reaching(low)
                    if wanted is not None and self._filter is not None:
                        wanted = self._filter.accepted(wanted)
                    if wanted is not None:
                        yield wanted
                    if self._on_bytes is not None:
                        self._on_bytes(run.size)
                ended = cursor.ended(scanner, through_damage=self._through_damage)
                self.findings += [finding.in_file(segment.path) for finding in ended.findings]
                if ended.stop is not StopReason.END and not ended.is_tail:
                    self._note(segment, ended.position, cursor.next_offset, self.findings[-1], source)
                if ended.resumed is None or not self._through_damage:
                    break
                cursor.resume(ended.resumed)
                self._runs_after = max(self._runs_after, SINGLY)
            self._stop(ended, segment)

    def _scanner(self, source: FileSource, position: int, runs: bool) -> Scanner | RunScanner | LateRuns:
        if not runs:
            return Scanner(source, position=position, limits=self._limits)
        if self._runs_after > 0:
            end, self._runs_after = position + self._runs_after, 0
            return LateRuns(source, position, end, self._limits)
        return _run_scanner(source, position, self._limits)

    def _note(self, segment: Segment, position: int, expected: int, finding: Finding, source: FileSource) -> None:
        head = source.read(position, BATCH.size)
        self.passed.append(Passed(
            segment=segment, position=position, next_offset=expected, finding=finding.in_file(segment.path), head=head
        ))

    def _stops(self, run: AnyRun, cursor: Cursor, segment: Segment, source: FileSource) -> bool:
        """Append the findings about the next run to `findings`, except gaps in the offsets. Return True if the scan
        ends at this run; `stop` and `damaged_at` are then set, and the decisive finding is the last one. Return False
        if a consumer can pass it, or if the scan continues through damage. A batch that a consumer cannot pass is also
        added to `passed`. Sets `is_displaced`.
        """
        self.is_displaced = run.verdict is BatchVerdict.DISPLACED
        if not run.findings:
            return False
        findings = [finding for finding in run.findings if finding.code is not FindingCode.OFFSET_GAP]
        self.findings.extend(finding.in_file(segment.path) for finding in findings)
        if run.verdict in ENDING:
            self._note(segment, run.position(0), run.reached, cursor.why, source)
        if self._through_damage or run.verdict not in ENDING:
            return False
        self.findings.append(self.findings.pop(self.findings.index(cursor.why.in_file(segment.path))))
        self._stop(_at_a_batch(run.batch(0)), segment)
        return True

    def stop_at(self, finding: Finding, batch: RecordBatch) -> None:
        """Record that the scan cannot pass `batch`, the latest one. For callers that decode the batches."""
        self.findings.append(finding)
        if self.segment is not None:
            self._stop(_at_a_batch(batch), self.segment)

    def _stop(self, ended: EndOfWalk, segment: Segment) -> None:
        self.stop = ended.stop
        if ended.stop is not StopReason.END and not ended.is_tail:
            self.damaged_at = segment, ended.position
        if ended.stop is StopReason.END or self._through_damage or not self.findings:
            return
        later = self._segments[self._segments.index(segment) + 1 :]
        if not later:
            return
        size = sum(following.size for following in later)
        left = segment.size - ended.position
        more = f"; {left} bytes here and {counted(len(later), 'segment')} ({size} bytes) after were not read"
        self.findings[-1] = replace(self.findings[-1], detail=self.findings[-1].detail + more)


def _run_scanner(source: Source, position: int, limits: Limits, check_crc: bool = True) -> RunScanner:
    from kafkalog.codec.headers.run_scanner import RunScanner

    return RunScanner(source, position=position, check_crc=check_crc, limits=limits)


def scanner_of_runs(source: Source) -> RunScanner | None:
    """Return a scanner that yields the log in runs; None without compiled code."""
    return _run_scanner(source, 0, DEFAULT_LIMITS) if is_there() else None


class RunsThenBatches:
    """Iterator over `runs`, which begin at byte 0 and end at damage or at the end of the log, and then over the
    remaining batches one by one. Afterwards `end` is the scanner of the remaining batches.
    """

    def __init__(
        self, runs: Iterable[BatchRun | RecordBatch], source: Source, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self._runs = runs
        self._source = source
        self._limits = limits
        self.end: Scanner

    def __iter__(self) -> Iterator[BatchRun | RecordBatch]:
        position = 0
        for found in self._runs:
            yield found
            position = found.end
        self.end = Scanner(self._source, position=position, limits=self._limits)
        yield from self.end


class LateRuns:
    """Scanner that yields batches one by one up to position `end`, and runs after it."""

    def __init__(self, source: Source, position: int, end: int, limits: Limits, *, check_crc: bool = True) -> None:
        self._source = source
        self._end = end
        self._limits = limits
        self._check_crc = check_crc
        self._now: Scanner | RunScanner = Scanner(source, position=position, check_crc=check_crc, limits=limits)

    @property
    def valid_bytes(self) -> int:
        """Position after the last valid batch."""
        return self._now.valid_bytes

    @property
    def stop(self) -> StopReason | None:
        """Reason for stopping; None before the end."""
        return self._now.stop

    @property
    def findings(self) -> Sequence[Finding]:
        """Faults at the end."""
        return self._now.findings

    def __iter__(self) -> Iterator[BatchRun | RecordBatch]:
        for batch in self._now:
            yield batch
            if self._now.valid_bytes >= self._end:
                self._now = _run_scanner(self._source, self._now.valid_bytes, self._limits, self._check_crc)
                yield from self._now
                return


def _at_a_batch(batch: RecordBatch) -> EndOfWalk:
    """Return the end of a scan at a batch that it does not pass."""
    return EndOfWalk(position=batch.position, stop=StopReason.CORRUPT, findings=(), resumed=None)
