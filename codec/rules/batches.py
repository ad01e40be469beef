"""Rules about batches that a valid checksum does not prove. Base offset, length, leader epoch and magic of a v2 batch
are not covered by its checksum, so "the last valid CRC" is weaker than "the last valid batch". Plain and compiled scans
apply these rules; no violation ends a scan. `headers.continuity` applies them to many batches at a time.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any

from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.wording import NEWER
from kafkalog.codec.compression.specs import is_known_codec
from kafkalog.codec.model import (
    NO_PARTITION_LEADER_EPOCH,
    AnyHeader,
    BatchHeader,
    RecordBatch,
)

__all__ = [
    "MAGICS", "MAX_RELATIVE_OFFSET", "NO_OFFSET_LIMIT", "BatchVerdict", "Continuity", "below_segment",
    "ends_reading", "gap", "header_findings", "highest_offset", "is_displaced", "out_of_place",
]  # fmt: skip

MAX_RELATIVE_OFFSET = 2**31 - 1
"""Highest distance of an offset from its segment's base: indexes store it as int32."""
NO_OFFSET_LIMIT = 2**63 - 1
"""Offset that no record can have: the bound if there is no later segment."""
MAGICS = frozenset({0, 1, 2})


def unknown_magic(magic: int) -> str:
    """Return the detail of a finding about a magic above 2, which is a damaged byte or a later format."""
    return f"magic {magic}: a damaged byte, or a format that is {NEWER}, which knows 0 to 2"


def ends_reading(header: AnyHeader, base_offset: int) -> bool:
    """Whether consumers cannot read past a batch of the segment with this base offset, although its checksum is valid:
    its magic is unknown, or its last offset is too high for the segment's indexes.
    """
    return header.magic not in MAGICS or header.last_offset - base_offset > MAX_RELATIVE_OFFSET


def above_segment(offset: int, base_offset: int) -> tuple[FindingCode, str]:
    """Return code and detail of a finding about an offset that is too high for its segment."""
    return FindingCode.OFFSET_ABOVE_SEGMENT, f"offset {offset} in a segment that begins at {base_offset}"


def below_segment(offset: int, base_offset: int) -> tuple[FindingCode, str]:
    """Return code and detail of a finding about an offset below the base offset of its segment."""
    return FindingCode.OFFSET_BELOW_SEGMENT, f"offset {offset} in a segment that begins at {base_offset}"


def out_of_place(magic: int, first: int, last: int, base_offset: int) -> tuple[FindingCode, str] | None:
    """Return (finding code, detail) if a batch with offsets `first` to `last` (inclusive) cannot be in the segment with
    this base offset. The reasons are an unknown magic, impossible offsets, a last offset below the base offset, and the
    largest 64-bit number as last offset. Return None if the batch can be in the segment.
    """
    if magic not in MAGICS:
        return FindingCode.MAGIC_UNKNOWN, unknown_magic(magic)
    if last < first or first < 0:
        return FindingCode.LAST_OFFSET_DELTA_INVALID, f"offsets {first} to {last}"
    if last < base_offset:
        return below_segment(last, base_offset)
    if last >= NO_OFFSET_LIMIT:
        return above_segment(last, base_offset)
    return None


def header_findings(header: AnyHeader, position: int) -> Iterator[Finding]:
    """Yield a finding for each fault of a header that is visible without other batches: unknown magic or compression,
    and impossible offset delta or record count. `position` is the batch's byte in the file.
    """
    magic, codec, last = header.magic, header.codec, header.last_offset
    if magic not in MAGICS:
        yield Finding.of(FindingCode.MAGIC_UNKNOWN, position, last, unknown_magic(magic))
    if not is_known_codec(codec, magic):
        yield Finding.of(FindingCode.CODEC_UNKNOWN, position, last, f"compression id {codec} in magic {magic}")
    if isinstance(header, BatchHeader):
        delta, count = header.last_offset_delta, header.records_count
        if delta < 0:
            yield Finding.of(FindingCode.LAST_OFFSET_DELTA_INVALID, position, last, f"last offset delta {delta}")
        if count < 0 or count > delta + 1 >= 1:
            yield Finding.of(FindingCode.RECORDS_COUNT_INVALID, position, last, f"{count} records")


class BatchVerdict(enum.Enum):
    """How readers treat a batch whose size and checksum are right."""

    KEEP = "keep"
    REPEATS = "repeats"
    """its last offset is below the expected one, so it is skipped"""
    DISPLACED = "displaced"
    """its base offset, which no checksum covers, was changed after it was written; its records are sound"""
    STOP = "stop"
    """no consumer reads past it"""


