"""Rules across fields and batches: what a valid checksum does not prove.

Base offset, length, leader epoch and magic of a v2 batch lie outside its checksum, so "the last valid CRC" is weaker
than "the last valid batch".  Both executions feed these rules; none of them ends a walk.  `headers.continuity` has them
for many batches at a time.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkalog.codec.findings import Finding, FindingCode, Severity
from kafkalog.codec.model import (
    LAST_CODEC,
    NO_PARTITION_LEADER_EPOCH,
    AnyHeader,
    BatchHeader,
    Codec,
    RecordBatch,
)

__all__ = ["LAST_LEGACY_CODEC", "MAGICS", "MAX_RELATIVE_OFFSET", "Continuity", "ends_reading", "header_findings"]

MAX_RELATIVE_OFFSET = 2**31 - 1
"""Indexes store offsets relative to the segment's base as int32."""
MAGICS = frozenset({0, 1, 2})
LAST_LEGACY_CODEC = Codec.LZ4
"""Above it is what no reader opens in magic 0 and 1."""


def ends_reading(header: AnyHeader, base_offset: int) -> bool:
    """Whether nobody reads past a batch in the segment that begins at `base_offset`, for all its checksum says."""
    return header.magic not in MAGICS or header.last_offset - base_offset > MAX_RELATIVE_OFFSET


def header_findings(header: AnyHeader, position: int) -> Iterator[Finding]:
    """What is wrong with one header by itself."""

    def found(code: FindingCode, detail: str) -> Finding:
        return Finding(code, Severity.ERROR, position, header.last_offset, detail)

    if header.magic not in MAGICS:
        yield found(FindingCode.MAGIC_UNKNOWN, f"magic {header.magic}")
    if header.codec > (LAST_CODEC if header.magic >= 2 else LAST_LEGACY_CODEC):
        yield found(FindingCode.CODEC_UNKNOWN, f"compression id {header.codec} in magic {header.magic}")
    if isinstance(header, BatchHeader):
        if header.last_offset_delta < 0:
            yield found(FindingCode.LAST_OFFSET_DELTA_INVALID, f"last offset delta {header.last_offset_delta}")
        if header.records_count < 0 or header.records_count > header.last_offset_delta + 1 >= 1:
            yield found(FindingCode.RECORDS_COUNT_INVALID, f"{header.records_count} records")


class Continuity:
    """What is wrong with a batch where it is; fed with the batches of one segment in order."""

    def __init__(self, base_offset: int | None = None, *, next_segment: int | None = None) -> None:
        self.base_offset = base_offset
        """of the segment, where that is known"""
        self.next_segment = next_segment
        """base offset of the segment after this one"""
        self.last_offset: int | None = None
        """of the batch before"""
        self.leader_epoch = NO_PARTITION_LEADER_EPOCH
        """the highest so far"""

    def check(self, batch: RecordBatch) -> Iterator[Finding]:
        """Findings of this batch, given those before it."""
        header, position = batch.header, batch.position
        yield from header_findings(header, position)
        last = header.last_offset
        first = header.first_offset

        def found(code: FindingCode, detail: str, severity: Severity = Severity.ERROR) -> Finding:
            return Finding(code, severity, position, first, detail)

        where = f"in a segment that begins at {self.base_offset}"
        if self.base_offset is not None and first < self.base_offset:
            yield found(FindingCode.OFFSET_BELOW_SEGMENT, f"offset {first} {where}")
        if self.base_offset is not None and last - self.base_offset > MAX_RELATIVE_OFFSET:
            yield found(FindingCode.OFFSET_ABOVE_SEGMENT, f"offset {last} {where}")
        if self.next_segment is not None and last >= self.next_segment:
            yield found(
                FindingCode.SEGMENT_OVERLAP, f"offset {last}, but the next segment begins at {self.next_segment}"
            )
        if self.last_offset is not None:
            if first <= self.last_offset:
                yield found(FindingCode.OFFSET_NOT_INCREASING, f"offset {first} after {self.last_offset}")
            elif isinstance(header, BatchHeader) and first != self.last_offset + 1:
                gap = f"offsets {self.last_offset + 1} to {first - 1} are not there"
                yield found(FindingCode.OFFSET_GAP, gap, Severity.INFO)
        epoch = header.partition_leader_epoch
        if epoch != NO_PARTITION_LEADER_EPOCH:
            if epoch < self.leader_epoch:
                yield found(FindingCode.LEADER_EPOCH_DECREASES, f"leader epoch {epoch} after {self.leader_epoch}")
            self.leader_epoch = max(self.leader_epoch, epoch)
        self.last_offset = last
