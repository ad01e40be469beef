"""Remove damaged local segments that the remote tier has too, so that a broker serves the remote copies."""

from __future__ import annotations

from collections.abc import Iterator

from kafkalog.codec.names import CLUSTER_METADATA_TOPIC, DirectoryState, PartitionName
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.damage.offset_ranges import OffsetRanges
from kafkalog.recovery.damage.soundness import sound_prefix
from kafkalog.recovery.decide.written_end import epochs_of
from kafkalog.recovery.safe.log_contents import parse_base, remove_segments
from kafkalog.recovery.safe.normalize import partitions_of
from kafkalog.tiers.lineage import lineage
from kafkalog.tiers.tiering import Tiering

__all__ = ["held_remotely", "without_uploaded_damage"]


def without_uploaded_damage(tree: Tree, tiering: Tiering) -> tuple[Tree, frozenset[str]]:
    """Return a copy of the tree without the local segments up to a damaged one (inclusive), if the remote tier has all
    their offsets. Also return the names of the partition directories that lost segments; empty if none did. Only live
    partitions other than the metadata log are changed, and their last segment is never removed. Reads the logs of
    tiered partitions; raises `StorageError` if this fails.
    """
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
    """Return the offsets of a log that a broker can read from the remote tier, whether or not the local log has them
    too. They follow from the events of `__remote_log_metadata` and the log's leader epochs. Empty if there are no
    events of the partition. `key` is topic and partition number. Raises `StorageError` if a file cannot be read.
    """
    held = OffsetRanges()
    segments = tiering.remote.of(*key)
    for stretch in lineage(segments, epochs_of(tree, directory)) if segments else ():
        held.add(stretch.first, stretch.last)
    return held


def _to_go(tree: Tree, directory: str, name: PartitionName, tiering: Tiering) -> set[int]:
    """Return the base offsets of the segments to remove: a damaged segment and all segments before it, if the remote
    tier has all their offsets. The last damaged segment for which this is true counts. Empty if there is none. The last
    segment of the log is never removed. Raises `StorageError` if a log cannot be read.
    """
    held = held_remotely(tree, directory, (name.topic, name.partition), tiering)
    bases = [base for base, _path in tree.logs(directory)]
    gone: set[int] = set()
    for number in _damaged(tree, directory, bases) if held else ():
        if number + 1 == len(bases) or not held.covers(bases[0], bases[number + 1] - 1):
            break
        gone = set(bases[: number + 1])
    return gone


def _damaged(tree: Tree, directory: str, bases: list[int]) -> Iterator[int]:
    """Yield the numbers (from 0) of the damaged segments, in order; `bases` are the base offsets of all segments. After
    each, the walk starts again with the segment after it, so that earlier damage does not hide later damage. Raises
    `StorageError` if a log cannot be read.
    """
    left = tree.part(directory)
    while True:
        cut = sound_prefix(left, directory).cut
        if cut is None:
            return
        number = bases.index(parse_base(cut.path))
        yield number
        remove_segments(left, directory, set(bases[: number + 1]))
