"""How far a log must have been written, as the files beside it tell; so that a log that lost an end is told as such.

A recovery point was flushed (`LogManager.checkpointLogRecoveryOffsets`), a producer snapshot was taken at the log's end
(`ProducerStateManager.takeSnapshot`), a leader epoch begins there (`LeaderEpochFileCache.assign`).  The end of a log
that reaches less far is gone.  So is its start where indexes are below the first segment: retention leaves none, it
renames a segment's files together (`UnifiedLog.deleteSegmentFiles`); or where leader epochs begin below it: those are
cut first, when the log start offset moves (`LeaderEpochFileCache.truncateFromStart`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kafkalog.codec.names import (
    DELETED,
    INDEX_KINDS,
    LEADER_EPOCH_CHECKPOINT,
    REMOTE_INDEX_CACHE,
    SWAP,
    FileKind,
    SegmentFileName,
    parse_segment_file,
    segment_file,
)
from kafkalog.codec.rules import MAX_RELATIVE_OFFSET
from kafkalog.log.storage.java import JavaError
from kafkalog.log.storage.leader_epochs import LeaderEpochCheckpointFile
from kafkalog.log.storage.tree import Tree

__all__ = ["Written", "written"]


@dataclass(slots=True)
class Written:
    """What must have been in a log."""

    end: int = 0
    """after the last offset that was written; 0 if nothing is known"""
    lost_start: list[tuple[int, int]] = field(default_factory=list)
    """first and last offset of segments before the first one that are gone, as indexes or leader epochs tell"""


def written(tree: Tree, directories: Iterable[str], recovery_point: int) -> Written:
    """What the files of a topic-partition's directories tell; nothing of one without a log."""
    found = Written()
    is_tiered = REMOTE_INDEX_CACHE in tree.directories  # there the log begins elsewhere, and epochs with it
    for directory in directories:
        names = {name: parsed for name in tree.names(directory) if (parsed := parse_segment_file(name)) is not None}
        bases = [each.base_offset for name, each in names.items() if _is_log(name, each)]
        if not bases:
            continue
        last = max(bases)
        epochs = list(_epoch_starts(tree, directory))
        known = [recovery_point, *_snapshots(names), *epochs]
        # what lies further ahead than a segment can reach is damage itself
        found.end = max([found.end, last, *(each for each in known if last <= each <= last + MAX_RELATIVE_OFFSET + 1)])
        begins = min(bases)
        left = [base for base in _without_log(names) if base < begins]
        if not is_tiered and not any(each.pending == DELETED for each in names.values()):
            left += [start for start in epochs if 0 <= start < begins]
        if left:
            found.lost_start.append((min(left), begins - 1))
    return found


def _is_log(name: str, parsed: SegmentFileName) -> bool:
    return segment_file(parsed.base_offset, FileKind.LOG) == name


def _snapshots(names: Mapping[str, SegmentFileName]) -> Iterator[int]:
    for parsed in names.values():
        if parsed.kind is FileKind.PRODUCER_SNAPSHOT and not parsed.pending:
            yield parsed.base_offset


def _epoch_starts(tree: Tree, directory: str) -> Iterator[int]:
    if f"{directory}/{LEADER_EPOCH_CHECKPOINT}" not in tree.files:
        return
    try:
        yield from (each.start_offset for each in LeaderEpochCheckpointFile(tree, directory).read())
    except JavaError:
        return


def _without_log(names: Mapping[str, SegmentFileName]) -> Iterator[int]:
    for parsed in names.values():
        if parsed.pending or parsed.kind not in INDEX_KINDS:
            continue
        log = segment_file(parsed.base_offset, FileKind.LOG)
        if not any(name in names for name in (log, log + DELETED, log + SWAP)):
            yield parsed.base_offset
