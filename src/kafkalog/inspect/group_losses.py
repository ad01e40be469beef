"""What consumer groups lost where replicas diverged: offsets that they read and that are gone, and what they skip.

A commit knows the leader epoch of the last record that the group has read.  Where that epoch ends in the log that leads
now, the group has read records that no leader has any more, and goes on behind others that it never saw: the question
that consumers ask since KIP-320 (`OffsetsForLeaderEpoch`), asked of files.  Commits without an epoch, of older clients,
may have read either log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from kafkalog.cluster.groups.offsets import CommittedOffset, read_offsets
from kafkalog.codec.findings import Finding
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.names import CONSUMER_OFFSETS_TOPIC
from kafkalog.copies.common_history import Lineage
from kafkalog.copies.comparison import Comparison, CopyReport, PartitionComparison
from kafkalog.log.directories.partition import open_partition

__all__ = ["GroupLoss", "commits_of", "group_losses"]

_NO_EPOCH = -1


class GroupLoss(Struct, frozen=True):
    """A commit that lies beyond what the group's log and the leader's have in common; offsets are inclusive."""

    group: str
    topic: str
    partition: int
    committed_offset: int
    leader_epoch: int | None
    """of the last record that was read; None if the client did not say"""
    gone_first: int
    """the offsets from here up to the commit were read, and their records are gone"""
    unseen_last: int | None
    """the leader's records from `gone_first` to here come before the commit and were not read; None if there is none"""
    is_certain: bool
    """False: without an epoch it is unknown which of the two logs the group has read"""
    held_by: str | None
    """a copy that still holds what was read; None if no copy that was given does"""


def commits_of(found: Comparison, limits: Limits = DEFAULT_LIMITS) -> tuple[list[CommittedOffset], list[Finding]]:
    """What groups had committed, by the best copy of each partition of `__consumer_offsets` that was compared.

    It may hold a commit that the coordinator of now lacks: what the group has read it has read all the same.
    """
    logs = [each for each in found.partitions if each.topic == CONSUMER_OFFSETS_TOPIC and each.best is not None]
    best = [open_partition(each.best.path, limits=limits) for each in logs if each.best is not None]
    known = read_offsets(best, limits=limits)
    return list(known.committed), list(known.findings)


def group_losses(found: Comparison, commits: Iterable[CommittedOffset]) -> list[GroupLoss]:
    """What each group lost, in the order of the commits; those that lost nothing are left out."""
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
            held = [each.path for each in others if _goes_on(each, commit, end[1])]
            yield _loss(best, commit, end[1], held[0] if held else None, is_certain=True)
        return
    for copy in others:
        if copy.past is not None and copy.past.offset < commit.offset:
            yield _loss(best, commit, copy.past.offset, copy.path, is_certain=False)
            return
    if commit.offset > best.log_end_offset:
        yield _loss(best, commit, best.log_end_offset, None, is_certain=True)


def _goes_on(copy: CopyReport, commit: CommittedOffset, offset: int) -> bool:
    """Whether a copy has the commit's epoch beyond where the best one ends it."""
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