def is_displaced(first: Any, delta: Any, expected: Any, following: Any) -> Any:
    """Whether a batch has a wrong base offset: it does not begin at `expected`, but the next batch begins right after
    the offsets that this one would have there. `first` and `delta` are base offset and last offset delta of the batch,
    `following` is the base offset of the next. Arguments and result are numbers, or columns of them. Compaction leaves
    gaps, but later offsets do not fill them. If a batch is stored twice, the batch after the second copy continues the
    offsets of the first, so this is False.
    """
    return (first != expected) & (delta >= 0) & (following == expected + delta + 1)


def gap(before: int, first: int) -> tuple[FindingCode, str]:
    """Return code and detail of a finding about missing offsets after `before` and before `first`."""
    return FindingCode.OFFSET_GAP, f"offsets {before + 1} to {first - 1} are not there"


def highest_offset(base_offset: int, next_segment: int | None) -> int:
    """Return the highest offset that a batch of this segment can have: 2^31 - 1 above the base offset, because of the
    indexes, but below the base offset of the next segment, if that is known.
    """
    most = base_offset + MAX_RELATIVE_OFFSET
    return most if next_segment is None else min(most, next_segment - 1)


def _offsets_taken(header: AnyHeader) -> int | None:
    """Return the number of offsets that a batch covers; None for a wrapper, whose header does not have its first
    offset.
    """
    if isinstance(header, BatchHeader):
        return header.last_offset_delta + 1
    return None if header.codec else 1


