"""Replace the logs of partitions by the records that this and other copies of the partitions hold together (mode
merge).

The records that belong into the log are chosen as in `merge` (`MergeCopies`), and described as slices of the copies'
files; all other files are those that a broker makes for such a log. A partition that no copy helps is recovered as in
mode safe.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from kafkalog.codec.common.errors import RecoveryRefused, StorageError, UsageError
from kafkalog.codec.files.text import encode_leader_epochs, encode_partition_metadata
from kafkalog.codec.names import (
    CLUSTER_METADATA_TOPIC,
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    DirectoryState,
    FileKind,
    PartitionName,
    parse_segment_file,
    segment_file,
)
from kafkalog.copies.merge_copies import MergeCopies, MergedLog
from kafkalog.copies.preview import of_one_partition
from kafkalog.log.directories.directory import is_log_dir, is_partition_dir
from kafkalog.log.disk.files import real
from kafkalog.log.storage.content import Content, Slice, join
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.facts.recovery_request import Rules
from kafkalog.recovery.facts.survey import Survey, facts_of
from kafkalog.recovery.safe.normalize import Checkpoints, partitions_of
from kafkalog.recovery.safe.result import FromCopies, SafeResult

__all__ = ["copies_of", "merge_in_place", "refuse_no_copies"]

Recover = Callable[[Tree, frozenset[str], Mapping[str, str]], SafeResult]
"""Mode safe on a tree: a function of the tree, of the merged partition directories, for which checks of files on disk
do not apply, and of directories to leave as they are, with the reason.
"""


def refuse_no_copies(copies: Sequence[str]) -> None:
    """Raise `UsageError` for the first of `copies` that is neither a log directory nor a partition directory. Raises
    `StorageError` if one cannot be listed.
    """
    for copy in copies:
        if not is_log_dir(copy) and not is_partition_dir(copy):
            raise UsageError(
                f"{copy} cannot be a copy: it holds no partition; give a log directory or a partition directory"
            )


def copies_of(topic: str, partition: int, root: str, copies: Sequence[str]) -> list[str]:
    """Paths of the directories of one partition in `copies` (log directories or partition directories), without the one
    in the log directory `root`.
    """
    name = f"{topic}-{partition}"
    directories = [path if os.path.basename(path) == name else os.path.join(path, name) for path in map(real, copies)]
    return [path for path in directories if os.path.isdir(path) and path != os.path.join(root, name)]


class _Merged(Struct, frozen=True, kw_only=True):
    """New content of one partition."""

    name: PartitionName
    log: MergedLog
    logs: Mapping[str, Content]
    """content by path"""
    lacked: FromCopies


def merge_in_place(survey: Survey, tree: Tree, copies: Sequence[str], rules: Rules, recover: Recover) -> SafeResult:
    """Merge each live partition of `tree`, a part of the survey's tree, with the records of its other copies, if
    `_merged` gives a log for it. The metadata log is not merged. Then call `recover` (mode safe) on the whole and
    return its result, in which `helped` names the merged partitions. Nothing on disk is changed.

    A partition is not merged either if its copies do not belong together, or if no other copy can be read. The same
    holds if a broker would truncate the merged log. In these cases the reason is in the result's `refusals`. Each time
    a broker would truncate merged logs, `recover` is called again without them. The segments of the other copies of a
    partition are added to `survey.outside` if `_merged` gives a log for it. Raises `StorageError` if a file of the log
    directory cannot be read, or one of a copy no longer.
    """
    refusals: dict[str, str] = {}
    merged: dict[str, _Merged] = {}
    for directory, name in partitions_of(tree):
        if name.state is not DirectoryState.LIVE or name.topic == CLUSTER_METADATA_TOPIC:
            continue
        others = copies_of(name.topic, name.partition, survey.root, copies)
        try:
            partition = _merged(survey, directory, name, others, rules) if others else None
        except (RecoveryRefused, UsageError) as error:
            refusals[directory] = error.sentence
            continue
        if partition is not None:
            merged[directory] = partition
    while True:
        result = recover(_with(tree, merged), frozenset(merged), refusals)
        cut = [directory for directory, partition in merged.items() if not _holds(result.tree, partition)]
        if not cut:
            result.helped = frozenset(merged)
            result.from_copies = {directory: partition.lacked for directory, partition in merged.items()}
            return result
        for directory in cut:
            del merged[directory]
            refusals[directory] = "a broker would not keep all of what the copies hold together"


def _merged(survey: Survey, directory: str, name: PartitionName, there: Sequence[str], rules: Rules) -> _Merged | None:
    """Merge the copies of one partition; `there` are the directories of the other copies. Return None if this copy is
    undamaged, and either has all records of the merged log or would lose batches by it. Return None too if no other
    copy contributes anything. With a result, the segments of the other copies are added to `survey.outside`.

    Raises `RecoveryRefused` if the copies are of several clusters or topics, or if this copy is worth a merge but no
    other can be read. Raises `UsageError` if the other copies have no directory that differs from this one. Raises
    `StorageError` if this copy cannot be read, or another one no longer.
    """
    own = os.path.join(survey.root, directory)
    shelf = of_one_partition([own, *there])
    (copies,) = shelf.copies.values()
    theirs = [copy.partition for copy in copies if copy.partition is not None and real(copy.path) != real(own)]
    try:
        outside = {
            segment.path: facts_of(os.stat(segment.path)) for partition in theirs for segment in partition.segments
        }
    except OSError as error:
        raise StorageError.wrap(error, "cannot examine the file") from error
    settings = rules.settings(name.topic)
    is_compacted = rules.facts.is_compacted(name.topic)
    try:
        read = MergeCopies(copies, segment_bytes=settings.segment_bytes, is_compacted=is_compacted)
    except StorageError as error:
        if error.filename is not None:
            raise
        raise StorageError(error.errno, str(error), own) from error  # none can be read, also not this one
    result, log = read.preview()
    ours = next(share for share in result.copies if real(share.path) == real(own))
    if ours.error is not None:  # what it holds after that place would be lost
        raise read.failures.get(ours.path) or StorageError(None, ours.error, own)
    drops = ours.dropped_batches or ours.cleaned_batches
    if ours.damage is None and (drops or not ours.lacks_records):
        return None  # what is whole is not made another log, and gives up nothing for a longer one
    if all(share is ours or share.error is not None for share in result.copies):
        why = dict(shelf.unreadable) | {share.path: share.error for share in result.copies if share.error is not None}
        reasons = [why[path] for path in map(real, there) if path in why]
        raise RecoveryRefused(f"no copy of it can be read: {'; '.join(reasons)}", reason="unreadable")
    contents: dict[str, list[Slice]] = {
        f"{directory}/{segment_file(segment.base_offset, FileKind.LOG)}": [] for segment in log.segments
    }
    prefix = os.path.join(real(own), "")
    for piece in read.pieces():
        path = real(piece.path)
        origin = f"{directory}/{path.removeprefix(prefix)}" if path.startswith(prefix) else path
        contents[f"{directory}/{segment_file(piece.base_offset, FileKind.LOG)}"].append(
            Slice(origin, piece.start, piece.size)
        )
    if all(part.origin.startswith(f"{directory}/") for parts in contents.values() for part in parts):
        return None
    survey.outside.update(outside)
    first = log.log_start_offset if ours.lacks_from is None else ours.lacks_from
    beyond = (each.source for each in result.ranges if real(each.source) != real(own) and each.last_offset >= first)
    lacked = FromCopies(ours.lacks_records, first, tuple(dict.fromkeys(beyond)))
    logs = {path: join(parts) for path, parts in contents.items()}
    return _Merged(name=name, log=log, logs=logs, lacked=lacked)


def _with(tree: Tree, merged: Mapping[str, _Merged]) -> Tree:
    """Return a copy of the tree in which the merged logs replace all segments of their partitions, as input for a
    broker's start. A merged log gets empty indexes, a new leader-epoch checkpoint, a recovery point of 0, and its log
    start offset, if it has one. A missing `partition.metadata` is written if a copy has one. The tree itself is not
    changed. Raises `StorageError` if a file cannot be read.
    """
    after = tree.copy()
    points = Checkpoints.read(after)
    for directory, partition in merged.items():
        for name in after.names(directory):
            if parse_segment_file(name) is not None:
                after.delete(f"{directory}/{name}")
        for path, content in partition.logs.items():
            after.files[path] = content
        for segment in partition.log.segments:
            for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
                after.write(f"{directory}/{segment_file(segment.base_offset, kind)}", b"")
        after.write(f"{directory}/{LEADER_EPOCH_CHECKPOINT}", encode_leader_epochs(partition.log.epochs))
        if partition.log.metadata is not None and not after.exists(f"{directory}/{PARTITION_METADATA}"):
            after.write(f"{directory}/{PARTITION_METADATA}", encode_partition_metadata(partition.log.metadata))
        key = partition.name.topic, partition.name.partition
        points.recovery_points[key] = 0
        points.log_starts.pop(key, None)
        if partition.log.start_entry is not None:
            points.log_starts[key] = partition.log.start_entry.offset
    if merged:
        points.write(after)
    return after


def _holds(after: Tree, partition: _Merged) -> bool:
    logs = partition.logs.items()
    return all(path in after.files and after.files[path].size == content.size for path, content in logs)
