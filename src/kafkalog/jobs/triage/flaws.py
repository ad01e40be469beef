"""Count the damage in the copies with the highest end offset: of logs with one end, a log that consumers can read is
the better leader.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkalog.codec.common.limits import Limits
from kafkalog.copies.compare import compare
from kafkalog.copies.comparison import CopyReport, PartitionComparison
from kafkalog.jobs.triage.logs import ReplicaLog
from kafkalog.log.disk.files import is_directory

__all__ = ["flaws_of"]


def flaws_of(logs: Mapping[int, ReplicaLog], limits: Limits) -> dict[int, int]:
    """Number of places that consumers cannot read in each broker's copy, by broker id; the copies are of one partition.

    Only damage below the end that the broker's own start leaves counts. Copies are read from disk; batches are
    decompressed only where copies differ. Empty if fewer than two copies have a directory.
    """
    paths = {log.path: node for node, log in logs.items() if log.path is not None and is_directory(log.path)}
    if len(paths) < 2:
        return {}
    (comparison,) = compare(*paths, limits=limits).partitions
    by_node = {paths[copy.path]: copy for copy in comparison.copies}
    return {node: _damage(report, logs[node].end) + _unreadable(report, comparison) for node, report in by_node.items()}


def _damage(copy: CopyReport, end: int) -> int:
    first = copy.sound_end_offset
    return copy.damaged_places if first is not None and first < end else 0


def _unreadable(copy: CopyReport, found: PartitionComparison) -> int:
    if copy.difference is not None:
        return copy.difference.unreadable_batches
    against = (each.difference.unreadable_there_batches for each in found.copies if each.difference is not None)
    return max(against, default=0)
