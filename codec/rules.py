"""Rules across fields and batches: what a valid checksum does not prove.

Base offset, length, leader epoch and magic of a v2 batch lie outside its checksum, so "the last valid CRC" is weaker
than "the last valid batch".  Both executions feed these rules; none of them ends a walk.  `headers.continuity` has them
for many batches at a time.
"""

from __future__ import annotations

import enum
from typing import Any

from kafkalog.codec.compression.specs import LAST_CODECS
from kafkalog.codec.finding_codes import Trait, codes_with
from kafkalog.codec.findings import Finding, FindingCode, Severity
from kafkalog.codec.model import (
    LAST_CODEC,
    NO_PARTITION_LEADER_EPOCH,
    AnyHeader,
    BatchHeader,
    RecordBatch,
)
from kafkalog.codec.wording import NEWER

__all__ = [
    "LAST_LEGACY_CODEC", "MAGICS", "MAX_RELATIVE_OFFSET", "NO_OFFSET_LIMIT", "Continuity", "Verdict", "ends_reading",
    "gap", "highest_offset", "is_displaced", "out_of_place",
]  # fmt: skip

MAX_RELATIVE_OFFSET = 2**31 - 1
"""Indexes store offsets relative to the segment's base as int32."""
NO_OFFSET_LIMIT = 2**63 - 1
"""Where no later segment bounds the offsets; no record has it."""
MAGICS = frozenset({0, 1, 2})
LAST_LEGACY_CODEC = LAST_CODECS[1]
"""Above it is what no reader opens in magic 0 and 1."""
_INFORMATION = codes_with(Trait.NORMAL)
"""What logs have that nothing is wrong with."""


def unknown_magic(magic: int) -> str:
    """What a magic above those that are known means: nobody can tell a damaged byte from a format to come."""
    return f"magic {magic}: a damaged byte, or a format that is {NEWER}, which knows 0 to 2"


def ends_reading(header: AnyHeader, base_offset: int) -> bool:
    """Whether nobody reads past a batch in the segment that begins at `base_offset`, for all its checksum says."""
    return header.magic not in MAGICS or header.last_offset - base_offset > MAX_RELATIVE_OFFSET


def out_of_place(magic: int, first: int, last: int, base_offset: int) -> tuple[FindingCode, str] | None:
    """Why no log keeps a batch with these offsets in a segment that begins at `base_offset`; None if one may."""
    if magic not in MAGICS:
        return FindingCode.MAGIC_UNKNOWN, unknown_magic(magic)
    if last < first or first < 0:
        return FindingCode.LAST_OFFSET_DELTA_INVALID, f"offsets {first} to {last}"
    if last < base_offset:
        return FindingCode.OFFSET_BELOW_SEGMENT, f"offset {last} in a segment that begins at {base_offset}"
    if last >= NO_OFFSET_LIMIT:
        return FindingCode.OFFSET_ABOVE_SEGMENT, f"offset {last} in a segment that begins at {base_offset}"
    return None


def _wrong_with(header: AnyHeader) -> list[tuple[FindingCode, str]]:
    """What is wrong with one header by itself."""
    found = []
    magic, codec = header.magic, header.codec
    if magic not in MAGICS:
        found.append((FindingCode.MAGIC_UNKNOWN, unknown_magic(magic)))
    if codec > (LAST_CODEC if magic >= 2 else LAST_LEGACY_CODEC):
        found.append((FindingCode.CODEC_UNKNOWN, f"compression id {codec} in magic {magic}"))
    if isinstance(header, BatchHeader):
        delta, count = header.last_offset_delta, header.records_count
        if delta < 0:
            found.append((FindingCode.LAST_OFFSET_DELTA_INVALID, f"last offset delta {delta}"))
        if count < 0 or count > delta + 1 >= 1:
            found.append((FindingCode.RECORDS_COUNT_INVALID, f"{count} records"))
    return found


