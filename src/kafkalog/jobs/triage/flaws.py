"""Count the damage in those copies of a partition that have the highest end offset. Of logs with one end, the log with
less damage is the better leader for consumers.
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
    """Return the number of places that consumers cannot read in each broker's copy, by broker id; `logs` are the copies
    of one partition. Empty if fewer than two copies have a directory.

    The damage of a copy counts only if the first of it lies below the end offset that the broker's own start leaves.
    Copies are read from disk; batches are decompressed only if copies differ there. Raises `StorageError` if a copy
    cannot be read.
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


def _unreadable(copy: CopyReport, comparison: PartitionComparison) -> int:
    if copy.difference is not None:
        return copy.difference.unreadable_batches
    differences = (other.difference for other in comparison.copies if other.difference is not None)
    return max((difference.unreadable_there_batches for difference in differences), default=0)
