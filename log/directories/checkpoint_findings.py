"""What the checkpoints of a log directory say of a partition, compared with where its log really ends."""

from __future__ import annotations

from collections.abc import Iterator

from kafkalog.codec.findings import Finding, FindingCode, Severity
from kafkalog.log.directories.partition import Partition

__all__ = ["checkpoint_findings"]


def checkpoint_findings(
    partition: Partition, log_end_offset: int, log_start: int, high_watermark: int | None
) -> Iterator[Finding]:
    """Findings of a live partition; `log_end_offset` is after the last offset before any damage.

    `log_start` is that of log-start-offset-checkpoint (0 without an entry), `high_watermark` that of
    replication-offset-checkpoint (None without one).  A broker deletes a log that ends below its start (`LogLoader`).
    """
    if partition.segments and max(log_end_offset, partition.segments[-1].base_offset) < log_start:
        detail = f"the log ends at {log_end_offset}, its start is {log_start}: a broker would delete all of it"
        code = FindingCode.LOG_END_BELOW_LOG_START
        yield Finding(code, Severity.ERROR, None, log_end_offset, detail, partition.path)
    if high_watermark is not None and log_end_offset < high_watermark:
        detail = f"the log ends at {log_end_offset}, the high watermark was {high_watermark}"
        code = FindingCode.LOG_END_BELOW_HIGH_WATERMARK
        yield Finding(code, Severity.WARNING, None, log_end_offset, detail, partition.path)
