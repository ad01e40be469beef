"""One copy of a partition from its first byte to its last: every sound batch, damage passed by and noted.

What counts as sound, and where a log goes on after damage, is what `salvage` holds for it: a batch must continue the
offsets before it, and after damage it must be proven (`resync`).  Nor is a batch sound whose offset jumps ahead where
something contradicts that (`jumps`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkalog.codec.findings import Finding, FindingCode, Severity, StopReason
from kafkalog.codec.framing import first_batch_bytes
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import RecordBatch
from kafkalog.codec.scan import Scanner
from kafkalog.codec.source import Source
from kafkalog.codec.thresholds import headers_are_worth_it
from kafkalog.log.disk.files import FileSource
from kafkalog.log.walk.resync import NO_OFFSET_LIMIT, Expected, Resync
from kafkalog.log.walk.segment import Segment
from kafkalog.recovery.copies.jumps import Displaced, Jumps, Wrong, first_wrong
from kafkalog.recovery.copies.stretches import OneBatch, Run, Stretch
from kafkalog.recovery.damage.soundness import offset_problem

if TYPE_CHECKING:
    from kafkalog.codec.headers.run_scanner import RunScanner
    from kafkalog.codec.headers.runs import BatchRun

__all__ = ["CopyWalk", "Resumes"]

_MOST_RESUMES = 10_000
"""Places that are remembered, at most; where there are more they are searched for again."""

Resumes = dict[tuple[str, int], int | None]
"""(file, position) of damage -> where the log goes on after it, None if nowhere in this file"""


@dataclass(frozen=True, slots=True)
class _Stop:
    """Where a stretch of sound batches ends before its file does."""

    finding: Finding
    is_zero: bool
    """nothing but zeros to the end of the file"""


class CopyWalk:
    """Iterates over the stretches of sound batches of a partition's segments; holds one window of one file at a time.

    `damage` is the first place that is not sound, `damaged_places` how many there are, `end_offset` is after the last
    sound batch so far, or the base of the last segment; `sound_end_offset` is what `end_offset` was at the first
    damage.  Without `check_crc` checksums are taken as right: for logs that were walked before and are undamaged.
    `resumes` are filled, and spare a later walk over the same files the search after damage.  `displaced` are batches
    whose offsets other copies disprove: they are damage.  `jumps` are those that none has been asked about.  `on_bytes`
    is told how many bytes of log were passed.  Raises `StorageError` only.
    """

    def __init__(
        self,
        segments: Sequence[Segment],
        *,
        check_crc: bool = True,
        resumes: Resumes | None = None,
        displaced: Displaced | None = None,
        limits: Limits = DEFAULT_LIMITS,
        on_bytes: Callable[[int], None] | None = None,
    ) -> None:
        self._segments = tuple(segments)
        self._check_crc = check_crc
        self._resumes: Resumes = {} if resumes is None else resumes
        self._displaced: Displaced = {} if displaced is None else displaced
        self._limits = limits
        self._on_bytes = on_bytes
        self._highest = -1
        self._behind_damage = False
        self.jumps = Jumps()
        self.damage: Finding | None = None
        self.damaged_places = 0
        self.sound_end_offset: int | None = None
        """None where nothing is damaged"""
        self.end_offset = segments[0].base_offset if segments else 0
        work = sum(segment.size for segment in segments)
        self._by_columns = bool(segments) and headers_are_worth_it(work, self._batch_bytes)

    def _batch_bytes(self) -> int:
        with max(self._segments, key=lambda segment: segment.size).open() as source:
            return first_batch_bytes(lambda: source)

    def __iter__(self) -> Iterator[Stretch]:
        for number, segment in enumerate(self._segments):
            following = self._segments[number + 1].base_offset if number + 1 < len(self._segments) else None
            if self.sound_end_offset is None:
                self.end_offset = max(self.end_offset, segment.base_offset)
            with segment.open() as source:
                yield from self._segment(segment, source, following)

    def _segment(self, segment: Segment, source: FileSource, following: int | None) -> Iterator[Stretch]:
        position: int | None = 0
        while position is not None:
            stop = yield from self._sound(segment, source, position, following)
            if stop is None:
                return
            self._note(stop.finding, following is not None)
            at = stop.finding.position or 0
            position = None if stop.is_zero else self._resumed(segment, source, at, following)
            self._behind_damage = True
            self._tell((source.size if position is None else position) - at)

    def _resumed(self, segment: Segment, source: Source, at: int, following: int | None) -> int | None:
        key = (segment.path, at)
        if key in self._resumes:
            return self._resumes[key]
        expected = Expected.in_segment(self._highest + 1, following)
        found = Resync(source).next_batch(at, expected)
        if len(self._resumes) < _MOST_RESUMES:
            self._resumes[key] = found
        return found

    def _sound(
        self, segment: Segment, source: FileSource, position: int, following: int | None
    ) -> Generator[Stretch, None, _Stop | None]:
        """The sound batches from a position on, and what ends them; None where it is the file's end."""
        base = segment.base_offset
        scanner = self._scanner(source, position)
        for found in scanner:
            whole = OneBatch(segment.path, found) if isinstance(found, RecordBatch) else Run(segment.path, found)
            count = self._sound_rows(whole, base)
            wrong = first_wrong(
                whole, count, source, base=base, before=self._highest, following=following, known=self._displaced
            )
            count = count if wrong is None else wrong.number
            if count:
                part = whole
                if isinstance(whole, Run) and count < len(whole):
                    part = Run(segment.path, whole.run.part(0, count))
                yield self._passed(part, base)
            if count < len(whole):
                wrong = wrong or self._problem(whole, count, base)
                place, offset = whole.position(count), whole.row(count).first
                return _Stop(
                    Finding(wrong.code, Severity.ERROR, place, offset, wrong.detail, segment.path), is_zero=False
                )
        if scanner.stop is StopReason.END:
            return None
        finding = replace(scanner.findings[-1], file=segment.path, position=scanner.valid_bytes)
        return _Stop(finding, is_zero=scanner.stop is StopReason.ZERO_TAIL)

    def _problem(self, stretch: OneBatch | Run, number: int, base: int) -> Wrong:
        row = stretch.row(number)
        code, detail = offset_problem(row.magic, row.first, row.last, base, self._highest) or (
            FindingCode.OFFSET_NOT_INCREASING, f"offset {row.first} after {self._highest}"
        )  # fmt: skip
        return Wrong(number, code, detail)

    def _scanner(self, source: Source, position: int) -> Scanner | RunScanner:
        if not self._by_columns:
            return Scanner(source, position=position, check_crc=self._check_crc, limits=self._limits)
        from kafkalog.codec.headers.run_scanner import RunScanner

        return RunScanner(source, position=position, check_crc=self._check_crc, limits=self._limits)

    def _sound_rows(self, stretch: OneBatch | Run, base: int) -> int:
        """How many batches of a stretch are sound where they are, from the first on."""
        if isinstance(stretch, OneBatch):
            row = stretch.row(0)
            return int(offset_problem(row.magic, row.first, row.last, base, self._highest) is None)
        return _sound_prefix(stretch.run, base, self._highest)

    def _passed(self, stretch: OneBatch | Run, base: int) -> Stretch:
        self.jumps.note(stretch, max(self._highest + 1, base))
        stretch.behind_damage, self._behind_damage = self._behind_damage, False
        last = stretch.row(len(stretch) - 1)
        self._highest = last.last
        self.end_offset = last.last + 1
        first = stretch.position(0)
        self._tell(stretch.position(len(stretch) - 1) + last.size - first)
        return stretch

    def _tell(self, count: int) -> None:
        if self._on_bytes is not None:
            self._on_bytes(count)

    def _note(self, finding: Finding, is_followed: bool) -> None:
        self.damaged_places += 1
        if self.damage is None:
            severity = Severity.ERROR if is_followed else finding.severity
            self.damage = replace(finding, severity=severity)
            self.sound_end_offset = self.end_offset


def _sound_prefix(run: BatchRun, base: int, highest: int) -> int:
    """How many batches of a run are without an `offset_problem`, from the first on; `highest` is the offset before."""
    first, last = run["base_offset"], run.last_offsets
    fine = (first >= 0) & (last >= first) & (last >= base) & (last < NO_OFFSET_LIMIT)
    fine[0] &= bool(first[0] > highest)
    fine[1:] &= first[1:] > last[:-1]
    return len(run) if fine.all() else int(fine.argmin())
