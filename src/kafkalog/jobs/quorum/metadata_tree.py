"""Build the metadata log with its new end: truncate the torn tail, append the new voters, and write matching files
beside it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from msgspec import Struct

from kafkalog.cluster.kraft.quorum_log import QuorumLog
from kafkalog.codec.common.errors import RecoveryRefused
from kafkalog.codec.encode.batch import build_control_batch
from kafkalog.codec.files.kraft import KRaftRecord, encode_kraft_value
from kafkalog.codec.files.quorum_state import QuorumState, encode_quorum_state
from kafkalog.codec.names import (
    CLUSTER_METADATA_DIRECTORY,
    LEADER_EPOCH_CHECKPOINT,
    QUORUM_STATE,
    FileKind,
    parse_segment_file,
    segment_file,
)
from kafkalog.jobs.quorum.request import QuorumRecovery, QuorumWay
from kafkalog.log.directories.partition import open_partition
from kafkalog.log.storage.content import Content, Literal, Slice, join
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.decide.actions import WRITTEN_AT_STOP, RecoveryAction, difference
from kafkalog.recovery.facts.recovery_request import Recovery, Rules, settled
from kafkalog.recovery.facts.survey import Survey
from kafkalog.recovery.facts.topic_facts import NO_FACTS
from kafkalog.recovery.safe.recovery import recover_safely
from kafkalog.recovery.safe.result import SafeResult

__all__ = ["NewMetadata", "actions_of", "broken_snapshots", "content_elsewhere", "cut_of", "make_metadata"]

NOBODY = -1


class NewMetadata(Struct, frozen=True, kw_only=True):
    """Files of a metadata directory after the recovery, and the end offset of its log before and after."""

    files: dict[str, Content]
    """content by name, as slices of the donor's files"""
    end_before: int
    end: int
    batch: bytes
    """appended batch; empty with static voters"""


def cut_of(log: QuorumLog, wanted: QuorumRecovery) -> int | None:
    """Return the offset at which the log is truncated, because a controller started the metadata over there. None if
    none did, without consent (`accept_loss`), and unless a single controller is recovered: other copies have the newer
    records of a quorum of several.
    """
    is_wanted = wanted.accept_loss and wanted.way is QuorumWay.STANDALONE
    return log.started_over.offset if is_wanted and log.started_over is not None else None


def _go_back(tree: Tree, log: QuorumLog, cut: int) -> None:
    """Truncate the log in the tree at offset `cut`, at which a batch must begin; delete all later snapshots and
    segments. Reads the log on disk to find the batch; only the tree is changed. Raises `StorageError` if the log cannot
    be read.
    """
    for snapshot in log.snapshots:
        if snapshot.end > cut:
            tree.delete(f"{CLUSTER_METADATA_DIRECTORY}/{snapshot.file}")
    place = next(iter(open_partition(log.directory).batches(start_offset=cut)))
    for name in tree.all_names(CLUSTER_METADATA_DIRECTORY):
        parsed = parse_segment_file(name)
        path = f"{CLUSTER_METADATA_DIRECTORY}/{name}"
        if parsed is None or parsed.pending:
            continue
        if parsed.base_offset > cut or (parsed.base_offset == cut and parsed.kind is not FileKind.LOG):
            tree.delete(path)
    logs = sorted(
        (parsed.base_offset, f"{CLUSTER_METADATA_DIRECTORY}/{name}")
        for name in tree.all_names(CLUSTER_METADATA_DIRECTORY)
        if (parsed := parse_segment_file(name)) is not None and parsed.kind is FileKind.LOG and not parsed.pending
    )
    _base, last = logs[-1]
    tree.files[last] = tree.files[last].slice(0, place.position)


def broken_snapshots(log: QuorumLog) -> list[str]:
    """Names of snapshots that would stop a controller and can be removed, because an older snapshot or the whole log
    replaces them; empty if nothing would replace them, as in a log with missing offsets.
    """
    reaches = log.hole is None and (
        log.start == 0 or any(snapshot.counts and snapshot.end >= log.start for snapshot in log.snapshots)
    )
    return [snapshot.file for snapshot in log.snapshots if not snapshot.counts] if reaches else []


