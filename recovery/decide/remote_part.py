"""Damaged local segments of which the remote tier has copies: they go, and a broker serves the copies.

Retention of the local part does the same (`UnifiedLog.deleteOldSegments`): segments that were copied go from the
beginning of the local log, and the log start offset stays where it is.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkalog.codec.names import CLUSTER_METADATA_TOPIC, DirectoryState, PartitionName
from kafkalog.codec.text import LeaderEpoch
from kafkalog.log.storage.java import JavaError
from kafkalog.log.storage.leader_epochs import LeaderEpochCheckpointFile
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.damage.offset_ranges import OffsetRanges
from kafkalog.recovery.damage.soundness import sound_prefix
from kafkalog.recovery.safe.log_contents import parse_base, remove_segments
from kafkalog.recovery.safe.normalize import partitions_of
from kafkalog.tiers.lineage import lineage
from kafkalog.tiers.tiering import Tiering

__all__ = ["held_remotely", "without_uploaded_damage"]


def without_uploaded_damage(tree: Tree, tiering: Tiering) -> tuple[Tree, frozenset[str]]:
    """The tree without local segments up to the last damaged one that was copied, and which directories lost some."""
    after = tree.copy()
    changed = set()
    for directory, name in partitions_of(tree):
        if name.state is DirectoryState.LIVE and name.topic != CLUSTER_METADATA_TOPIC:
            gone = _to_go(after, directory, name, tiering)
            if gone:
                remove_segments(after, directory, gone)
                changed.add(directory)
    return after, frozenset(changed)


def held_remotely(tree: Tree, directory: str, key: tuple[str, int], tiering: Tiering) -> OffsetRanges:
    """Offsets of a log that a broker reads from the remote tier, by the events, whatever is local."""
    held = OffsetRanges()
    segments = tiering.remote.of(*key)
    for each in lineage(segments, _epochs(tree, directory)) if segments else ():
        held.add(each.first, each.last)
    return held


def _to_go(tree: Tree, directory: str, name: PartitionName, tiering: Tiering) -> set[int]:
    """Base offsets of the segments up to the last one with damage; none if not all of them were copied."""
    held = held_remotely(tree, directory, (name.topic, name.partition), tiering)
    bases = [base for base, _path in tree.logs(directory)]
    gone: set[int] = set()
    for number in _damaged(tree, directory, bases) if held else ():
        if number + 1 == len(bases) or not held.covers(bases[0], bases[number + 1] - 1):
            break
        gone = set(bases[: number + 1])
    return gone


def _damaged(tree: Tree, directory: str, bases: list[int]) -> Iterator[int]:
    """Numbers of the segments at which the log stops being sound, each without those before it."""
    left = tree.part(directory)
    while True:
        cut = sound_prefix(left, directory).cut
        if cut is None:
            return
        number = bases.index(parse_base(cut.path))
        yield number
        remove_segments(left, directory, set(bases[: number + 1]))


def _epochs(tree: Tree, directory: str) -> list[LeaderEpoch]:
    try:
        found = LeaderEpochCheckpointFile(tree, directory).read()
    except JavaError:
        return []
    return [LeaderEpoch(each.epoch, each.start_offset) for each in found]
