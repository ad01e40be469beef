"""Compare a log directory's checkpoints with the real end of a partition's log."""

from __future__ import annotations

from collections.abc import Iterator

from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.log.directories.partition import Partition

__all__ = ["checkpoint_findings"]


def checkpoint_findings(
    partition: Partition, log_end_offset: int, log_start: int, high_watermark: int | None, *, end_behind: int
) -> Iterator[Finding]:
    """Yield LOG_END_BELOW_LOG_START (ERROR) if a live partition has segments and its log ends below `log_start`: a
    broker then deletes the log (`LogLoader`). Then yield LOG_END_BELOW_HIGH_WATERMARK if the log ends below
    `high_watermark`.

    `log_end_offset` is the offset after the last sound batch before any damage. `end_behind` is the offset after the
    last sound batch that follows damage, or 0; it counts only for the high watermark. `log_start` is the partition's
    entry in log-start-offset-checkpoint, 0 without one; `high_watermark` its entry in replication-offset-checkpoint,
    None without one.
    """
    if partition.segments and max(log_end_offset, partition.segments[-1].base_offset) < log_start:
        detail = f"the log ends at {log_end_offset}, its start is {log_start}: a broker would delete all of it"
        code = FindingCode.LOG_END_BELOW_LOG_START
        yield Finding(code, Severity.ERROR, None, log_end_offset, detail, partition.path)
    end = max(log_end_offset, end_behind)
    if high_watermark is not None and end < high_watermark:
        detail = f"the log ends at {end}, the high watermark was {high_watermark}"
        yield Finding.of(FindingCode.LOG_END_BELOW_HIGH_WATERMARK, None, end, detail, partition.path)
