"""Count the damage in those copies of a partition that have the highest end offset. Of logs with one end, the log with
less damage is the better leader for consumers.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from kafkalog.codec.common.limits import Limits
from kafkalog.copies.compare import compare
from kafkalog.copies.comparison import CopyReport, PartitionComparison
from kafkalog.jobs.triage.logs import ReplicaLog
from kafkalog.log.disk.files import is_directory

__all__ = ["Flaws", "flaws_of"]


class Flaws(Struct, frozen=True):
    """Damage in copies that end alike."""

    places: Mapping[int, int] = {}
    """number of places that consumers cannot read, by broker id"""
    in_all: int = 0
    """number of such places in the copy with the fewest; 0 if another copy has records that this one lacks"""


def flaws_of(logs: Mapping[int, ReplicaLog], limits: Limits) -> Flaws:
    """Count the places that consumers cannot read in each broker's copy; `logs` are the copies of one partition. Return
    `Flaws()` if fewer than two copies have a directory.

    Damage in a copy counts only if it begins below the end offset that the broker's own start leaves. Copies are read
    from disk; batches are decompressed only if copies differ there. A copy that cannot be read counts as one place.
    Raises `StorageError` if a copy cannot be read again after the first reading.
    """
    paths = {log.path: node for node, log in logs.items() if log.path is not None and is_directory(log.path)}
    if len(paths) < 2:
        return Flaws()
    (comparison,) = compare(*paths, limits=limits).partitions
    by_node = {paths[copy.path]: copy for copy in comparison.copies}
    places = {
        node: _damage(copy, logs[node].end) + _unreadable(copy, comparison) if copy.error is None else 1
        for node, copy in by_node.items()
    }
    differences = [copy.difference for copy in by_node.values() if copy.difference is not None]
    has_more = any(difference.has_alone_records for difference in differences)
    return Flaws(places, 0 if has_more else min(places.values()))


def _damage(copy: CopyReport, end: int) -> int:
    first = copy.sound_end_offset
    return copy.damaged_places if first is not None and first < end else 0


def _unreadable(copy: CopyReport, comparison: PartitionComparison) -> int:
    if copy.difference is not None:
        return copy.difference.unreadable_batches
    differences = (other.difference for other in comparison.copies if other.difference is not None)
    return max((difference.unreadable_there_batches for difference in differences), default=0)
