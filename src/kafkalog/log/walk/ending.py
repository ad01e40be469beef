"""Decide whether a scan of a segment ended at the end of the log or at damage, and find where the log continues. All
readers and checks of a log use this rule through their `Cursor`. Three scans only search for the continuation:
`follow`, because a segment that is still being written has no end yet; `salvage`, which first tries to correct bits;
and `CopyWalk`, which remembers the place for its next scan of the files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.common.findings import Finding, FindingCode, Severity, StopReason, outline_of
from kafkalog.codec.common.source import Source, zeros_end
from kafkalog.codec.model import RecordBatch
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.codec.rules.framing import header_bytes
from kafkalog.log.walk.resync import Expected, Resync

__all__ = ["EndOfWalk", "FinishedWalk", "end_of_walk", "ends_below"]

_TAILS = (StopReason.TORN_TAIL, StopReason.ZERO_TAIL)
_SECTOR = 512
"""Unit in which a disk writes: this many zeros at the end of a batch are blocks that were never written."""


class FinishedWalk(Protocol):
    """A `Scanner` or a `RunScanner` at its end."""

    @property
    def valid_bytes(self) -> int:
        """Position after the last valid batch."""

    @property
    def stop(self) -> StopReason | None:
        """Reason for stopping; None before the end."""

    @property
    def findings(self) -> Sequence[Finding]:
        """Faults at the end."""


class EndOfWalk(Struct, frozen=True, kw_only=True):
    """Place and reason of a scan's end."""

    position: int
    """in bytes, after the last sound batch"""
    stop: StopReason
    findings: tuple[Finding, ...]
    """faults there; none at the end of the file"""
    resumed: int | None
    """position at which the log continues; None: not in this segment, or not searched"""

    @property
    def is_tail(self) -> bool:
        """Whether the scan ended at an unfinished append at the end of a log (a torn or zero tail), with nothing after
        it.
        """
        return self.stop in _TAILS


def ends_below(batch: RecordBatch, highest: int) -> Finding:
    """Return the finding about a log whose last batch ends below an earlier offset. A broker takes the end of a log
    from its last batch (`LogSegment.readNextOffset`).
    """
    detail = f"the log ends with offset {batch.last_offset} after {highest}, so a broker appends from there"
    return Finding.of(FindingCode.LOG_END_BELOW_OFFSET, batch.position, batch.last_offset, detail)


def end_of_walk(
    walk: FinishedWalk, resync: Resync, expected: Expected, *, through_damage: bool, end: int | None = None
) -> EndOfWalk:
    """Return how a scan of a segment ended: at the end of the log, at a tail (an unfinished batch, or zeros that were
    never written), or at damage. The result also has the position before `end` (None: end of file) at which the log
    continues; None if there is no such position, or it was not searched. `resync` must be of the same file. Raises
    `StorageError` if the log cannot be read.

    In any segment but the last, both kinds of tail are damage. In the last segment, an unfinished batch is damage if
    valid batches follow. A batch with a wrong checksum there is a tail of zeros if it ends in zeros up to the end of
    the file. The position is searched if `through_damage` is True, or if the last segment seems to end in an unfinished
    batch; never at the end of the log or after a tail of zeros.
    """
    stop = walk.stop or StopReason.END
    position = walk.valid_bytes
    has_later = not expected.is_in_last_segment
    if stop is StopReason.CORRUPT and not has_later and walk.findings[-1].code is FindingCode.CRC_MISMATCH:
        zeroed = _zeroed_batch(resync.source, position, walk.findings[-1])
        if zeroed is not None:
            return EndOfWalk(
                position=position, stop=StopReason.ZERO_TAIL, findings=(*walk.findings[:-1], zeroed), resumed=None
            )
    resumed = None
    if stop not in (StopReason.END, StopReason.ZERO_TAIL) and (
        through_damage or (stop is StopReason.TORN_TAIL and not has_later)
    ):
        resumed = resync.next_batch(position, expected, end=end)
    following = resumed
    if following is None and stop is StopReason.TORN_TAIL and not has_later:
        following = resync.behind_mended(position)  # even a batch with impossible values was written later
    if stop not in _TAILS or (following is None and not has_later):
        return EndOfWalk(position=position, stop=stop, findings=tuple(walk.findings), resumed=resumed)
    more = "another segment follows" if following is None else f"a sound batch begins at byte {following}"
    findings = (_as_damage(finding, more) for finding in walk.findings)
    return EndOfWalk(position=position, stop=StopReason.CORRUPT, findings=tuple(findings), resumed=resumed)


def _zeroed_batch(source: Source, position: int, mismatch: Finding) -> Finding | None:
    """Return the finding that replaces `mismatch` (wrong checksum) if the last 512 bytes of the batch at byte
    `position` and all bytes after it are zeros; otherwise None. Fewer zeros may be content of the batch. If less than
    that follows its header, all of it must be zeros, and at least one byte. Raises `StorageError` if the log cannot be
    read.
    """
    batch = next(iter(Scanner(source, position=position, check_crc=False)), None)
    if batch is None:
        return None
    end = position + batch.size
    zeros = max(position + header_bytes(batch.magic), end - _SECTOR)
    if zeros >= end or zeros_end(source, zeros, source.size) < source.size:
        return None
    outline = outline_of(batch.header)
    claim = outline if outline.is_possible else None
    return replace(
        mismatch,
        code=FindingCode.ZERO_TAIL,
        severity=Severity.WARNING,
        offset=None,
        detail=f"zeros from inside a batch of {batch.size} bytes to the end{'' if claim is None else claim.claimed}",
        batch=claim,
    )


def _as_damage(tail: Finding, more: str) -> Finding:
    said = tail.detail if tail.batch is None else tail.detail.removesuffix(tail.batch.claimed)
    code, severity = FindingCode.BATCH_SIZE_INVALID, Severity.ERROR
    return replace(tail, code=code, severity=severity, detail=f"{said}, but {more}", batch=None)
