"""One copy of a partition from its first byte to its last: every sound batch, damage passed by and noted.

What should come next, and what is done with what does, is what every reader holds for it (`Cursor`): a repeat is passed
over, a displaced batch is damage, and after damage a batch must be proven (`resync`).  More is asked where another copy
may have the right offsets: a batch that reaches into those before it is damage too, and one whose offset jumps ahead
where another copy contradicts that (`jumps`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.findings import Finding, FindingCode, Severity, StopReason
from kafkalog.codec.framing import first_batch_bytes
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import RecordBatch
from kafkalog.codec.rules import Verdict, out_of_place
from kafkalog.codec.scanner import Scanner
from kafkalog.codec.source import Source
from kafkalog.codec.thresholds import headers_are_worth_it
from kafkalog.copies.jumps import Displaced, Jumps
from kafkalog.copies.stretches import OneBatch, Run, Stretch
from kafkalog.log.disk.files import FileSource
from kafkalog.log.walk.batches import SINGLY, LateRuns
from kafkalog.log.walk.cursor import ENDING, Cursor
from kafkalog.log.walk.segment import Segment

if TYPE_CHECKING:
    from kafkalog.codec.headers.run_scanner import RunScanner
    from kafkalog.codec.headers.runs import BatchRun

__all__ = ["CopyWalk", "Resumes"]

_MOST_RESUMES = 10_000
"""Places that are remembered, at most; where there are more they are searched for again."""

Resumes = dict[tuple[str, int], int | None]
"""(file, position) of damage -> where the log goes on after it, None if nowhere in this file"""


class _Stop(Struct, frozen=True):
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
        self._doubted_from: int | None = None
        """what should have come where the batch behind one that jumped ahead went back"""
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
        expected = max(self._highest + 1, segment.base_offset)
        cursor = Cursor(source, segment.base_offset, following, expected=expected, limits=self._limits)
        while position is not None:
            stop = yield from self._sound(segment, source, position, cursor)
            if stop is None:
                return
            self._note(stop.finding, following is not None)
            at = stop.finding.position or 0
            position = None if stop.is_zero else self._resumed(segment.path, cursor, at)
            self._behind_damage = True
            self._tell((source.size if position is None else position) - at)
            if position is not None:
                cursor.resume(position)

    def _resumed(self, path: str, cursor: Cursor, at: int) -> int | None:
        key = (path, at)
        if key in self._resumes:
            return self._resumes[key]
        found = cursor.search(at, self._highest + 1)
        if len(self._resumes) < _MOST_RESUMES:
            self._resumes[key] = found
        return found

    def _sound(
        self, segment: Segment, source: FileSource, position: int, cursor: Cursor
    ) -> Generator[Stretch, None, _Stop | None]:
        """The sound batches from a position on, and what ends them; None where it is the file's end."""
        scanner = self._scanner(source, position)
        parts = (part for found in scanner for piece in self._apart(found, segment.path)
                 for part in cursor.parts(piece, gaps=True))  # fmt: skip
        for part in parts:
            if not isinstance(part, RecordBatch):
                yield self._passed(Run(segment.path, part), segment.base_offset)
                continue
            wrong = self._wrong(part, cursor, segment)
            if wrong is not None:
                return _Stop(replace(wrong, severity=Severity.ERROR, file=segment.path), is_zero=False)
            if cursor.continuity.verdict is Verdict.REPEATS:
                self._tell(part.size)
            else:
                yield self._passed(OneBatch(segment.path, part), segment.base_offset)
        if scanner.stop is StopReason.END:
            return None
        finding = replace(scanner.findings[-1], file=segment.path, position=scanner.valid_bytes)
        return _Stop(finding, is_zero=scanner.stop is StopReason.ZERO_TAIL)

    def _apart(self, found: BatchRun | RecordBatch, path: str) -> Iterator[BatchRun | RecordBatch]:
        """What was found, and apart from the rest the batches that another copy disproves."""
        if isinstance(found, RecordBatch):
            yield found
            return
        number = 0
        for position in sorted(place for file, place in self._displaced if file == path):
            at = int(found.positions.searchsorted(position))
            if at < len(found) and int(found.positions[at]) == position:
                if number < at:
                    yield found.part(number, at)
                yield found.batch(at)
                number = at + 1
        if number < len(found):
            yield found.part(number, len(found))

    def _wrong(self, batch: RecordBatch, cursor: Cursor, segment: Segment) -> Finding | None:
        """What is wrong with a batch that no other copy may take for sound, None if nothing is."""
        header, position = batch.header, batch.position
        first, last, before = header.first_offset, header.last_offset, self._highest
        after = f"offset {first} after {before}" if before >= 0 else f"offset {first}"

        def found(code: FindingCode, detail: str) -> Finding:
            return Finding(code, Severity.ERROR, position, first, detail)

        known = self._displaced.get((segment.path, position))
        if known is not None:
            return found(FindingCode.OFFSET_GAP, f"{after}, {known}")
        problem = out_of_place(header.magic, first, last, segment.base_offset)
        if problem is not None:
            return found(*problem)
        expected = cursor.expected
        verdict = cursor.judge(batch)
        if verdict in ENDING:
            return replace(cursor.why, offset=first)
        if any(each.code is FindingCode.OFFSET_DISPLACED for each in cursor.found):
            self._doubted_from = expected
        is_new = self._doubted_from is not None and first >= self._doubted_from
        if first <= before and (verdict is Verdict.KEEP or is_new):
            return found(FindingCode.OFFSET_NOT_INCREASING, after)
        return None

    def _scanner(self, source: Source, position: int) -> Scanner | RunScanner | LateRuns:
        if not self._by_columns:
            return Scanner(source, position=position, check_crc=self._check_crc, limits=self._limits)
        if position:  # behind damage, where a walk may end soon
            return LateRuns(source, position, position + SINGLY, self._limits, check_crc=self._check_crc)
        from kafkalog.codec.headers.run_scanner import RunScanner

        return RunScanner(source, position=position, check_crc=self._check_crc, limits=self._limits)

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
