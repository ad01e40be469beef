"""What a walk over a segment says about it: offsets, times, codecs, and whether it is whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from kafkalog.codec.errors import FormatError
from kafkalog.codec.fast.plain import PLAIN
from kafkalog.codec.findings import Finding, StopReason
from kafkalog.codec.legacy import first_offset
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import BatchHeader, RecordBatch, TimestampType, codec_label
from kafkalog.codec.rules import Continuity
from kafkalog.log.segment import Segment

__all__ = ["SegmentSummary", "summarize"]


@dataclass(frozen=True, slots=True)
class SegmentSummary:
    """Facts of one segment; offsets and timestamps (ms) are None where there is no batch, or none with a timestamp."""

    segment: Segment
    batches: int
    first_offset: int | None
    last_offset: int | None
    first_timestamp: int | None
    """smallest first timestamp of a batch"""
    last_timestamp: int | None
    """largest timestamp"""
    codecs: dict[str, int]
    """batches by codec"""
    magics: dict[int, int]
    """batches by message format"""
    valid_bytes: int
    """where the last valid batch ends"""
    stop: StopReason
    findings: tuple[Finding, ...]

    @property
    def next_offset(self) -> int:
        """Offset behind the last batch, or the base offset."""
        return self.segment.base_offset if self.last_offset is None else self.last_offset + 1


def _first_offset(batch: RecordBatch, limits: Limits) -> int:
    header = batch.header
    if isinstance(header, BatchHeader):
        return header.base_offset
    try:
        return first_offset(batch, limits, PLAIN)
    except FormatError:
        return header.last_offset


def _first_timestamp(batch: RecordBatch) -> int:
    header = batch.header
    plain = isinstance(header, BatchHeader) and header.timestamp_type is TimestampType.CREATE_TIME
    if plain and isinstance(header, BatchHeader) and header.delete_horizon_ms is None and header.base_timestamp >= 0:
        return header.base_timestamp
    return header.max_timestamp


def summarize(
    segment: Segment,
    *,
    next_segment: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    on_bytes: Callable[[int], None] | None = None,
) -> SegmentSummary:
    """Walk a whole segment; `next_segment` is the base offset of the one behind it.  Raises `StorageError` only."""
    continuity = Continuity(segment.base_offset, next_segment=next_segment)
    findings: list[Finding] = []
    codecs: Counter[str] = Counter()
    magics: Counter[int] = Counter()
    first = last = first_time = last_time = None
    with segment.scanner(limits=limits) as scanner:
        for batch in scanner:
            header = batch.header
            findings.extend(finding.in_file(segment.path) for finding in continuity.check(batch))
            codecs[codec_label(header.codec)] += 1
            magics[header.magic] += 1
            if first is None:
                first = _first_offset(batch, limits)
            last = header.last_offset if last is None else max(last, header.last_offset)
            if header.max_timestamp >= 0:
                begin = _first_timestamp(batch)
                first_time = begin if first_time is None else min(first_time, begin)
                last_time = header.max_timestamp if last_time is None else max(last_time, header.max_timestamp)
            if on_bytes is not None:
                on_bytes(batch.size)
    findings.extend(finding.in_file(segment.path) for finding in scanner.findings)
    return SegmentSummary(
        segment=segment,
        batches=magics.total(),
        first_offset=first,
        last_offset=last,
        first_timestamp=first_time,
        last_timestamp=last_time,
        codecs=dict(sorted(codecs.items())),
        magics=dict(sorted(magics.items())),
        valid_bytes=scanner.valid_bytes,
        stop=scanner.stop or StopReason.END,
        findings=tuple(findings),
    )
