"""Findings: faults and facts about examined bytes, with stable codes. A reader never raises for bad data; it reports
findings. Codes are part of the public interface: scripts match on them.
"""

from __future__ import annotations

import enum
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.common.finding_codes import SPECS, FindingCode, Severity
from kafkalog.codec.common.sentinels import NO_END
from kafkalog.codec.common.wording import counted, moment_text
from kafkalog.codec.names import SWAP, FileKind

__all__ = [
    "BatchOutline", "Finding", "FindingCode", "FindingJson", "Severity", "StopReason", "Unread", "outline_of",
    "severity_of_unfinished",
]  # fmt: skip


class StopReason(enum.StrEnum):
    """Reason why a scan of a segment ended."""

    END = "end"
    """the last batch ends where the file ends"""
    TORN_TAIL = "torn_tail"
    """the file ends inside a batch"""
    ZERO_TAIL = "zero_tail"
    """nothing but zeros to the end of the file: space that was allocated and never written"""
    CORRUPT = "corrupt"
    """bytes that are not a valid batch, and are neither a torn nor a zero tail"""
    LIMIT = "limit"
    """a cap of `Limits` or the end that the caller set was reached"""


class Unread(Struct, frozen=True):
    """Offsets that damage makes unreadable, by the sound batches before and after it in the log."""

    first_offset: int
    """after the last sound batch before the damage; the segment's base offset if there is none"""
    last_offset: int | None
    """before the next sound batch; null if none comes"""
    newest_before: int | None = None
    """largest timestamp of the sound batch before, in milliseconds since 1970; null if there is none in the segment, or
    it has no time"""
    oldest_after: int | None = None
    """first timestamp of the next sound batch, in milliseconds since 1970; null if none comes, or it has no time"""

    @property
    def parts(self) -> list[str]:
        """Phrases for people. The first names the unreadable offsets. A second one tells when the records were written:
        between two times (`at` if both have the same text), or after or before one; it is missing if no time is known.
        """
        offsets = _offsets(self.first_offset, self.last_offset)
        before = None if self.newest_before is None else moment_text(self.newest_before)
        after = None if self.oldest_after is None else moment_text(self.oldest_after)
        if before is not None and after is not None:
            if (self.newest_before or 0) > (self.oldest_after or 0):  # producers set the times
                before, after = after, before
            return [offsets, f"at {before}" if before == after else f"between {before} and {after}"]
        if before is not None:
            return [offsets, f"after {before}"]
        return [offsets] if after is None else [offsets, f"before {after}"]


class OutlinedHeader(Protocol):
    """The header of a batch or message of any magic."""

    @property
    def first_offset(self) -> int:
        """Lowest offset according to the header."""

    @property
    def last_offset(self) -> int:
        """Highest offset according to the header."""

    @property
    def claimed_records(self) -> int | None:
        """Number of records according to the header; None if it does not have it."""

    @property
    def first_timestamp(self) -> int:
        """Timestamp of the first record in ms since 1970; -1 if there is none."""

    @property
    def max_timestamp(self) -> int:
        """Largest timestamp of a record in ms since 1970; -1 if there is none."""


class BatchOutline(Struct, frozen=True):
    """Offsets, number of records and times according to the header of a batch. If the batch is torn, its checksum
    cannot be compared, so the header may be wrong.
    """

    first_offset: int
    """of the batch"""
    last_offset: int
    """of the batch"""
    records: int | None
    """number of records; null for compressed messages before v2, whose header does not tell"""
    first_timestamp: int | None
    """of the first record, in milliseconds since 1970; null without one"""
    last_timestamp: int | None
    """the largest, in milliseconds since 1970; null without one"""

    @property
    def is_possible(self) -> bool:
        """Whether a broker could have written a batch with these offsets and this number of records."""
        span = self.last_offset - self.first_offset + 1
        return 0 <= self.first_offset <= self.last_offset <= NO_END and 0 < (self.records or 1) <= span

    @property
    def claimed(self) -> str:
        """End of a sentence about a torn batch: "; its header claims " and the outline in words."""
        return f"; its header claims {self}"

    @property
    def times(self) -> str:
        """Time span in words: first to last, in UTC. It is the first time alone if both have the same text, or if the
        last is before the first. It is an empty string if one of them is unknown.
        """
        first, last = self.first_timestamp, self.last_timestamp
        if first is None or last is None:
            return ""
        last = max(first, last)
        from_, to = moment_text(first), moment_text(last)
        return from_ if from_ == to else f"{from_} to {to}"

    def __str__(self) -> str:
        records = "" if self.records is None else counted(self.records, "record")
        return ", ".join(filter(None, [_offsets(self.first_offset, self.last_offset), records, self.times]))


