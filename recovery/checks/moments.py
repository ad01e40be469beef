"""Detect a log directory whose files were copied at different times, while a broker wrote to it.

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
    """Return the offset after the last one that may have been written to a log. None if an error, a zero tail or an
    unreadable file is among the findings, because the end is then unknown. `end` is the offset after the last sound
    batch; offsets in the header of a torn batch after it count as written too.
    """
    for finding in findings:
        if finding.severity is Severity.ERROR or finding.code in _DAMAGE_AT_THE_END:
            return None
        if finding.code is FindingCode.TORN_TAIL and finding.batch is not None:
            end = max(end, finding.batch.last_offset + 1)
    return end


def different_moments(log_dir: LogDir, reached: Reached) -> list[Finding]:
    """Return a list with one MOMENTS_DIFFER finding if a live log ends below its recovery point, else an empty list.
    Either the log directory was then copied while a broker wrote to it, or the log was cut off. The finding's file is
    the absolute path of the recovery-point checkpoint.

    Empty if a clean-shutdown marker exists. `reached(path)` returns the `offset_reached` of the partition directory
    `path`, or None to ignore the log; it is called only for live partitions whose last segment begins below the
    recovery point.
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
    """Return one MOMENTS_DIFFER finding if some log ends below its recovery point, else an empty list. The directory
    must have no clean-shutdown marker. `ends` are log end offsets by topic and partition, of undamaged logs only; logs
    without a recovery point are ignored. The finding names at most three logs; its file is the name of the
    recovery-point checkpoint.
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
