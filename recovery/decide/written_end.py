"""Determine how far a log must have been written, from the files beside it, so that a lost end is noticed.

A recovery point was flushed (`LogManager.checkpointLogRecoveryOffsets`), a producer snapshot was made at the log's end
(`ProducerStateManager.takeSnapshot`), a leader epoch begins at one (`LeaderEpochFileCache.assign`). A log that ends
below these has lost its end. Whether its start is lost follows from `tiering`.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from kafkalog.codec.files.index_files import OFFSET_ENTRY, each_slot, offset_entry_increases
from kafkalog.codec.files.text import LeaderEpoch
from kafkalog.codec.names import CLEAN_SHUTDOWN_FILE, LEADER_EPOCH_CHECKPOINT, FileKind
from kafkalog.log.storage.java import JavaError
from kafkalog.log.storage.leader_epochs import LeaderEpochCheckpointFile, doubtful_epochs
from kafkalog.log.storage.producers.snapshots import snapshot_offsets, within_reach
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.safe.normalize import Checkpoints
from kafkalog.tiers.tiering import LocalStart, Tiering

__all__ = ["Written", "epochs_of", "indexed_end", "start_of_empty_log", "written"]


class Written(Struct, kw_only=True):
    """Offsets that a log must have had."""

    end: int = 0
    """offset after the last one written; 0 if unknown"""
    closed_at: int | None = None
    """end of the log when a broker stopped in order; None if the last one did not, or it is unknown"""
    begins: int = 0
    """base offset of the first segment, or start of a log without records; below it only `lost_start` is missing"""
    local_start: LocalStart | None = None
    """where the first local segment begins, and what is below"""
    lost_start: list[tuple[int, int]] = field(default_factory=list)
    """first and last offset of lost segments before the first one, according to indexes or leader epochs"""


def written(
    tree: Tree,
    directories: Iterable[str],
    key: tuple[str, int],
    points: Checkpoints,
    tiering: Tiering,
    known_epoch: int | None = None,
) -> Written:
    """Return the offsets that a topic-partition's log must have had: its end, its first segment, and lost offsets
    before that. They are derived from the files in its directories, the checkpoints and the tiering. `key` is topic and
    partition number.

    The end is the highest of the last segment's base offset, the recovery point, producer snapshots and starts of
    leader epochs. Offsets that are not `within_reach` do not count, and `doubtful_epochs` do not. `known_epoch` is the
    leader epoch in the metadata, None if that is not known. After a clean stop a recovery point that is not below the
    last segment becomes `closed_at`, and leader epochs above it do not count. Invalid epoch checkpoints count as empty.

    If there are several directories, the highest end and the highest first segment count. The lost offsets are those of
    all, the local start is that of the last directory with a log. If the logs of a directory are missing or empty, its
    first leader epoch counts like a first segment. A directory without a log gives nothing else; if none has a log, the
    end is 0. Raises `StorageError` if a file cannot be read.
    """
    result = Written()
    for directory in directories:
        names = tree.names(directory)
        bases = [base for base, _path in tree.logs(directory)]
        result.begins = max(result.begins, start_of_empty_log(tree, directory))
        if not bases:
            continue
        last, begins = max(bases), min(bases)
        entries = epochs_of(tree, directory)
        doubtful = doubtful_epochs(entries, known_epoch)
        epochs = [entry.start_offset for entry in entries if entry not in doubtful]
        point = points.recovery_points.get(key, 0)
        if CLEAN_SHUTDOWN_FILE in tree.files and point >= last:  # that of a clean stop is the log's end
            epochs = [epoch for epoch in epochs if epoch <= point]
            result.closed_at = max(result.closed_at or 0, point)
        known = [point, *snapshot_offsets(names), *epochs]
        result.end = max([result.end, last, *within_reach(last, known)])
        result.begins = max(result.begins, begins)
        result.local_start = tiering.of(key, names, begins, epochs, result.end)
        result.lost_start += [] if result.local_start.lost is None else [result.local_start.lost]
    return result


def start_of_empty_log(tree: Tree, directory: str) -> int:
    """Return the start offset of the first leader epoch of a partition directory whose logs are missing or empty; 0 if
    there is none or a log has bytes.

    When the start of a log moves, the first epoch gets that offset (`LeaderEpochFileCache.truncateFromStart`): the
    offsets below were deleted on purpose. Raises `StorageError` if the checkpoint cannot be read.
    """
    if any(tree.source(path).size for _base, path in tree.logs(directory)):
        return 0
    return min((entry.start_offset for entry in epochs_of(tree, directory)), default=0)


def indexed_end(tree: Tree, directories: Iterable[str], *, ends_in_damage: bool) -> int:
    """Return the offset after the highest one in the offset index of the last segment of these directories; 0 if no
    such index counts. An index counts if `ends_in_damage` is True or the segment has 0 bytes. Its entries count up to
    the first that does not increase. In a log that does not end in damage, none counts if that entry is not an unused
    slot (zeros). Raises `StorageError` if an index cannot be read.

    A broker adds an entry after it has appended the batch with that offset (`LogSegment.append`), and the system writes
    indexes to disk independently. So after a power failure they often reach further than the log.
    """
    return max((_end_by_index(tree, directory, ends_in_damage) for directory in directories), default=0)


def _end_by_index(tree: Tree, directory: str, ends_in_damage: bool) -> int:
    base, log = max(tree.logs(directory), default=(0, ""))
    path = log.removesuffix(FileKind.LOG.value) + FileKind.OFFSET_INDEX.value
    if not log or path not in tree.files or (tree.source(log).size and not ends_in_damage):
        return 0
    last: tuple[int, int] | None = None
    for _number, (offset, position) in each_slot(tree.source(path), OFFSET_ENTRY):
        if not offset_entry_increases(last, (offset, position)):
            if (offset, position) != (0, 0) and not ends_in_damage:
                return 0
            break
        last = offset, position
    return 0 if last is None else base + last[0] + 1


def epochs_of(tree: Tree, directory: str) -> list[LeaderEpoch]:
    """Return the entries of a partition directory's `leader-epoch-checkpoint`; empty if it is missing or invalid.
    Raises `StorageError` if it cannot be read.
    """
    if f"{directory}/{LEADER_EPOCH_CHECKPOINT}" not in tree.files:
        return []
    try:
        return LeaderEpochCheckpointFile(tree, directory).read()
    except JavaError:
        return []