class Verdict(enum.Enum):
    """What a reader does with a batch whose size and checksum are right."""

    KEEP = "keep"
    REPEATS = "repeats"
    """its offsets were there before: passed over"""
    DISPLACED = "displaced"
    """its base offset, which no checksum covers, is not the one it was written with; its records are sound"""
    STOP = "stop"
    """no consumer reads past it"""


def is_displaced(first: Any, delta: Any, expected: Any, following: Any) -> Any:
    """Whether a batch does not begin where it should, and the next one begins just where it would have ended there.

    For numbers and for columns of them.  Compaction leaves gaps, which later offsets do not fill; a batch that is
    there twice is followed by one that goes on from before it.
    """
    return (first != expected) & (delta >= 0) & (following == expected + delta + 1)


def gap(before: int, first: int) -> tuple[FindingCode, str]:
    """What is said of a batch that does not begin right behind the one before it."""
    return FindingCode.OFFSET_GAP, f"offsets {before + 1} to {first - 1} are not there"


def highest_offset(base_offset: int, next_segment: int | None) -> int:
    """The highest that a batch of a segment may have if it does not follow on the one before it."""
    most = base_offset + MAX_RELATIVE_OFFSET
    return most if next_segment is None else min(most, next_segment - 1)


def _offsets_taken(header: AnyHeader) -> int | None:
    """How many offsets a batch takes; None where the header does not tell: a wrapper's first one is inside."""
    if isinstance(header, BatchHeader):
        return header.last_offset_delta + 1
    return None if header.codec else 1


