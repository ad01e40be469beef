"""Scan a segment and summarize it: offsets, times, codecs, and whether it is complete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from kafkalog.codec.common.findings import Finding, Severity, StopReason
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.headers.one_batch import AnyRun
from kafkalog.codec.native import library
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.codec.rules.batches import BatchVerdict, gap
from kafkalog.log.disk.files import FileSource
from kafkalog.log.walk.cursor import Cursor
from kafkalog.log.walk.ending import ends_below
from kafkalog.log.walk.missing import MOST_GAPS
from kafkalog.log.walk.segment import Segment

if TYPE_CHECKING:
    from kafkalog.codec.headers.run_scanner import RunScanner

__all__ = ["SegmentLine", "SegmentSummary", "segment_line", "summarize"]


class SegmentSummary(Struct, frozen=True, kw_only=True):
    """Facts of one segment. Offsets are None if there is no batch; timestamps (ms) are None if no batch has one."""

    segment: Segment
    batches: int
    first_offset: int | None
    last_offset: int | None
    first_timestamp: int | None
    """smallest first timestamp of a batch"""
    last_timestamp: int | None
    """largest timestamp"""
    codecs: dict[str, int]
    """number of batches by codec"""
    magics: dict[int, int]
    """number of batches by message format"""
    valid_bytes: int
    """position after the last valid batch"""
    stop: StopReason
    gaps: tuple[tuple[int, int], ...]
    """offset before and offset after each of the first gaps between batches, one more than `MOST_GAPS`"""
    final_base: int | None
    """first offset of the last batch; None if there is none"""
    is_cleaned: bool
    """whether a batch has fewer records than offsets"""
    findings: tuple[Finding, ...]
    ends_below: Finding | None = None
    """finding about a last batch that ends below an earlier one, which is wrong at the end of a log because a broker
    appends from there; None otherwise
    """

    @property
    def next_offset(self) -> int:
        """Offset after the highest one; the base offset if there is no batch."""
        return self.segment.base_offset if self.last_offset is None else self.last_offset + 1


class SegmentLine(Struct, frozen=True, kw_only=True):
    """One segment."""

    base_offset: int
    """base offset, from the name of the segment's files"""
    path: str
    """path of the segment's log file"""
    bytes: int
    """size of the log file, in bytes"""
    valid_bytes: int
    """size of the valid batches before the first damage, in bytes: the position at which the damage begins"""
    stop: StopReason
    """reason why the scan of the log file ended: `end` if the whole file is valid, else the kind of damage, or `limit`
    """
    batches: int
    """number of valid batches before the first damage"""
    sound_batches_behind_damage: int
    """number of sound batches in this segment that follow the partition's first damage"""
    sound_records_behind_damage: int
    """number of records, without control records, in this segment's sound batches that follow the partition's first
    damage
    """
    first_offset: int | None
    """first offset in the valid batches before the first damage (inclusive); null if none"""
    last_offset: int | None
    """last offset in the valid batches before the first damage (inclusive); null if none"""
    first_timestamp: int | None
    """smallest timestamp of a valid batch's first record, in ms since 1970; null if no batch has a timestamp"""
    last_timestamp: int | None
    """largest timestamp in the valid batches, in ms since 1970; null if no batch has a timestamp"""
    codecs: dict[str, int]
    """number of valid batches by compression codec"""
    magics: dict[str, int]
    """number of valid batches by message format (magic)"""
    files: dict[str, int]
    """size in bytes of each file of the segment, by suffix"""


def segment_line(summary: SegmentSummary, behind: tuple[int, int] = (0, 0)) -> SegmentLine:
    """Convert a summary to its line of output. `behind` has the numbers of batches and records after damage, which a
    summary does not have.
    """
    segment = summary.segment
    return SegmentLine(
        base_offset=segment.base_offset,
        path=segment.path,
        bytes=segment.size,
        valid_bytes=summary.valid_bytes,
        stop=summary.stop,
        batches=summary.batches,
        sound_batches_behind_damage=behind[0],
        sound_records_behind_damage=behind[1],
        first_offset=summary.first_offset,
        last_offset=summary.last_offset,
        first_timestamp=summary.first_timestamp,
        last_timestamp=summary.last_timestamp,
        codecs=summary.codecs,
        magics={str(magic): count for magic, count in summary.magics.items()},
        files={kind.value: size for kind, size in segment.sizes.items()},
    )


