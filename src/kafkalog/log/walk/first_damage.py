"""The first thing wrong with the batches of a log, for who writes on or over it: later nobody could tell any more.

Reads every byte with its checksum; batches whose offsets were there before count as damage here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kafkalog.codec.findings import Finding, FindingCode, Severity
from kafkalog.codec.model import RecordBatch
from kafkalog.codec.rules import Continuity
from kafkalog.codec.scanner import Scanner
from kafkalog.codec.source import Source
from kafkalog.log.walk.batches import large_log_scanner
from kafkalog.log.walk.cursor import sound_parts

if TYPE_CHECKING:
    from kafkalog.codec.headers.runs import BatchRun
    from kafkalog.codec.headers.table import HeaderTable

__all__ = ["first_damage"]


def first_damage(
    source: Source, base_offset: int, next_base: int | None, headers: HeaderTable | None = None
) -> tuple[Finding | None, int]:
    """The finding, None if all is sound, and the offset after the last batch that was read.

    * `base_offset`: that of the segment
    * `next_base`: that of the segment after it, None if it is the last
    * `headers`: those of its sound batches, where somebody else needs them too
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
    """What is in a log, and after it what ends it before its end."""
    position = 0
    for run in () if headers is None else headers.runs(source, source.size):
        yield run
        position = run.end
    scanner = (large_log_scanner(source) if headers is None else None) or Scanner(source, position=position)
    yield from scanner
    yield from scanner.findings


def _parts(found: BatchRun | RecordBatch, continuity: Continuity) -> Iterable[BatchRun | RecordBatch]:
    return [found] if isinstance(found, RecordBatch) else sound_parts(found, continuity, gaps=True)
