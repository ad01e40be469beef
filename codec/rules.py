"""Rules across fields and batches: what a valid checksum does not prove.

Base offset, length, leader epoch and magic of a v2 batch lie outside its checksum, so "the last valid CRC" is weaker
than "the last valid batch".  Both executions feed these rules; none of them ends a walk.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkalog.codec.findings import Finding, FindingCode, Severity
from kafkalog.codec.framing import BATCH_MAGIC
from kafkalog.codec.model import (
    CODEC_MASK,
    NO_PARTITION_LEADER_EPOCH,
    AnyHeader,
    BatchHeader,
    Codec,
    RecordBatch,
)

if TYPE_CHECKING:
    from kafkalog.codec.headers.runs import BatchRun

__all__ = ["MAGICS", "MAX_RELATIVE_OFFSET", "Continuity", "header_findings"]

MAX_RELATIVE_OFFSET = 2**31 - 1
"""Indexes store offsets relative to the segment's base as int32."""
MAGICS = frozenset({0, 1, 2})
_LAST_LEGACY_CODEC = Codec.LZ4


def header_findings(header: AnyHeader, position: int) -> Iterator[Finding]:
    """What is wrong with one header by itself."""

    def found(code: FindingCode, detail: str) -> Finding:
        return Finding(code, Severity.ERROR, position, header.last_offset, detail)

    if header.magic not in MAGICS:
        yield found(FindingCode.MAGIC_UNKNOWN, f"magic {header.magic}")
    if header.codec > (Codec.ZSTD if header.magic >= 2 else _LAST_LEGACY_CODEC):
        yield found(FindingCode.CODEC_UNKNOWN, f"compression id {header.codec} in magic {header.magic}")
    if isinstance(header, BatchHeader):
        if header.last_offset_delta < 0:
            yield found(FindingCode.LAST_OFFSET_DELTA_INVALID, f"last offset delta {header.last_offset_delta}")
        if header.records_count < 0 or header.records_count > header.last_offset_delta + 1 >= 1:
            yield found(FindingCode.RECORDS_COUNT_INVALID, f"{header.records_count} records")


class Continuity:
    """What is wrong with a batch where it stands; fed with the batches of one segment in order."""

    def __init__(self, base_offset: int | None = None, *, next_segment: int | None = None) -> None:
        self._base = base_offset
        self._next_segment = next_segment
        self._last_offset: int | None = None
        self._epoch = NO_PARTITION_LEADER_EPOCH

    def sound_prefix(self, run: BatchRun, *, gaps: bool) -> int:
        """How many batches of a run, from the first on, are without findings; they count as checked.

        With `gaps` those may have offsets missing before them, which is no more than information.
        """
        first, last = run["base_offset"], run.last_offsets
        deltas, counts, epochs = run["last_offset_delta"], run["records_count"], run["partition_leader_epoch"]
        fine = (run["magic"] == BATCH_MAGIC) & (run["attributes"] & CODEC_MASK <= Codec.ZSTD)
        fine &= (first >= 0) & (deltas >= 0)
        fine &= (counts >= 0) & (counts <= deltas + 1) & (last >= first)
        if self._base is not None:
            fine &= (first >= self._base) & (last - self._base <= MAX_RELATIVE_OFFSET)
        if self._next_segment is not None:
            fine &= last < self._next_segment
        if self._last_offset is not None:
            fine[0] &= bool(first[0] > self._last_offset if gaps else first[0] == self._last_offset + 1)
        fine[1:] &= first[1:] > last[:-1] if gaps else first[1:] == last[:-1] + 1
        fine[0] &= bool(epochs[0] >= self._epoch)
        fine[1:] &= epochs[1:] >= epochs[:-1]
        count = len(run) if fine.all() else int(fine.argmin())
        if count:
            self._last_offset, self._epoch = int(last[count - 1]), max(self._epoch, int(epochs[count - 1]))
        return count

    def check(self, batch: RecordBatch) -> Iterator[Finding]:
        """Findings of this batch, given those before it."""
        header, position = batch.header, batch.position
        yield from header_findings(header, position)
        last = header.last_offset
        first = header.base_offset if isinstance(header, BatchHeader) else last

        def found(code: FindingCode, detail: str, severity: Severity = Severity.ERROR) -> Finding:
            return Finding(code, severity, position, first, detail)

        if self._base is not None and first < self._base:
            yield found(FindingCode.OFFSET_BELOW_SEGMENT, f"offset {first} in a segment that begins at {self._base}")
        if self._base is not None and last - self._base > MAX_RELATIVE_OFFSET:
            yield found(FindingCode.OFFSET_ABOVE_SEGMENT, f"offset {last} in a segment that begins at {self._base}")
        if self._next_segment is not None and last >= self._next_segment:
            yield found(
                FindingCode.SEGMENT_OVERLAP, f"offset {last}, but the next segment begins at {self._next_segment}"
            )
        if self._last_offset is not None:
            if first <= self._last_offset:
                yield found(FindingCode.OFFSET_NOT_INCREASING, f"offset {first} behind {self._last_offset}")
            elif isinstance(header, BatchHeader) and first != self._last_offset + 1:
                gap = f"offsets {self._last_offset + 1} to {first - 1} are not there"
                yield found(FindingCode.OFFSET_GAP, gap, Severity.INFO)
        epoch = header.partition_leader_epoch
        if epoch != NO_PARTITION_LEADER_EPOCH:
            if epoch < self._epoch:
                yield found(FindingCode.LEADER_EPOCH_DECREASES, f"leader epoch {epoch} behind {self._epoch}")
            self._epoch = max(self._epoch, epoch)
        self._last_offset = last