class Continuity:
    """State of a scan for the rules about the order of batches: the expected next offset and the highest leader epoch
    so far. The batches of a segment must be passed to it in order. The expected offset is one more than the highest so
    far; at first it is the segment's base offset. It is None after damage and if the scan did not begin at the
    segment's start: the next batch is then accepted with any offset.
    """

    def __init__(
        self, base_offset: int | None = None, *, next_segment: int | None = None, begins: bool = True,
        expected: int | None = None,
    ) -> None:  # fmt: skip
        self.base_offset = base_offset
        """base offset of the segment; None if unknown"""
        self.next_segment = next_segment
        """base offset of the next segment; None if there is none"""
        self.last_offset = None if expected is None else expected - 1
        """last offset of the previous batch; None if unknown"""
        self.leader_epoch = NO_PARTITION_LEADER_EPOCH
        """highest leader epoch so far; -1 before the first"""
        self.expected = base_offset if begins and expected is None else expected
        """offset that should come next; None if any is accepted"""
        self.behind: int | None = None
        """base offset of the header after the next batch, if the scan already has it; otherwise None"""
        self.verdict = BatchVerdict.KEEP
        """verdict about the last batch that was checked"""

    def goes_on(self) -> None:
        """Accept any offset and leader epoch of the next batch, because it comes after damage."""
        self.last_offset = self.expected = None
        self.leader_epoch = NO_PARTITION_LEADER_EPOCH

    def took(self, last_offset: int) -> None:
        """Record that sound batches up to `last_offset` (inclusive) were read."""
        self.last_offset = last_offset
        self.expected = last_offset + 1

    def is_next(self, header: AnyHeader) -> bool:
        """Whether a batch begins at the expected offset, or any offset is accepted. The headers after it need not be
        read then.
        """
        return self.expected is None or header.first_offset == self.expected

    def judge(self, header: AnyHeader, following: int | None, second: int | None = None) -> BatchVerdict:
        """Return how readers treat the next batch; changes nothing. `following` and `second` are the base offsets of
        the two headers after the batch, or None if unknown. If no offset is expected, only STOP and KEEP are possible.
        The result is:

        * STOP if no consumer reads past the batch
        * DISPLACED if the headers after it or the next segment prove that its base offset is wrong
        * REPEATS if all its offsets are below the expected one
        * KEEP otherwise
        """
        last, expected = header.last_offset, self.expected
        if header.magic not in MAGICS or (self.base_offset is not None and ends_reading(header, self.base_offset)):
            return BatchVerdict.STOP
        if expected is None:
            return BatchVerdict.KEEP
        taken = _offsets_taken(header)
        if taken is not None and header.first_offset != expected:
            if self.is_between(header, following):
                return BatchVerdict.DISPLACED
            has_room = self.may_hide(header, following) and following is not None and expected + taken <= following
            if has_room and second is not None and following is not None and following < second <= last:
                return BatchVerdict.DISPLACED
            reaches_over = self.next_segment is not None and last >= self.next_segment
            if reaches_over and header.first_offset > expected and taken > 0:
                return BatchVerdict.DISPLACED
        return BatchVerdict.REPEATS if last < expected else BatchVerdict.KEEP

    def is_between(self, header: AnyHeader, following: int | None) -> bool:
        """Whether a batch does not begin at the expected offset, but would fit between it and the next batch: with the
        expected base offset it would end right before `following`, the next batch's base offset. False if one of the
        offsets is unknown.
        """
        taken, expected = _offsets_taken(header), self.expected
        if taken is None or expected is None or following is None:
            return False
        return bool(is_displaced(header.first_offset, taken - 1, expected, following))

    def check(self, batch: RecordBatch, following: int | None = None, second: int | None = None) -> list[Finding]:
        """Return the findings about the next batch (empty for a sound one in order) and set `verdict`. Also set the
        last offset, the expected offset and the highest leader epoch. A displaced batch counts as if it began at the
        expected offset, and its leader epoch is ignored. `following` and `second` are the base offsets of the two
        headers after it, or None if unknown.
        """
        header, position = batch.header, batch.position
        first, last = header.first_offset, header.last_offset
        self.verdict = self.judge(header, following, second)
        findings = [*header_findings(header, position)]
        if self.verdict is BatchVerdict.DISPLACED:
            return [*findings, self._displaced(header, position, following)]
        findings += [
            Finding.of(code, position, first, detail) for code, detail in self._against_others(header, first, last)
        ]
        if self.verdict is BatchVerdict.KEEP and self.may_hide(header, following):
            detail = f"offset {first} where {self.expected} should come, and {following} follows: no consumer gets what"
            detail += f" comes after it and lies below {first}; no checksum covers its base offset, which may be wrong"
            findings.append(Finding(FindingCode.OFFSET_DISPLACED, Severity.WARNING, position, first, detail))
        self.leader_epoch = max(self.leader_epoch, header.partition_leader_epoch)
        self.last_offset = last
        self.expected = last + 1 if self.expected is None else max(self.expected, last + 1)
        return findings

    def may_hide(self, header: AnyHeader, following: int | None) -> bool:
        """Whether the next batch's base offset, `following`, falls into the gap before this batch: the two are swapped,
        or one base offset is wrong. A consumer drops records below its next offset (`CompletedFetch`), so it would not
        get the records of the next batch. One header does not show which base offset is wrong. If the header after it
        is also not above this batch's offsets, this batch's offset is wrong. False if an offset is unknown.
        """
        return self.expected is not None and following is not None and self.expected <= following < header.first_offset

    def _against_others(self, header: AnyHeader, first: int, last: int) -> list[tuple[FindingCode, str]]:
        """Compare a batch with offsets `first` to `last` (inclusive) with the segment's base offset, the next segment,
        and the batches before. Return (finding code, detail) for each contradiction; empty if there is none.
        Contradictions are offsets out of range, overlapping or not increasing, missing offsets (magic 2 only), and a
        lower leader epoch.
        """
        problems = []
        base, before, epoch = self.base_offset, self.last_offset, header.partition_leader_epoch
        if base is not None and first < base:
            problems.append(below_segment(first, base))
        if base is not None and last - base > MAX_RELATIVE_OFFSET:
            problems.append(above_segment(last, base))
        if self.next_segment is not None and last >= self.next_segment:
            detail = f"offset {last}, but the next segment begins at {self.next_segment}"
            problems.append((FindingCode.SEGMENT_OVERLAP, detail))
        if before is not None and first <= before:
            problems.append((FindingCode.OFFSET_NOT_INCREASING, f"offset {first} after {before}"))
        elif before is not None and first != before + 1 and isinstance(header, BatchHeader):
            problems.append(gap(before, first))
        if NO_PARTITION_LEADER_EPOCH != epoch < self.leader_epoch:
            detail = f"leader epoch {epoch} after {self.leader_epoch}"
            problems.append((FindingCode.LEADER_EPOCH_DECREASES, detail))
        return problems

    def _displaced(self, header: AnyHeader, position: int, following: int | None) -> Finding:
        expected = self.expected or 0
        detail = f"offset {header.first_offset} where {expected} should come"
        is_between = following == expected + (_offsets_taken(header) or 0) or self.may_hide(header, following)
        if is_between and following == self.next_segment:
            detail += f", but the next segment begins at {following}: the base offset, which no checksum covers, is "
            detail += "wrong, or the segments are of different moments"
        elif is_between:
            detail += f", and {following} follows: its base offset, which no checksum covers, does not fit between them"
        else:
            detail += f", beyond the next segment, which begins at {self.next_segment}"
        self.took(expected + (_offsets_taken(header) or 0) - 1)
        return Finding.of(FindingCode.OFFSET_DISPLACED, position, expected, detail)
