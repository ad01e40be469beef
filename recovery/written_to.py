"""How far a log must have been written, as the files beside it tell; so that a log that lost its end is told as such.

A recovery point was flushed (`LogManager.checkpointLogRecoveryOffsets`), a producer snapshot was taken at the log's end
(`ProducerStateManager.takeSnapshot`), a leader epoch begins there (`LeaderEpochFileCache.assign`).  The end of a log
that reaches less far is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafkalog.codec.names import LEADER_EPOCH_CHECKPOINT, FileKind, parse_segment_file
from kafkalog.log.storage.java import JavaError
from kafkalog.log.storage.leader_epochs import LeaderEpochCheckpointFile
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.soundness import log_segments

__all__ = ["written_to"]

_SEGMENT_OFFSETS = 2**31
"""A segment holds no more; what lies further ahead is damage itself and no evidence."""


def written_to(tree: Tree, directories: Iterable[str], recovery_point: int) -> int:
    """The first offset that need not have been written; 0 if nothing is known."""
    furthest = 0
    for directory in directories:
        segments = log_segments(tree, directory)
        if not segments:
            continue
        last_base = segments[-1][0]
        known = [recovery_point, *_snapshots(tree, directory), *_epoch_starts(tree, directory)]
        furthest = max(
            [furthest, last_base, *(each for each in known if last_base <= each < last_base + _SEGMENT_OFFSETS)]
        )
    return furthest


def _snapshots(tree: Tree, directory: str) -> Iterator[int]:
    for name in tree.names(directory):
        parsed = parse_segment_file(name)
        if parsed is not None and parsed.kind is FileKind.PRODUCER_SNAPSHOT and not parsed.pending:
            yield parsed.base_offset


def _epoch_starts(tree: Tree, directory: str) -> Iterator[int]:
    if f"{directory}/{LEADER_EPOCH_CHECKPOINT}" not in tree.files:
        return
    try:
        yield from (each.start_offset for each in LeaderEpochCheckpointFile(tree, directory).read())
    except JavaError:
        return