def summarize(
    segment: Segment,
    *,
    next_segment: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    on_bytes: Callable[[int], None] | None = None,
) -> SegmentSummary:
    """Scan a whole segment, verifying checksums, and return its summary. Its first and last offset are None if the
    segment has no batches, or only ones with a wrong base offset; its timestamps are None if no batch has one. Bytes
    that are not a valid batch end the scan. All damage is in the findings. `next_segment` is the base offset of the
    next segment; None for the last one. `on_bytes` is called with the size in bytes of each batch or run. Raises
    `StorageError` if the log cannot be read, and no other error.
    """
    facts = _Facts(segment, limits)
    with segment.open() as source:
        cursor = Cursor(source, segment.base_offset, next_segment, limits=limits)
        scanner = _scanner(source, limits)
        for run in cursor.judged(scanner, gaps=True):
            facts.add(run)
            if on_bytes is not None:
                on_bytes(run.size)
        ended = cursor.ended(scanner, through_damage=False)
        facts.findings += [finding.in_file(segment.path) for finding in ended.findings]
    return SegmentSummary(
        segment=segment,
        batches=facts.magics.total(),
        first_offset=facts.first,
        last_offset=facts.last,
        first_timestamp=facts.first_time,
        last_timestamp=facts.last_time,
        codecs=dict(sorted(facts.codecs.items())),
        magics=dict(sorted(facts.magics.items())),
        valid_bytes=scanner.valid_bytes,
        stop=ended.stop,
        gaps=tuple(facts.gaps),
        final_base=facts.final_base,
        is_cleaned=facts.is_cleaned,
        findings=tuple(facts.findings),
        ends_below=facts.ends_below if scanner.stop is StopReason.END else None,
    )


def _scanner(source: FileSource, limits: Limits) -> Scanner | RunScanner:
    if not library.is_there():
        return Scanner(source, limits=limits)
    from kafkalog.codec.headers.run_scanner import RunScanner

    return RunScanner(source, limits=limits)


class _Facts:
    """Facts about the batches of a segment, collected from its runs."""

    def __init__(self, segment: Segment, limits: Limits) -> None:
        self._segment = segment
        self._limits = limits
        self.findings: list[Finding] = []
        self.codecs: Counter[str] = Counter()
        self.magics: Counter[int] = Counter()
        self.gaps: list[tuple[int, int]] = []
        self.final_base: int | None = None
        self.is_cleaned = False
        self.first: int | None = None
        self.last: int | None = None
        self.first_time: int | None = None
        self.last_time: int | None = None
        self.ends_below: Finding | None = None

    def add(self, run: AnyRun) -> None:
        """Add the next run: its batches to the counts, its offsets and timestamps to the ranges, its findings to
        `findings`. Each gap in its offsets becomes a finding of severity INFO. The offsets of a displaced batch, whose
        header has wrong ones, are ignored. Sets `ends_below` to a finding if the run ends below an earlier offset,
        otherwise to None.
        """
        path = self._segment.path
        self.findings.extend(finding.in_file(path) for finding in run.findings)
        codecs, times = run.codecs_and_times()
        self.codecs.update(codecs)
        self.magics[run.magic] += len(run)
        self.is_cleaned = self.is_cleaned or run.is_cleaned
        self.ends_below = None
        if run.verdict is not BatchVerdict.DISPLACED:
            highest = self._segment.base_offset - 1 if self.last is None else self.last
            if run.final_offset < highest:
                self.ends_below = ends_below(run.batch(len(run) - 1), highest).in_file(path)
            self.final_base = run.final_base
            self._seen(run.lowest_offset(self._limits), run.final_offset)
        for before, first, position in run.gaps():
            if before >= run.first_offset:  # the gap before the run is noted with its first offset
                self._gap(before, first)
            code, detail = gap(before, first)
            self.findings.append(Finding(code, Severity.INFO, position, first, detail, path))
        if times is not None:
            self._times(*times)

    def _seen(self, first: int, last: int) -> None:
        if self.first is None:
            self.first = first
        if self.last is not None and first > self.last + 1:
            self._gap(self.last, first)
        self.last = last if self.last is None else max(self.last, last)

    def _gap(self, before: int, following: int) -> None:
        if len(self.gaps) <= MOST_GAPS:
            self.gaps.append((before, following))

    def _times(self, first: int, last: int) -> None:
        self.first_time = first if self.first_time is None else min(self.first_time, first)
        self.last_time = last if self.last_time is None else max(self.last_time, last)
