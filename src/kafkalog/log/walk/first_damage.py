"""Find the first fault in the batches of a log, before something is written after it and hides it. Reads every byte and
verifies checksums. Batches with repeated offsets count as damage here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.source import Source
from kafkalog.codec.headers.one_batch import OneBatch
from kafkalog.codec.model import RecordBatch
from kafkalog.codec.rules.batches import Continuity
from kafkalog.log.walk.batches import RunsThenBatches, scanner_of_runs
from kafkalog.log.walk.cursor import judged

if TYPE_CHECKING:
    from kafkalog.codec.headers.table import HeaderTable

__all__ = ["first_damage"]


def first_damage(
    source: Source, base_offset: int, next_base: int | None, headers: HeaderTable | None = None
) -> tuple[Finding | None, int]:
    """Return the first finding that is damage, and the offset after the last sound batch before it. Without damage the
    finding is None, and the offset is the log end offset; for an empty log it is `base_offset`. An incomplete batch or
    zeros at the end are damage too.

    `base_offset` is the base offset of the segment, `next_base` the base offset of the next segment (None for the last
    one). `headers` is a cache for the headers of valid batches, if other scans need them too; the scan reads and fills
    it. Raises `StorageError` if the log cannot be read.
    """
    continuity = Continuity(base_offset, next_segment=next_base)
    runs = headers.runs(source, source.size) if headers is not None else scanner_of_runs(source) or ()
    scan = RunsThenBatches(runs, source)

    def judge(batch: RecordBatch) -> OneBatch:
        return OneBatch(batch, findings=continuity.check(batch))

    end = base_offset
    for run in judged(scan, continuity, judge, gaps=True):
        for finding in run.findings:
            if finding.severity is Severity.ERROR or finding.code is FindingCode.OFFSET_NOT_INCREASING:
                return finding, end
        end = run.next_offset
    return next(iter(scan.end.findings), None), end
