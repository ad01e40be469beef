"""Find the first fault in the batches of a log, before something is written after it and hides it. Reads every byte and
verifies checksums. Batches with repeated offsets count as damage here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.source import Source
from kafkalog.codec.model import RecordBatch
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.codec.rules.batches import Continuity
from kafkalog.log.walk.batches import large_log_scanner
from kafkalog.log.walk.cursor import sound_parts

if TYPE_CHECKING:
    from kafkalog.codec.headers.runs import BatchRun
    from kafkalog.codec.headers.table import HeaderTable

__all__ = ["first_damage"]


def first_damage(
    source: Source, base_offset: int, next_base: int | None, headers: HeaderTable | None = None
) -> tuple[Finding | None, int]:
    """Return the first finding that is damage, and the offset after the last sound batch before it. Without damage the
    finding is None, and the offset is the log end offset; for an empty log it is `base_offset`. An incomplete batch or
    zeros at the end are damage too. `base_offset` is the base offset of the segment, `next_base` that of the next
    segment (None for the last one). `headers` is a cache for the headers of valid batches, if other scans need them
    too; the scan reads and fills it.
    """
    continuity = Continuity(base_offset, next_segment=next_base)
    end = base_offset
    for found in _walk(source, headers):
        if isinstance(found, Finding):
            return found, end
        for part in _parts(found, continuity):
            if not isinstance(part, RecordBatch):
                end = part.next_offset
                continue
            for finding in continuity.check(part):
                if finding.severity is Severity.ERROR or finding.code is FindingCode.OFFSET_NOT_INCREASING:
                    return finding, end
            end = part.header.next_offset
    return None, end


def _walk(source: Source, headers: HeaderTable | None) -> Iterator[BatchRun | RecordBatch | Finding]:
    """Yield the valid batches of a log in order, as runs or one by one, and last the finding at which the scan stopped,
    if any. With `headers`, runs come from and go into that cache.
    """
    position = 0
    for run in () if headers is None else headers.runs(source, source.size):
        yield run
        position = run.end
    scanner = (large_log_scanner(source) if headers is None else None) or Scanner(source, position=position)
    yield from scanner
    yield from scanner.findings


def _parts(found: BatchRun | RecordBatch, continuity: Continuity) -> Iterable[BatchRun | RecordBatch]:
    return [found] if isinstance(found, RecordBatch) else sound_parts(found, continuity, gaps=True)
