"""Detect a log directory whose files are of different moments, because it was copied while a broker wrote to it.

A broker writes an offset to `recovery-point-offset-checkpoint` after it has flushed the log up to it
(`UnifiedLog.flush`, `LogManager.checkpointRecoveryOffsetsInDir`), and again at once after it has truncated the log
(`LogManager.truncateTo`). So neither a killed broker nor a power failure leaves an undamaged log that ends below that
offset. A copy that reads the log first and the checkpoint later does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.wording import counted
from kafkalog.codec.names import RECOVERY_POINT_CHECKPOINT, DirectoryState
from kafkalog.log.directories.directory import LogDir

__all__ = ["Reached", "different_moments", "moments_differ", "offset_reached"]

_NAMED = 3
Offsets = Mapping[tuple[str, int], int]
"""offset by topic and partition"""
Reached = Callable[[str], int | None]
"""Function that returns `offset_reached` for the log in a partition directory."""
_DAMAGE_AT_THE_END = (FindingCode.ZERO_TAIL, FindingCode.UNREADABLE)


def offset_reached(end: int, findings: Iterable[Finding]) -> int | None:
    """Offset up to which a log may have been written; None if it is damaged, so that its end is unknown. `end` is the
    offset after its last sound batch; a torn batch after it counts with the offsets in its header.
    """
    for finding in findings:
        if finding.severity is Severity.ERROR or finding.code in _DAMAGE_AT_THE_END:
            return None
        if finding.code is FindingCode.TORN_TAIL and finding.batch is not None:
            end = max(end, finding.batch.last_offset + 1)
    return end


def different_moments(log_dir: LogDir, reached: Reached) -> list[Finding]:
    """Return the finding, or none, about a log directory that was copied while a broker ran; its file is absolute.
    `reached` is called only for logs whose last segment begins below the recovery point.
    """
    if log_dir.clean_shutdown is not None:
        return []
    ends = {}
    for partition in log_dir.partitions:
        if partition.name is None or partition.state is not DirectoryState.LIVE or not partition.segments:
            continue
        key = (partition.name.topic, partition.name.partition)
        is_asked = partition.segments[-1].base_offset < log_dir.recovery_points.get(key, 0)
        if is_asked and (end := reached(partition.path)) is not None:
            ends[key] = end
    findings = moments_differ(log_dir.recovery_points, ends)
    return [finding.in_file(os.path.join(log_dir.path, finding.file or "")) for finding in findings]


def moments_differ(recovery_points: Offsets, ends: Offsets) -> list[Finding]:
    """Return the finding, or none, about a directory without a clean-shutdown marker; its file is relative. `ends` must
    be of undamaged logs.
    """
    short = [(key, end, recovery_points[key]) for key, end in ends.items() if recovery_points.get(key, 0) > end]
    if not short:
        return []
    named = "; ".join(
        f"{topic}-{number} ends at {end} and was flushed up to {point}"
        for (topic, number), end, point in sorted(short)[:_NAMED]
    )
    more = f"; and {len(short) - _NAMED} more" if len(short) > _NAMED else ""
    logs = "1 log ends" if len(short) == 1 else f"{counted(len(short), 'log')} end"
    detail = (
        f"{logs} before what the broker had flushed, which no crash leaves: the directory was copied while a broker "
        f"wrote to it, or the end was cut off since: {named}{more}"
    )
    return [Finding.of(FindingCode.MOMENTS_DIFFER, None, None, detail, RECOVERY_POINT_CHECKPOINT)]