def outline_of(header: OutlinedHeader) -> BatchOutline:
    """Return the outline of a batch from its header. A timestamp of 0 or less becomes None: negative means missing, and
    overwritten bytes have 0.
    """
    first, last = (time if time > 0 else None for time in (header.first_timestamp, header.max_timestamp))
    return BatchOutline(header.first_offset, header.last_offset, header.claimed_records, first, last)


def _offsets(first: int, last: int | None) -> str:
    if last is None:
        return f"from offset {first} on"
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


class Finding(Struct, frozen=True):
    """One fault or fact about examined bytes: code, severity, place and a sentence. `position` is a byte position in
    `file` (from the start of the buffer if `file` is None); `offset` is a Kafka offset. Both are None if the finding
    concerns no byte or no offset.
    """

    code: FindingCode
    severity: Severity
    position: int | None = None
    offset: int | None = None
    detail: str = ""
    file: str | None = None
    last_offset: int | None = None
    """last offset of a batch in which something is wrong: consumers stop at `offset` and can continue after
    `last_offset`; None otherwise
    """
    unread: Unread | None = None
    """unreadable offsets and their times, for damage between sound batches; None otherwise"""
    batch: BatchOutline | None = None
    """header of a batch that is torn, or in which something is wrong; None otherwise"""

    @classmethod
    def of(
        cls,
        code: FindingCode,
        position: int | None = None,
        offset: int | None = None,
        detail: str = "",
        file: str | None = None,
        unread: Unread | None = None,
    ) -> Finding:
        """Return a finding with the severity that `SPECS` has for its code."""
        return cls(code, SPECS[code].severity, position, offset, detail, file, unread=unread)

    def in_file(self, file: str) -> Finding:
        """Return a copy of the finding with `file` set."""
        return replace(self, file=file)

    def __str__(self) -> str:
        at = f" ({self.place})" if self.place else ""
        return f"{self.severity}: {self.code}{at}: {self.detail}"

    @property
    def place(self) -> str:
        """File, position, offsets and times as text, those that are known; empty if none is."""
        position = "" if self.position is None else f"byte {self.position}"
        return ", ".join(part for part in (self.file, position, *self.offsets_and_times) if part)

    @property
    def offsets_and_times(self) -> list[str]:
        """Texts for a sentence about this finding: its offsets, then the times of its batch if they are known. They are
        the texts of `Unread.parts` if the finding is about unreadable offsets. Empty for any other finding without an
        offset.
        """
        if self.unread is not None:
            return self.unread.parts
        if self.offset is None:
            return []
        times = "" if self.batch is None else self.batch.times
        offsets = _offsets(self.offset, self.offset if self.last_offset is None else self.last_offset)
        return [offsets, times] if times else [offsets]


class FindingJson(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that is wrong, or worth knowing."""

    code: str
    """what it is, in a stable word; docs/findings.md has them all"""
    severity: Severity
    """`info` is normal after a crash or in compacted data, `warning` is a problem that a reader copes with, `error` is
    damage, loss, or something that a broker would not accept"""
    file: str | None
    """the file or directory that it is about; null if it is about none; in a plan relative to the log directory"""
    position: int | None
    """byte in that file; null if it is about no byte"""
    offset: int | None
    """Kafka offset; null if it is about no record"""
    last_offset: int | None = None
    """last offset of the batch that `offset` begins, if something inside of it cannot be read and consumers stop;
    absent otherwise"""
    unread: Unread | None = None
    """offsets that nobody reads because of it, and between which times they are; absent unless it is the first damage
    of a segment, or a segment that is gone, and if that leaves no offset out"""
    batch: BatchOutline | None = None
    """what the header of a batch says that is torn (then it is a claim), or inside of which something is wrong; absent
    otherwise, and if the header is cut too"""
    detail: str
    """one sentence for people; its words may change"""


def severity_of_unfinished(path: str) -> Severity:
    """Return the severity for a file that an unfinished operation left behind. A `.log.swap` is a WARNING, because a
    start of the broker replaces other segments by it; any other file is INFO.
    """
    return Severity.WARNING if path.endswith(FileKind.LOG.value + SWAP) else Severity.INFO