def make_metadata(
    found: Survey,
    log: QuorumLog,
    wanted: QuorumRecovery,
    records: Sequence[KRaftRecord],
    state: QuorumState,
    epoch: int,
) -> NewMetadata:
    """Build the files of the new metadata directory: the donor's log with `records` appended, and `quorum-state`.
    Return the files by name, the end offset before and after the append, and the batch's bytes. Writes nothing on disk.

    `found` is the survey of the donor's directory, `log` its metadata log, `state` the content of `quorum-state`. As by
    a start, a torn end of the log is cut off, and a log that ends before its newest snapshot is dropped. Damaged or
    impossible snapshots are left out if something replaces them (`broken_snapshots`). The log is also truncated to the
    offset at which the metadata was started over, if `wanted` asks for that. The records become one control batch with
    leader epoch `epoch`; without records nothing is appended, and the batch is empty. Raises `RecoveryRefused` if the
    log cannot be loaded or a start would change the result, `StorageError` if a file cannot be read.
    """
    rules = settled(Recovery(cluster_metadata=True, topics=NO_FACTS, at=wanted.now_ms), ())
    tree = found.tree()
    for name in broken_snapshots(log):
        tree.delete(f"{CLUSTER_METADATA_DIRECTORY}/{name}")
    if log.drops_log:
        _drop_log(tree)
    back = cut_of(log, wanted)
    if back is not None:
        _go_back(tree, log, back)
    cut = _safely(tree, rules)
    end = max(_end_of(cut), log.end if not len(log.batches) else 0)
    tree, batch = cut.tree, b""
    if log.drops_log:
        _drop_log(tree)  # the empty log that the loader made begins at 0
    if records:
        values = [encode_kraft_value(record) for record in records]
        batch = build_control_batch(values, base_offset=end, timestamp=wanted.stamp_ms, partition_leader_epoch=epoch)
        _append(tree, end, batch)
        again = _safely(tree, rules)
        tree = again.tree
        if again.cuts or _end_of(again) != end + len(records):
            raise RecoveryRefused(
                f"{found.root}: the log would not keep its new end ({again.findings()[:1]}); nothing was changed",
                reason="log",
            )
    tree.write(f"{CLUSTER_METADATA_DIRECTORY}/{QUORUM_STATE}", encode_quorum_state(state))
    names = tree.all_names(CLUSTER_METADATA_DIRECTORY)
    files = {name: tree.files[f"{CLUSTER_METADATA_DIRECTORY}/{name}"] for name in names}
    return NewMetadata(files=files, end_before=end, end=end + len(records), batch=batch)


def _drop_log(tree: Tree) -> None:
    """Remove the log and its epoch checkpoint from the tree, as a start does if the newest snapshot reaches further
    than the log (`truncateToLatestSnapshot`).
    """
    for name in tree.all_names(CLUSTER_METADATA_DIRECTORY):
        if parse_segment_file(name) is not None or name == LEADER_EPOCH_CHECKPOINT:
            tree.delete(f"{CLUSTER_METADATA_DIRECTORY}/{name}")


def _safely(tree: Tree, rules: Rules) -> SafeResult:
    result = recover_safely(tree, rules)
    if result.refusals:
        raise RecoveryRefused(next(iter(result.refusals.values())), reason="log")
    return result


def _end_of(result: SafeResult) -> int:
    own = result.partitions.get(CLUSTER_METADATA_DIRECTORY)
    if own is None:
        raise RecoveryRefused(f"{CLUSTER_METADATA_DIRECTORY} cannot be loaded", reason="log")
    return own.log_end_offset


def _append(tree: Tree, end: int, batch: bytes) -> None:
    logs = [
        parsed.base_offset
        for name in tree.all_names(CLUSTER_METADATA_DIRECTORY)
        if (parsed := parse_segment_file(name)) is not None and parsed.kind is FileKind.LOG and not parsed.pending
    ]
    path = f"{CLUSTER_METADATA_DIRECTORY}/{segment_file(max(logs, default=end), FileKind.LOG)}"
    before = tree.files.get(path, Content())
    tree.files[path] = join([*before.parts, Literal(batch)])


def content_elsewhere(files: dict[str, Content], donor: str) -> dict[str, Content]:
    """Return name -> content for another directory than the donor's: the paths of slices become absolute, below
    `donor`.
    """
    return {name: Content(tuple(_elsewhere(content.parts, donor))) for name, content in files.items()}


def _elsewhere(parts: Iterable[object], donor: str) -> Iterable[Slice | Literal]:
    for part in parts:
        if isinstance(part, Slice):
            yield Slice(os.path.join(donor, part.origin), part.start, part.length)
        else:
            yield part  # type: ignore[misc]


def actions_of(found: Survey, files: dict[str, Content]) -> list[RecoveryAction]:
    """Return the actions after which the metadata directory has exactly `files` (name -> content), in order; empty if
    it has them already. Of the other paths in the log directory, only a clean-shutdown marker is removed. Raises
    `StorageError` if a file cannot be compared.
    """
    tree = found.tree()
    for name in tree.all_names(CLUSTER_METADATA_DIRECTORY):
        tree.delete(f"{CLUSTER_METADATA_DIRECTORY}/{name}")
    for name, content in files.items():
        tree.files[f"{CLUSTER_METADATA_DIRECTORY}/{name}"] = content
    return difference(found, tree, WRITTEN_AT_STOP)
