"""Find out what consumer groups lost when replicas diverged: the offsets that they read and that no leader has any
more, and the offsets that they will never see.

A commit has the leader epoch of the last record that the group read. If that epoch ends below the commit in the present
leader's log, the group has read records that no leader has any more, and continues after others that it never saw.
Consumers ask this since KIP-320 (`OffsetsForLeaderEpoch`); here it is answered from files. Commits without an epoch, of
older clients, may have read either log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from kafkalog.cluster.groups.offsets import CommittedOffset, read_offsets
from kafkalog.codec.common.findings import Finding
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.names import CONSUMER_OFFSETS_TOPIC
from kafkalog.copies.common_history import Lineage
from kafkalog.copies.comparison import Comparison, CopyReport, PartitionComparison
from kafkalog.log.directories.partition import open_partition

__all__ = ["GroupLoss", "commits_of", "group_losses"]

_NO_EPOCH = -1


class GroupLoss(Struct, frozen=True, kw_only=True):
    """A consumer group's commit beyond the offset at which the log that the group read and the leader's log diverge.
    Offsets are inclusive.
    """

    group: str
    topic: str
    partition: int
    committed_offset: int
    leader_epoch: int | None
    """leader epoch of the last record that was read; None if the client did not send it"""
    gone_first: int
    """first offset whose record was read and is lost; the range ends before the commit"""
    unseen_last: int | None
    """last of the leader's offsets from `gone_first` on that lie before the commit and were not read; None if there is
    none
    """
    is_certain: bool
    """False: without an epoch it is unknown which of the two logs the group read"""
    held_by: str | None
    """path of a given copy that still has what was read; None if none has"""


def commits_of(found: Comparison, limits: Limits = DEFAULT_LIMITS) -> tuple[list[CommittedOffset], list[Finding]]:
    """Return the committed offsets of the groups, and findings. They are read from the best copy of each compared
    partition of `__consumer_offsets`; both lists are empty without such partitions. The best copy may have commits that
    the present coordinator lacks. They count too, because the group has read the records. Raises `StorageError` if a
    file cannot be read.
    """
    logs = [
        partition
        for partition in found.partitions
        if partition.topic == CONSUMER_OFFSETS_TOPIC and partition.best is not None
    ]
    best = [open_partition(partition.best.path, limits=limits) for partition in logs if partition.best is not None]
    known = read_offsets(best, limits=limits)
    return list(known.committed), list(known.findings)


def group_losses(found: Comparison, commits: Iterable[CommittedOffset]) -> list[GroupLoss]:
    """Return the losses of commits, in the order of `commits`; a commit has at most one. Commits to partitions that
    were not compared or have no best copy are skipped. Reads no file.
    """
    compared = {(each.topic, each.partition): each for each in found.partitions}
    losses = []
    for commit in commits:
        partition = compared.get((commit.key.topic, commit.key.partition))
        if partition is not None and partition.best is not None:
            losses += list(_of_commit(partition, partition.best, commit))
    return losses


def _of_commit(partition: PartitionComparison, best: CopyReport, commit: CommittedOffset) -> Iterator[GroupLoss]:
    others = [each for each in partition.copies if each is not best and each.diverges]
    if commit.leader_epoch != _NO_EPOCH:
        end = Lineage.of(best.leader_epochs, best.log_end_offset).end_of(commit.leader_epoch)
        if end is not None and end[1] < commit.offset:
            held = [other.path for other in others if _goes_on(other, commit, end[1])]
            yield _loss(best, commit, end[1], held[0] if held else None, is_certain=True)
        return
    for copy in others:
        if copy.past is not None and copy.past.offset < commit.offset:
            yield _loss(best, commit, copy.past.offset, copy.path, is_certain=False)
            return
    if commit.offset > best.log_end_offset:
        yield _loss(best, commit, best.log_end_offset, None, is_certain=True)


def _goes_on(copy: CopyReport, commit: CommittedOffset, offset: int) -> bool:
    """Whether a copy has the commit's epoch beyond the offset at which the best copy ends it."""
    end = Lineage.of(copy.leader_epochs, copy.log_end_offset).end_of(commit.leader_epoch)
    return end is not None and end[0] == commit.leader_epoch and end[1] > offset


def _loss(best: CopyReport, commit: CommittedOffset, first: int, held: str | None, *, is_certain: bool) -> GroupLoss:
    last = min(commit.offset, best.log_end_offset) - 1
    epoch = None if commit.leader_epoch == _NO_EPOCH else commit.leader_epoch
    unseen = last if last >= first else None
    return GroupLoss(
        group=commit.key.group,
        topic=commit.key.topic,
        partition=commit.key.partition,
        committed_offset=commit.offset,
        leader_epoch=epoch,
        gone_first=first,
        unseen_last=unseen,
        is_certain=is_certain,
        held_by=held,
    )
