"""The first thing wrong with the batches of a log, for who writes on or over it: later nobody could tell any more.

Reads every byte with its checksum; batches whose offsets were there before count as damage here.
"""

from __future__ import annotations

from kafkalog.codec.findings import Finding, FindingCode, Severity
from kafkalog.codec.model import RecordBatch
from kafkalog.codec.rules import Continuity
from kafkalog.codec.scanner import Scanner
from kafkalog.codec.source import Source
from kafkalog.log.walk.batches import large_log_scanner
from kafkalog.log.walk.cursor import sound_parts

__all__ = ["first_damage"]


def first_damage(source: Source, base_offset: int, next_base: int | None) -> tuple[Finding | None, int]:
    """The finding, None if all is sound, and the offset after the last batch that was read.

    * `base_offset`: that of the segment
    * `next_base`: that of the segment after it, None if it is the last
    """
    continuity = Continuity(base_offset, next_segment=next_base)
    end = base_offset
    scanner = large_log_scanner(source) or Scanner(source)
    for found in scanner:
        for part in [found] if isinstance(found, RecordBatch) else sound_parts(found, continuity, gaps=True):
            if not isinstance(part, RecordBatch):
                end = part.next_offset
                continue
            for finding in continuity.check(part):
                if finding.severity is Severity.ERROR or finding.code is FindingCode.OFFSET_NOT_INCREASING:
                    return finding, end
            end = part.header.next_offset
    return next(iter(scanner.findings), None), end
