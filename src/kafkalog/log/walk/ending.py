"""What ended a walk over a segment, the end of the log or damage, and where the log goes on after that.

One rule for all who read or judge a log, through their `Cursor`.  Three walks only search through it: `follow`, because
a segment that is still being written says nothing yet about its end; `salvage`, which tries to turn bits back before it
gives anything up; and `CopyWalk`, which remembers the place for its next walk over the same files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.findings import Finding, FindingCode, Severity, StopReason, outline_of
from kafkalog.codec.framing import header_bytes
from kafkalog.codec.model import RecordBatch
from kafkalog.codec.scanner import Scanner
from kafkalog.codec.source import Source, zeros_end
from kafkalog.log.walk.resync import Expected, Resync

__all__ = ["EndOfWalk", "FinishedWalk", "end_of_walk", "ends_below"]

_TAILS = (StopReason.TORN_TAIL, StopReason.ZERO_TAIL)
_SECTOR = 512
"""Bytes that a disk writes as one: so many zeros at the end of a batch are blocks that were never written."""


class FinishedWalk(Protocol):
    """A `Scanner` or a `RunScanner` that has been iterated over."""

    @property
    def valid_bytes(self) -> int:
        """Where the last sound batch ends."""

    @property
    def stop(self) -> StopReason | None:
        """Why it ended."""

    @property
    def findings(self) -> Sequence[Finding]:
        """What ended it."""


class EndOfWalk(Struct, frozen=True, kw_only=True):
    """Where a walk ended, and why."""

    position: int
    """in bytes, after the last sound batch"""
    stop: StopReason
    findings: tuple[Finding, ...]
    """what is wrong there; none at the end of the file"""
    resumed: int | None
    """where the log goes on; None: nowhere in this segment, or that was not asked"""

    @property
    def is_tail(self) -> bool:
        """What an append that was cut short leaves at the end of a log, and nothing follows."""
        return self.stop in _TAILS


def ends_below(batch: RecordBatch, highest: int) -> Finding:
    """What is wrong with a log whose last batch, of its last segment, ends below an offset that came before.

    A broker takes the end of a log from its last batch (`LogSegment.readNextOffset`).
    """
    detail = f"the log ends with offset {batch.last_offset} after {highest}, so a broker appends from there"
    return Finding.of(FindingCode.LOG_END_BELOW_OFFSET, batch.position, batch.last_offset, detail)


def end_of_walk(
    walk: FinishedWalk, resync: Resync, expected: Expected, *, through_damage: bool, end: int | None = None
) -> EndOfWalk:
    """How a walk over a segment ended, and before `end` goes on; `resync` is of the same file.

    Without `through_damage` the log is asked to go on only where it seems to end in a batch that was never finished:
    with sound batches after it, that is damage to a size field, and data is missing.  Zeros up to the end have nothing
    after them.  A batch with a wrong checksum that is zeros from some byte to the end of the last segment is a tail of
    zeros too: its blocks were never written.
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
    behind = resumed
    if behind is None and stop is StopReason.TORN_TAIL and not has_later:
        behind = resync.behind_mended(position)  # which may be no batch to go on with, but one that was written later
    if stop not in _TAILS or (behind is None and not has_later):
        return EndOfWalk(position=position, stop=stop, findings=tuple(walk.findings), resumed=resumed)
    more = "another segment follows" if behind is None else f"a sound batch begins at byte {behind}"
    findings = (_as_damage(finding, more) for finding in walk.findings)
    return EndOfWalk(position=position, stop=StopReason.CORRUPT, findings=tuple(findings), resumed=resumed)


def _zeroed_batch(source: Source, position: int, mismatch: Finding) -> Finding | None:
    """Finding for a batch that ends in zeros which reach to the end of the file; None if it is another kind of damage.

    The last 512 bytes of the batch must be zeros, or all behind its header: fewer may be its own.
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
