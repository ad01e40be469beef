"""What comes after damage: sound batches that no consumer reaches, and that are not lost as long as nobody cuts.

A consumer stops at the first damage of a log (`CompletedFetch`), and so do the walks that say where a log is sound.
This says how much there is after it, in the same segment and in all later ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kafkalog.codec.findings import Finding, FindingCode, Unread
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import CODEC_MASK, CONTROL_FLAG, LAST_CODEC, NO_TIMESTAMP, BatchHeader, RecordBatch
from kafkalog.codec.records import decode_batch
from kafkalog.codec.rules import MAX_RELATIVE_OFFSET, out_of_place
from kafkalog.codec.wording import counted
from kafkalog.log.walk.batches import BatchReader
from kafkalog.log.walk.missing import first_offset_of
from kafkalog.log.walk.segment import Segment
from kafkalog.log.walk.summary import first_timestamp

if TYPE_CHECKING:
    from kafkalog.codec.headers.runs import BatchRun

__all__ = ["BehindDamage", "behind_damage", "behind_first_damage", "with_what_is_behind"]

_ENDING = frozenset(
    {
        FindingCode.BATCH_SIZE_INVALID,
        FindingCode.CRC_MISMATCH,
        FindingCode.LIMIT_EXCEEDED,
        FindingCode.MAGIC_UNKNOWN,
        FindingCode.OFFSET_ABOVE_SEGMENT,
    }
)
"""What a consumer does not read past."""


@dataclass(slots=True)
class BehindDamage:
    """Sound batches after the first damage of a partition, and the records in them that a consumer would see."""

    batches: int = 0
    records: int = 0
    by_segment: dict[str, tuple[int, int]] = field(default_factory=dict)
    """path of a log file -> (batches, records) of it"""
    unread: Unread | None = None
    """between the sound batches before and after the damage; None if those leave no offset out"""

    def of(self, segment: Segment) -> tuple[int, int]:
        """Batches and records of one segment."""
        return self.by_segment.get(segment.path, (0, 0))

    def __str__(self) -> str:
        return f"{counted(self.batches, 'sound batch')} with {counted(self.records, 'record')} after it"


class _Count:
    """Counts batch after batch, or many at a time; offsets that were there before count once."""

    def __init__(self, log_start: int, damage: int, limits: Limits) -> None:
        self._limits = limits
        self._next_offset = log_start
        self._damage = damage
        self._before: tuple[int, int] | None = None
        """last offset and largest timestamp of the last sound batch before the damage, in its segment"""
        self._after: tuple[int, int] | None = None
        """first offset and timestamp of the first sound batch after it"""
        self.found = BehindDamage()

    def take(self, batch: RecordBatch, segment: Segment, *, is_behind: bool) -> None:
        """One batch."""
        header = batch.header
        last = header.last_offset
        first = header.first_offset
        if out_of_place(header.magic, first, last, segment.base_offset) is not None:
            return  # nobody reads it
        self._met(batch, is_behind=is_behind)
        if is_behind:
            self._add(segment, 1, self._records(batch, first))
        if last - segment.base_offset <= MAX_RELATIVE_OFFSET:  # else lower ones may follow, which are new all the same
            self._next_offset = max(self._next_offset, last + 1)

    def _records(self, batch: RecordBatch, first: int) -> int:
        header = batch.header
        codec = header.attributes & CODEC_MASK
        if header.last_offset < self._next_offset or codec > LAST_CODEC:
            return 0
        if isinstance(header, BatchHeader):
            if header.attributes & CONTROL_FLAG:
                return 0
            if first >= self._next_offset:
                return max(header.records_count, 0)
        elif not codec:
            return 1
        return sum(record.offset >= self._next_offset for record in decode_batch(batch, limits=self._limits).records)

    def take_run(self, run: BatchRun, segment: Segment, *, is_behind: bool) -> None:
        """Many v2 batches without findings, their offsets increasing."""
        if int(run["base_offset"][0]) < self._next_offset or int(run["attributes"].max()) & CODEC_MASK > LAST_CODEC:
            for batch in run:
                self.take(batch, segment, is_behind=is_behind)
            return
        self._met(next(iter(run if is_behind else run.part(len(run) - 1, len(run)))), is_behind=is_behind)
        if is_behind:
            data = run["attributes"] & CONTROL_FLAG == 0
            self._add(segment, len(run), int(run["records_count"][data].sum()))
        self._next_offset = max(self._next_offset, run.next_offset)

    def _met(self, batch: RecordBatch, *, is_behind: bool) -> None:
        """Note a batch if it is the last one before the damage, or the first one after it."""
        if not is_behind:
            if batch.position != self._damage:  # what is wrong there may be a batch with a valid checksum
                self._before = batch.last_offset, batch.header.max_timestamp
        elif self._after is None:
            self._after = first_offset_of(batch, self._limits), first_timestamp(batch)

    def unread(self, base_offset: int) -> Unread | None:
        """What lies between the batches around the damage, in a segment with this base offset."""
        last_before, newest = self._before or (base_offset - 1, NO_TIMESTAMP)
        first_after, oldest = self._after or (None, NO_TIMESTAMP)
        if first_after is not None and first_after <= last_before + 1:
            return None
        last = None if first_after is None else first_after - 1
        return Unread(last_before + 1, last, newest if newest >= 0 else None, oldest if oldest >= 0 else None)

    def _add(self, segment: Segment, batches: int, records: int) -> None:
        found = self.found
        found.batches += batches
        found.records += records
        before = found.of(segment)
        found.by_segment[segment.path] = (before[0] + batches, before[1] + records)


def behind_damage(
    segments: Sequence[Segment], damaged: Segment, position: int, *, log_start: int = 0, limits: Limits = DEFAULT_LIMITS
) -> BehindDamage:
    """What comes after `position` in the segment `damaged`, and in those of `segments` that follow it.

    Records below `log_start` do not count, nor do control records.  Raises `StorageError` only.
    """
    reader = BatchReader(segments[segments.index(damaged) :], through_damage=True, limits=limits)
    count = _Count(log_start, position, limits)
    for found in reader.by_run():
        segment = reader.segment
        if segment is None:
            continue
        if isinstance(found, RecordBatch):
            count.take(found, segment, is_behind=segment is not damaged or found.position > position)
            continue
        before = int((found.positions <= position).sum()) if segment is damaged else 0
        for part, is_behind in ((found.part(0, before), False), (found.part(before, len(found)), True)):
            if len(part):
                count.take_run(part, segment, is_behind=is_behind)
    count.found.unread = count.unread(damaged.base_offset)
    return count.found


def _first_damage(segments: Sequence[Segment], findings: Iterable[Finding]) -> tuple[Segment, Finding] | None:
    places = {segment.path: number for number, segment in enumerate(segments)}
    found = [
        (places[finding.file], finding.position, finding)
        for finding in findings
        if finding.code in _ENDING and finding.file in places and finding.position is not None
    ]
    if not found:
        return None
    number, _position, finding = min(found, key=lambda each: each[:2])
    return segments[number], finding


def behind_first_damage(
    segments: Sequence[Segment],
    findings: Iterable[Finding],
    *,
    log_start: int = 0,
    limits: Limits = DEFAULT_LIMITS,
) -> tuple[Finding, BehindDamage] | None:
    """The finding that ends what a consumer reads, and what comes after it; None if no finding does."""
    damage = _first_damage(segments, findings)
    if damage is None:
        return None
    segment, finding = damage
    found = behind_damage(segments, segment, finding.position or 0, log_start=log_start, limits=limits)
    return finding, found


def with_what_is_behind(finding: Finding, found: BehindDamage, more: str = "") -> Finding:
    """The finding with the offsets that it makes unreadable, what comes after it, and `more` words if anything does."""
    if finding.last_offset is None:  # else it is a batch that tells its offsets
        finding = replace(finding, unread=found.unread)
    if not found.batches:
        return finding
    return replace(finding, detail=f"{finding.detail}; {found}{more}")
