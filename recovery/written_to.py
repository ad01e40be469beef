"""How far a log must have been written, as the files beside it tell; so that a log that lost its end is told as such.

A recovery point was flushed (`LogManager.checkpointLogRecoveryOffsets`), a producer snapshot was taken at the log's end
(`ProducerStateManager.takeSnapshot`), a leader epoch begins there (`LeaderEpochFileCache.assign`).  The end of a log
that reaches less far is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafkalog.codec.names import LEADER_EPOCH_CHECKPOINT, FileKind, parse_segment_file, segment_file
from kafkalog.log.storage.java import JavaError
from kafkalog.log.storage.leader_epochs import LeaderEpochCheckpointFile
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.soundness import log_segments

__all__ = ["lost_start", "written_to"]

_INDEXES = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX)
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


def lost_start(tree: Tree, directories: Iterable[str]) -> tuple[tuple[int, int], ...]:
    """First and last offset of segments before the first one, of which indexes are left and no log.

    Retention leaves none: it renames a segment's files together (`UnifiedLog.deleteSegmentFiles`).
    """
    found = []
    for directory in directories:
        segments = log_segments(tree, directory)
        if not segments:
            continue
        first = segments[0][0]
        left = [base for base in _without_log(tree, directory) if base < first]
        if left:
            found.append((min(left), first - 1))
    return tuple(found)


def _without_log(tree: Tree, directory: str) -> Iterator[int]:
    names = set(tree.names(directory))
    for name in names:
        parsed = parse_segment_file(name)
        if parsed is None or parsed.pending or parsed.kind not in _INDEXES:
            continue
        log = segment_file(parsed.base_offset, FileKind.LOG)
        if not any(name in names for name in (log, log + ".deleted", log + ".swap")):
            yield parsed.base_offset
