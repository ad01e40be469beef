"""Scan a segment: find its batches, the end of the last valid one, and the reason why the scan stopped there. The rules
are those of Kafka's file iterator and of `RecordBatch.ensureValid` (`FileLogInputStream`, `DefaultRecordBatch`,
`LegacyRecord`), which a broker's recovery applies: size first, then checksum. A fault in a batch with a valid checksum
does not end a scan; `rules` finds it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from msgspec import Struct

from kafkalog.codec.common.findings import BatchOutline, Finding, FindingCode, Severity, StopReason, outline_of
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.common.source import BufferSource, Source, Window, zeros_end
from kafkalog.codec.model import BATCH, LOG_OVERHEAD, AnyHeader, RecordBatch
from kafkalog.codec.plain.crc32c import crc32c
from kafkalog.codec.plain.decoding import PLAIN
from kafkalog.codec.rules.batches import Continuity
from kafkalog.codec.rules.execution import Execution
from kafkalog.codec.rules.framing import (
    BATCH_CRC_START,
    BATCH_MAGIC,
    LEGACY_CRC_START,
    MAGIC_END,
    MAGIC_POSITION,
    SMALLEST_MESSAGE,
    entry_size,
    header_bytes,
)

__all__ = ["ScanResult", "Scanner", "offset_behind", "offsets_behind", "scan"]

_GLANCE = 64
"""Number of bytes read first to see whether a tail is zeros: enough in most cases."""


class ScanResult(Struct, frozen=True, kw_only=True):
    """Result of a complete scan of a segment."""

    batches: tuple[RecordBatch, ...]
    valid_bytes: int
    """position after the last valid batch"""
    stop: StopReason
    findings: tuple[Finding, ...]


class Scanner:
    """Iterator over the valid batches from `position` up to `end` (exclusive; None: the end of the source). When it is
    exhausted, `valid_bytes` is the position after the last valid batch, `stop` the reason for stopping, and `findings`
    has the fault there, if any. It reads windows of `limits.read_window_bytes`, or of one batch if that is larger. A
    declared size is compared with the bytes that are left before anything is read. Raises `StorageError` if a file
    cannot be read.
    """

    def __init__(
        self,
        source: Source,
        *,
        position: int = 0,
        end: int | None = None,
        check_crc: bool = True,
        limits: Limits = DEFAULT_LIMITS,
        execution: Execution = PLAIN,
    ) -> None:
        self._end = source.size if end is None else min(end, source.size)
        self._check_crc = check_crc
        self._limits = limits
        self._execution = execution
        self._source = source
        self._window = Window(source, limits.read_window_bytes, self._end)
        self.valid_bytes = position
        self.stop: StopReason | None = None
        self.findings: list[Finding] = []

    def __iter__(self) -> Iterator[RecordBatch]:
        while (batch := self._next()) is not None:
            self.valid_bytes = batch.position + batch.size
            yield batch
            del batch  # the next one may be as large

    def _next(self) -> RecordBatch | None:
        position = self.valid_bytes
        left = self._end - position
        if left == 0:
            self.stop = StopReason.END
            return None
        if left <= MAGIC_END:
            self._tail(position, FindingCode.TORN_TAIL, f"{left} bytes that cannot hold a batch header")
            return None
        start = self._window.view(position, MAGIC_END)
        if len(start) < MAGIC_END:
            self._tail(position, FindingCode.TORN_TAIL, "the file became shorter while it was read")
            return None
        size = entry_size(start, 0)
        if size < LOG_OVERHEAD.size + SMALLEST_MESSAGE:
            self._tail(position, FindingCode.BATCH_SIZE_INVALID, f"a size field of {size - LOG_OVERHEAD.size}")
            return None
        if size > left:
            self._torn(position, size, left)
            return None
        if size > self._limits.batch_bytes:
            self.stop = StopReason.LIMIT
            self._found(FindingCode.LIMIT_EXCEEDED, position, f"a batch of {size} bytes is above batch_bytes")
            return None
        data = self._window.view(position, size)
        if len(data) < size:
            self._tail(position, FindingCode.TORN_TAIL, "the file became shorter while it was read")
            return None
        return self._batch(position, data)

    def _batch(self, position: int, data: memoryview) -> RecordBatch | None:
        header: AnyHeader
        if data[MAGIC_POSITION] in (0, 1):
            if len(data) < header_bytes(data[MAGIC_POSITION]):
                self._tail(position, FindingCode.BATCH_SIZE_INVALID, f"a message of {len(data)} bytes")
                return None
            header = self._execution.legacy_header(data, 0)
            computed = zlib.crc32(data[LEGACY_CRC_START:]) if self._check_crc else header.crc
        else:
            if len(data) < BATCH.size:
                self._tail(position, FindingCode.BATCH_SIZE_INVALID, f"a batch of {len(data)} bytes")
                return None
            header = self._execution.batch_header(data, 0)
            computed = crc32c(data[BATCH_CRC_START:]) if self._check_crc else header.crc
        if computed != header.crc:
            detail = f"stored checksum {header.crc:#010x}, computed {computed:#010x}"
            self._tail(position, FindingCode.CRC_MISMATCH, detail, offset=header.last_offset)
            return None
        return RecordBatch(header, position, data)

    def _torn(self, position: int, size: int, left: int) -> None:
        """End the scan in a batch that reaches beyond the end. The finding has an outline of the batch if its header is
        usable.
        """
        claim = self._claim(position, left)
        detail = f"a batch of {size} bytes with {left} bytes left{'' if claim is None else claim.claimed}"
        self._tail(position, FindingCode.TORN_TAIL, detail, batch=claim)

    def _claim(self, position: int, left: int) -> BatchOutline | None:
        """Return the outline of the incomplete batch at `position`, of which `left` bytes are there, from its header.
        None if the header is incomplete, of an unknown magic, or has impossible values. No checksum confirms the
        outline.
        """
        head = self._window.view(position, min(left, BATCH.size))
        magic = head[MAGIC_POSITION] if len(head) > MAGIC_POSITION else -1
        if magic not in (0, 1, BATCH_MAGIC) or len(head) < header_bytes(magic):
            return None
        read = self._execution.batch_header if magic == BATCH_MAGIC else self._execution.legacy_header
        claim = outline_of(read(head, 0))
        return claim if claim.is_possible else None

    def _tail(
        self,
        position: int,
        code: FindingCode,
        detail: str,
        offset: int | None = None,
        batch: BatchOutline | None = None,
    ) -> None:
        """End the scan because no valid batch starts at `position`: set `stop` and add a finding. If only zeros follow
        up to the end, `stop` is ZERO_TAIL, and `code` is ignored. Otherwise it is TORN_TAIL if this is the `code`, and
        CORRUPT for any other code. `offset` is the last offset of a corrupt batch and `batch` the outline of a torn
        one, if known. Reads bytes after `position` for this; raises `StorageError` if they cannot be read.
        """
        if self._all_zero(position):
            zeros = self._end - position
            self.stop = StopReason.ZERO_TAIL
            self._found(FindingCode.ZERO_TAIL, position, f"{zeros} zero bytes to the end", severity=Severity.WARNING)
        elif code is FindingCode.TORN_TAIL:
            self.stop = StopReason.TORN_TAIL
            self._found(code, position, detail, severity=Severity.WARNING, batch=batch)
        else:
            self.stop = StopReason.CORRUPT
            self._found(code, position, detail, offset=offset)

    def _all_zero(self, position: int) -> bool:
        # the first bytes, which the window already has, are almost always enough
        seen = self._window.view(position, min(_GLANCE, self._end - position))
        return not any(seen) and zeros_end(self._source, position, self._end) == self._end

    def _found(
        self,
        code: FindingCode,
        position: int,
        detail: str,
        *,
        offset: int | None = None,
        severity: Severity = Severity.ERROR,
        batch: BatchOutline | None = None,
    ) -> None:
        self.findings.append(Finding(code, severity, position, offset, detail, batch=batch))


def offset_behind(source: Source, end: int, next_segment: int | None = None) -> int | None:
    """Return the base offset in the header at position `end`, without any check. Return `next_segment` if `end` is the
    end of the source, and None if too few bytes for a header are left.
    """
    if end >= source.size:
        return next_segment
    head = source.read(end, MAGIC_END)
    return LOG_OVERHEAD.struct.unpack_from(head)[0] if len(head) == MAGIC_END else None


def offset_behind_next(source: Source, end: int, next_segment: int | None = None) -> int | None:
    """Return the base offset of the second header after position `end`. The first header's size field leads to it; if
    that size is impossible, return None. If the first batch is the last, return `next_segment`.
    """
    head = source.read(end, LOG_OVERHEAD.size)
    size = entry_size(head, 0) if len(head) == LOG_OVERHEAD.size else 0
    return offset_behind(source, end + size, next_segment) if size >= LOG_OVERHEAD.size + SMALLEST_MESSAGE else None


def offsets_behind(
    source: Source, header: AnyHeader, end: int, continuity: Continuity
) -> tuple[int | None, int | None]:
    """Return the base offsets in the next two headers after the batch `header`, which ends at byte `end`, for
    `Continuity.check`. After the last header in the file comes the base offset of the next segment, None if unknown. An
    offset is also None if it is not needed, or if its header is incomplete or cannot be found because a size is
    impossible. If the batch begins at the expected offset, as nearly every batch does, or none is expected, neither is
    needed and nothing is read. Uses `continuity.behind` as the first offset if it is not None, and sets it to None.
    Raises `StorageError` if a file cannot be read.
    """
    following, continuity.behind = continuity.behind, None
    if continuity.is_next(header):
        return None, None
    if following is None:
        following = offset_behind(source, end, continuity.next_segment)
    if not continuity.may_hide(header, following):
        return following, None
    return following, offset_behind_next(source, end, continuity.next_segment)


def scan(
    buffer: bytes | bytearray | memoryview | Source,
    *,
    base_offset: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    execution: Execution = PLAIN,
) -> ScanResult:
    """Scan a whole segment in memory or of a `Source`; return its valid batches, their end, the reason for stopping and
    all findings. Bad data raises nothing: it makes findings. Raises `StorageError` if a file cannot be read.

    * `buffer`: the bytes of the segment
    * `base_offset`: the segment's, from its file name. If given, offsets outside the segment's range are findings too
    * `limits`: upper bounds for a batch or file (`Limits`)
    * `execution`: implementation that decodes headers; the results do not depend on it
    """
    source = BufferSource(buffer) if isinstance(buffer, bytes | bytearray | memoryview) else buffer
    scanner = Scanner(source, limits=limits, execution=execution)
    continuity = Continuity(base_offset)
    batches: list[RecordBatch] = []
    findings: list[Finding] = []
    for batch in scanner:
        batches.append(batch)
        behind = offsets_behind(source, batch.header, batch.position + batch.size, continuity)
        findings.extend(continuity.check(batch, *behind))
    stop = scanner.stop or StopReason.END
    return ScanResult(
        batches=tuple(batches), valid_bytes=scanner.valid_bytes, stop=stop, findings=(*findings, *scanner.findings)
    )
