"""Read one copy of a partition from its first byte to its last, as stretches of sound batches. Damage is skipped and
recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.common.findings import Finding, FindingCode, Severity, StopReason
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.common.source import Source
from kafkalog.codec.headers.one_batch import OneBatch
from kafkalog.codec.model import RecordBatch
from kafkalog.codec.native.library import is_there
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.codec.rules.batches import BatchVerdict, out_of_place
from kafkalog.copies.jumps import Displaced, Jumps
from kafkalog.copies.stretches import Stretch, stretch_of
from kafkalog.log.disk.files import FileSource
from kafkalog.log.walk.batches import SINGLY, LateRuns
from kafkalog.log.walk.cursor import ENDING, Cursor, judged
from kafkalog.log.walk.segment import Segment

if TYPE_CHECKING:
    from kafkalog.codec.headers.run_scanner import RunScanner
    from kafkalog.codec.headers.runs import BatchRun

__all__ = ["CopyWalk", "Resumes"]

_MOST_RESUMES = 10_000
"""Most places that are remembered; further ones are searched for again."""

Resumes = dict[tuple[str, int], int | None]
"""(file, position) of damage -> position at which the log continues, None if it does not in this file"""


class _Stop(Struct, frozen=True):
    """Place at which a sequence of sound batches ends before its file does."""

    finding: Finding
    is_zero: bool
    """whether there are only zeros up to the end of the file"""


class CopyWalk:
    """Iterator over the stretches of a partition's segments: sequences of sound batches in one file. Holds one window
    of one file at a time. Raises only `StorageError`.

    * `damage` is the first damage, `damaged_places` the number of damaged places.
    * `end_offset` is the offset after the last sound batch so far, but up to the first damage not below a segment's
      base offset; `sound_end_offset` is its value at the first damage, None without damage.
    * `jumps` are batches that begin above the expected offset and were not disproved.
    * `check_crc` False: checksums are not verified, for logs that were walked before and are undamaged.
    * `resumes` is filled with the places at which the walk continues after damage; a later walk need not search for
      them.
    * `displaced` are batches whose offsets other copies disprove; they count as damage.
    * `on_bytes` is called with the number of log bytes passed since the last call.
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
        """expected offset at the last batch that jumped ahead and was followed by lower offsets; None before"""
        self.jumps = Jumps()
        self.damage: Finding | None = None
        self.damaged_places = 0
        self.sound_end_offset: int | None = None
        """None if nothing is damaged"""
        self.end_offset = segments[0].base_offset if segments else 0
        self._by_columns = is_there()

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
            damaged_at = stop.finding.position or 0
            position = None if stop.is_zero else self._resumed(segment.path, cursor, damaged_at)
            self._behind_damage = True
            self._tell((source.size if position is None else position) - damaged_at)
            if position is not None:
                cursor.resume(position)

    def _resumed(self, path: str, cursor: Cursor, damaged_at: int) -> int | None:
        key = (path, damaged_at)
        if key in self._resumes:
            return self._resumes[key]
        resumed = cursor.search(damaged_at, self._highest + 1)
        if len(self._resumes) < _MOST_RESUMES:
            self._resumes[key] = resumed
        return resumed

    def _sound(
        self, segment: Segment, source: FileSource, position: int, cursor: Cursor
    ) -> Generator[Stretch, None, _Stop | None]:
        """Yield the sound batches of a file from byte `position` on, as stretches. The generator's return value is the
        damage that ends them, or None at the end of the file. A batch that only repeats earlier offsets is skipped; it
        does not count as damage. Advances `cursor`, updates the walk's end offset and jumps, and calls `on_bytes`.
        Raises `StorageError` if the file cannot be read.
        """
        scanner = self._scanner(source, position)
        scanned = (piece for found in scanner for piece in self._apart(found, segment))
        for run in judged(scanned, cursor.continuity, partial(self._judged, cursor, segment), gaps=True):
            for finding in run.findings:
                return _Stop(replace(finding, severity=Severity.ERROR, file=segment.path), is_zero=False)
            if run.verdict is BatchVerdict.REPEATS:
                self._tell(run.size)
            else:
                yield self._passed(stretch_of(segment.path, run), segment.base_offset)
        if scanner.stop is StopReason.END:
            return None
        finding = replace(scanner.findings[-1], file=segment.path, position=scanner.valid_bytes)
        return _Stop(finding, is_zero=scanner.stop is StopReason.ZERO_TAIL)

    def _apart(self, piece: BatchRun | RecordBatch, segment: Segment) -> Iterator[BatchRun | RecordBatch]:
        """Split `piece`, a run of batches of a segment, and yield its parts in order. A batch that cannot be in the
        segment (`out_of_place`), or whose offset another copy disproves (`displaced`), is yielded alone; the batches
        between such ones are yielded as runs. A piece that is a single batch is yielded unchanged.
        """
        if isinstance(piece, RecordBatch):
            yield piece
            return
        number = 0
        for position in sorted(place for file, place in self._displaced if file == segment.path):
            disproved = piece.number_at(position)
            if disproved is not None:
                yield from _in_place(piece.part(number, disproved), segment.base_offset)
                yield piece.batch(disproved)
                number = disproved + 1
        yield from _in_place(piece.part(number, len(piece)), segment.base_offset)

    def _judged(self, cursor: Cursor, segment: Segment, batch: RecordBatch) -> OneBatch:
        wrong = self._wrong(batch, cursor, segment)
        return OneBatch(batch, cursor.continuity.verdict, () if wrong is None else (wrong,))

    def _wrong(self, batch: RecordBatch, cursor: Cursor, segment: Segment) -> Finding | None:
        """Return the finding if a batch with a valid checksum counts as damage; None if it is sound. It counts as
        damage if another copy disproves its offset, or if its offset or format does not fit the segment. In these cases
        the cursor is not advanced. In all others it is advanced, and a batch past which a consumer cannot read counts
        as damage. So does a batch that begins at or below the highest offset so far, unless it only repeats earlier
        batches.
        """
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
        if any(finding.code is FindingCode.OFFSET_DISPLACED for finding in cursor.found):
            self._doubted_from = expected
        is_new = self._doubted_from is not None and first >= self._doubted_from
        if first <= before and (verdict is BatchVerdict.KEEP or is_new):
            return found(FindingCode.OFFSET_NOT_INCREASING, after)
        return None

    def _scanner(self, source: Source, position: int) -> Scanner | RunScanner | LateRuns:
        if not self._by_columns:
            return Scanner(source, position=position, check_crc=self._check_crc, limits=self._limits)
        if position:  # behind damage, where a walk may end soon
            return LateRuns(source, position, position + SINGLY, self._limits, check_crc=self._check_crc)
        from kafkalog.codec.headers.run_scanner import RunScanner

        return RunScanner(source, position=position, check_crc=self._check_crc, limits=self._limits)

    def _passed(self, stretch: Stretch, base: int) -> Stretch:
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


def _in_place(run: BatchRun, base_offset: int) -> Iterator[BatchRun | RecordBatch]:
    """Yield the batches of a run in order. Consecutive batches that can be in the segment with this base offset are
    yielded as a run, every other batch alone.
    """
    from kafkalog.codec.headers.continuity import in_place

    while len(run):
        count = in_place(run, base_offset)
        if count:
            yield run.part(0, count)
        if count < len(run):
            yield run.batch(count)
            count += 1
        run = run.part(count, len(run))