class Continuity:
    """What should come next in a segment, and what is wrong with what does; fed with its batches in order.

    What is expected is the offset after the highest one so far: at first that of the segment, and nothing where a walk
    begins elsewhere or goes on after damage, so that the first batch there is taken as it is.
    """

    def __init__(
        self, base_offset: int | None = None, *, next_segment: int | None = None, begins: bool = True,
        expected: int | None = None,
    ) -> None:  # fmt: skip
        self.base_offset = base_offset
        """of the segment, where that is known"""
        self.next_segment = next_segment
        """base offset of the segment after this one"""
        self.last_offset = None if expected is None else expected - 1
        """of the batch before, None if nobody knows"""
        self.leader_epoch = NO_PARTITION_LEADER_EPOCH
        """the highest so far"""
        self.expected = base_offset if begins and expected is None else expected
        """the offset that should come next, None if nobody knows"""
        self.behind: int | None = None
        """the offset that the header behind the next batch begins with, where a walk has it at hand"""
        self.verdict = Verdict.KEEP
        """about the batch that was checked last"""

    def goes_on(self) -> None:
        """Take whatever comes next as it is: there was damage."""
        self.last_offset = self.expected = None
        self.leader_epoch = NO_PARTITION_LEADER_EPOCH

    def took(self, last_offset: int) -> None:
        """Batches up to an offset were there, in order."""
        self.last_offset = last_offset
        self.expected = last_offset + 1

    def is_next(self, header: AnyHeader) -> bool:
        """Whether a batch begins where it should, so that nothing needs to be known of the one behind it."""
        return self.expected is None or header.first_offset == self.expected

    def judge(self, header: AnyHeader, following: int | None, second: int | None = None) -> Verdict:
        """What to do with the next batch, given what the headers behind it begin with, as far as there are any."""
        last, expected = header.last_offset, self.expected
        if header.magic not in MAGICS or (self.base_offset is not None and ends_reading(header, self.base_offset)):
            return Verdict.STOP
        if expected is None:
            return Verdict.KEEP
        taken = _offsets_taken(header)
        if taken is not None and header.first_offset != expected:
            if self.is_between(header, following):
                return Verdict.DISPLACED
            has_room = self.may_hide(header, following) and following is not None and expected + taken <= following
            if has_room and second is not None and following is not None and following < second <= last:
                return Verdict.DISPLACED
            reaches_over = self.next_segment is not None and last >= self.next_segment
            if reaches_over and header.first_offset > expected and taken > 0:
                return Verdict.DISPLACED
        return Verdict.REPEATS if last < expected else Verdict.KEEP

    def is_between(self, header: AnyHeader, following: int | None) -> bool:
        """Whether the next batch begins elsewhere than it should, however far, and the one behind it just after it."""
        taken, expected = _offsets_taken(header), self.expected
        if taken is None or expected is None or following is None:
            return False
        return bool(is_displaced(header.first_offset, taken - 1, expected, following))

    def check(self, batch: RecordBatch, following: int | None = None, second: int | None = None) -> list[Finding]:
        """Findings of this batch, given those before it, and the `verdict` about it."""
        header, position = batch.header, batch.position
        first, last = header.first_offset, header.last_offset
        self.verdict = self.judge(header, following, second)
        findings = [Finding(code, Severity.ERROR, position, last, detail) for code, detail in _wrong_with(header)]
        if self.verdict is Verdict.DISPLACED:
            return [*findings, self._displaced(header, position, following)]
        for code, detail in self._against_others(header, first, last):
            severity = Severity.INFO if code in _INFORMATION else Severity.ERROR
            findings.append(Finding(code, severity, position, first, detail))
        if self.verdict is Verdict.KEEP and self.may_hide(header, following):
            detail = f"offset {first} where {self.expected} should come, and {following} follows: no consumer gets what"
            detail += f" comes after it and lies below {first}; no checksum covers its base offset, which may be wrong"
            findings.append(Finding(FindingCode.OFFSET_DISPLACED, Severity.WARNING, position, first, detail))
        self.leader_epoch = max(self.leader_epoch, header.partition_leader_epoch)
        self.last_offset = last
        self.expected = last + 1 if self.expected is None else max(self.expected, last + 1)
        return findings

    def may_hide(self, header: AnyHeader, following: int | None) -> bool:
        """Whether the next batch lies in the gap that this one leaves: the two are swapped, or one offset is wrong.

        A consumer drops what is below its next offset (`CompletedFetch`).  Which it is, one header does not tell; a
        second one that comes after the first, and still not behind this batch, shows that this one's offset is wrong.
        """
        return self.expected is not None and following is not None and self.expected <= following < header.first_offset

    def _against_others(self, header: AnyHeader, first: int, last: int) -> list[tuple[FindingCode, str]]:
        """What does not fit the segment, or the batches before."""
        found = []
        base, before, epoch = self.base_offset, self.last_offset, header.partition_leader_epoch
        if base is not None and first < base:
            found.append((FindingCode.OFFSET_BELOW_SEGMENT, f"offset {first} in a segment that begins at {base}"))
        if base is not None and last - base > MAX_RELATIVE_OFFSET:
            found.append((FindingCode.OFFSET_ABOVE_SEGMENT, f"offset {last} in a segment that begins at {base}"))
        if self.next_segment is not None and last >= self.next_segment:
            detail = f"offset {last}, but the next segment begins at {self.next_segment}"
            found.append((FindingCode.SEGMENT_OVERLAP, detail))
        if before is not None and first <= before:
            found.append((FindingCode.OFFSET_NOT_INCREASING, f"offset {first} after {before}"))
        elif before is not None and first != before + 1 and isinstance(header, BatchHeader):
            found.append(gap(before, first))
        if NO_PARTITION_LEADER_EPOCH != epoch < self.leader_epoch:
            detail = f"leader epoch {epoch} after {self.leader_epoch}"
            found.append((FindingCode.LEADER_EPOCH_DECREASES, detail))
        return found

    def _displaced(self, header: AnyHeader, position: int, following: int | None) -> Finding:
        expected = self.expected or 0
        detail = f"offset {header.first_offset} where {expected} should come"
        if following == expected + (_offsets_taken(header) or 0) or self.may_hide(header, following):
            detail += f", and {following} follows: its base offset, which no checksum covers, is wrong"
        else:
            detail += f", beyond the next segment, which begins at {self.next_segment}"
        self.took(expected + (_offsets_taken(header) or 0) - 1)
        return Finding.of(FindingCode.OFFSET_DISPLACED, position, expected, detail)
