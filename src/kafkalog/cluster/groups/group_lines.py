"""Conversion of groups and committed offsets to JSON objects, one per line, with the field names of Kafka's admin
client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, field

from kafkalog.cluster.assignors.assignors import Assignment
from kafkalog.cluster.groups.groups import Group, Member
from kafkalog.cluster.groups.growth import Growth
from kafkalog.cluster.groups.offsets import CommittedOffset
from kafkalog.cluster.groups.rederive import assignment_of, verdict
from kafkalog.cluster.groups.share_state import SharePartition

__all__ = [
    "GroupFields", "GroupLine", "MemberJson", "OffsetFields", "ShareStateJson", "group_line", "group_state",
    "member_line", "names_by_member", "names_of", "offset_line", "share_line",
]  # fmt: skip

Names = dict[str, list[str] | None] | None
"""By member, or thread of an old consumer, its partitions as topic-number."""


def _place(number: int) -> int | None:
    return None if number < 0 else number


class StateBatchJson(Struct, frozen=True, kw_only=True, rename="camel"):
    """Offsets of one delivery state."""

    first_offset: int
    """the first offset"""
    last_offset: int
    """the last offset"""
    state: str = field(name="deliveryState")
    """`available`, `acquired`, `acknowledged`, `archiving`, `archived`, or a number that is not known"""
    delivery_count: int
    """how often they were delivered"""


class ShareStateJson(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a share group has of one partition."""

    group: str
    """share group"""
    topic: str | None
    """topic; null if nothing tells the name of `topicId`"""
    partition: int
    """its number"""
    topic_id: str
    """of the topic"""
    start_offset: int | None
    """first offset that is not settled finally; null before the first delivery"""
    batches: list[StateBatchJson]
    """in order, without overlaps; offsets between them are available"""
    settled: int
    """offsets from `startOffset` on that are acknowledged or archived"""
    delivery_complete_count: int | None
    """the same as a broker of 4.2 or later has counted it; null if none did"""
    snapshot_epoch: int
    """of the last snapshot"""
    state_epoch: int | None
    """of the share-partition; null if no snapshot was seen"""
    leader_epoch: int | None
    """of the leader that wrote last; null if unknown"""
    write_timestamp: int | None
    """of the last snapshot, in ms since 1970; null without one"""
    log_partition: int
    """partition of __share_group_state"""
    log_offset: int
    """offset of the last record there"""
    source: Literal["share"] = "share"
    """which form this is"""


class MemberJson(Struct, frozen=True, kw_only=True, rename="camel"):
    """A member of a group."""

    member_id: str
    """its id"""
    instance: str | None
    """its static id; null if there is none"""
    client_id: str
    """of its consumer"""
    host: str
    """where it runs"""
    assignment: list[str] | None
    """partitions, as topic-number; null if it cannot be read"""
    subscription: list[str] | None
    """topics; null if it cannot be read"""
    rack: str | None
    """null if there is none"""
    member_epoch: int | None
    """of a member of the new protocol; null for others"""
    target_assignment: list[str] | None
    """what it is to get; null for classic members"""
    unresolved_topic_ids: list[str]
    """topic ids whose names are not known"""


class GroupOffsetJson(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a group has committed for a partition."""

    tp: str
    """topic-number"""
    offset: int
    """the committed offset"""
    metadata: str
    """what the consumer stored with it"""
    leader_epoch: int | None
    """null if unknown"""


class OffsetFields(Struct, frozen=True, kw_only=True, rename="camel"):
    """A committed offset; the first two are those of a line of the history."""

    timestamp: object = UNSET
    previous: object = UNSET
    group: str
    """consumer group"""
    topic: str
    """topic"""
    partition: int
    """its number"""
    offset: int
    """the committed offset"""
    metadata: str
    """what the consumer stored with it"""
    leader_epoch: int | None
    """of the last record that was consumed; null if unknown"""
    commit_timestamp: int
    """when it was committed, in ms since 1970"""
    expire_timestamp: int | None
    """when it expires, in ms since 1970; null if the broker's retention decides"""
    topic_id: str | None
    """null if it was not stored"""
    log_partition: int | None
    """partition of __consumer_offsets; null for an offset in ZooKeeper"""
    log_offset: int | None
    """offset of the record there; null for an offset in ZooKeeper"""
    source: str
    """where it is stored, `kafka` or `zookeeper`"""
    zxid: int | None
    """the ZooKeeper transaction that wrote it; null for one in Kafka"""
    chroot: str | None
    """the node that the cluster lies below, empty at the root; null for one in Kafka"""
    producer_id: int | None
    """of the transaction that the commit is part of; null if there is none"""
    pending: bool | UnsetType = UNSET
    """true for a commit whose transaction has not ended; left out for all others"""


class GroupFields(Struct, frozen=True, kw_only=True, rename="camel"):
    """A group."""

    group: str
    """its id"""
    state: str
    """`Stable`, `Empty` …, as Kafka's admin client says; `Unknown` for a share group of which only __share_group_state
    is here"""
    type: str
    """`Classic`, `Consumer`, `Share` …; `ZooKeeper` for a group of old consumers"""
    group_epoch: int | None
    """of a group of the new protocol; null for others"""
    assignor: str | None
    """the one in use; null or empty if unknown"""
    members: object
    offsets: list[GroupOffsetJson]
    """what it has committed"""
    protocol_type: str | None
    """of a classic group; null or empty otherwise"""
    generation: int | None
    """of a classic group; null for others"""
    leader: str | None
    """member that assigns; null if there is none"""
    assignment_epoch: int | None
    """of a group of the new protocol; null for others"""
    state_timestamp: int | None
    """since when, in ms since 1970; null if unknown"""
    log_partition: int | None
    """partition of __consumer_offsets; null for a group in ZooKeeper, and if only __share_group_state
    has it"""
    expected_partition: int | None
    """where it should be; null if unknown"""
    coordinator: int | None
    """the broker that leads that partition; null if unknown"""
    pending_offsets: int
    """commits of transactions that have not ended"""


class GroupLine(GroupFields, frozen=True, kw_only=True, rename="camel"):
    """A group in __consumer_offsets."""

    members: list[MemberJson]
    """member by member"""
    share_state: list[ShareStateJson]
    """of a share group: what it has of each partition; empty for others"""
    assignment_as_derived: bool | None
    """the assignor gives the assignment that is stored; null if unknown"""
    derived_assignment: Names
    """what it gives, by member, or thread of an old consumer; null if it gives the same"""
    assignment_problems: list[str]
    """what is wrong with the assignment"""
    assignment_without: Names | UnsetType = UNSET
    """with --without; null if unknown"""
    assignment_with: Names | UnsetType = UNSET
    """with --with; null if unknown"""
    assignment_grown: Names | UnsetType = UNSET
    """with --partitions and --subscribe; null if unknown"""


def offset_line(commit: CommittedOffset, *, pending: bool = False) -> OffsetFields:
    """Convert one committed offset to its JSON object.

    Leader epoch, expiry timestamp, log partition, log offset and producer id become null if they are negative
    (unknown). `source` is `kafka` or `zookeeper`; `zxid` and `chroot` are null for offsets in Kafka. With `pending` the
    object has `pending: true` (the offset waits for the end of its transaction); otherwise it has no such key.
    """
    return OffsetFields(
        group=commit.key.group,
        topic=commit.key.topic,
        partition=commit.key.partition,
        offset=commit.offset,
        metadata=commit.metadata,
        leader_epoch=None if commit.leader_epoch < 0 else commit.leader_epoch,
        commit_timestamp=commit.commit_timestamp,
        expire_timestamp=None if commit.expire_timestamp < 0 else commit.expire_timestamp,
        topic_id=commit.topic_id,
        log_partition=_place(commit.log_partition),
        log_offset=_place(commit.log_offset),
        source=commit.source,
        zxid=commit.zxid,
        chroot=commit.chroot,
        producer_id=None if commit.producer_id < 0 else commit.producer_id,
        pending=True if pending else UNSET,
    )


def share_line(state: SharePartition) -> ShareStateJson:
    """Convert a share group's state of one partition to its JSON object. Start offset, state epoch, leader epoch,
    delivery complete count and write timestamp become null if they are negative (unknown).
    """
    return ShareStateJson(
        group=state.group,
        topic=state.topic,
        partition=state.partition,
        topic_id=state.topic_id,
        start_offset=_place(state.start_offset),
        batches=[
            StateBatchJson(
                first_offset=batch.first_offset,
                last_offset=batch.last_offset,
                state=batch.state,
                delivery_count=batch.delivery_count,
            )
            for batch in state.batches
        ],
        settled=state.settled,
        delivery_complete_count=_place(state.delivery_complete_count),
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=_place(state.state_epoch),
        leader_epoch=_place(state.leader_epoch),
        write_timestamp=_place(state.write_timestamp),
        log_partition=state.log_partition,
        log_offset=state.log_offset,
    )


def names_of(partitions: Iterable[tuple[str, int]] | None) -> list[str] | None:
    """Return `topic-number` names, sorted by topic and partition number; None for None."""
    return None if partitions is None else [f"{topic}-{number}" for topic, number in sorted(partitions)]


def member_line(member: Member) -> MemberJson:
    """Convert one group member to its JSON object.

    `assignment` and `target_assignment` are sorted `topic-number` names, null if unknown. `subscription` lists the
    subscribed topics, null if unknown.
    """
    subscription = member.subscription
    return MemberJson(
        member_id=member.member_id,
        instance=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=names_of(member.assignment),
        subscription=None if subscription is None else list(subscription.topics),
        rack=member.rack_id,
        member_epoch=member.epoch,
        target_assignment=names_of(member.target),
        unresolved_topic_ids=list(member.unresolved),
    )


def names_by_member(assignment: Assignment | None) -> Names:
    """Return the sorted `topic-number` names of each member's partitions, by member id in ascending order; None for
    None.
    """
    return None if assignment is None else {member: names_of(found) for member, found in sorted(assignment.items())}


def group_line(
    group: Group,
    counts: Mapping[str, int],
    without: str | None = None,
    joining: str | None = None,
    growth: Growth | None = None,
) -> GroupLine:
    """Convert one group to its JSON object, and compare its assignment with the one that its assignor computes.
    `counts` are the numbers of partitions by topic. `derived_assignment` is null unless it differs from the stored one.

    Each of three arguments requests one more computed assignment. `without` names a member that leaves, `joining` names
    one that joins, and `growth` describes new partitions or topics. If an argument is None, its key is left out. If the
    assignment cannot be derived, its value is null.
    """
    compared = verdict(group, counts)

    def shown(asked: str | None, assignment: Callable[[], Assignment | None]) -> Names | UnsetType:
        return UNSET if asked is None else names_by_member(assignment())

    return GroupLine(
        **group_state(group),
        members=list(map(member_line, group.members)),
        share_state=list(map(share_line, group.share)),
        assignment_as_derived=compared.same,
        derived_assignment=names_by_member(compared.derived) if compared.same is False else None,
        assignment_problems=list(compared.problems),
        assignment_without=shown(without, lambda: assignment_of(group, counts, without=without)),
        assignment_with=shown(joining, lambda: assignment_of(group, counts, joining=joining)),
        assignment_grown=UNSET if growth is None else names_by_member(growth.assignment_of(group, counts)),
    )


def group_state(group: Group) -> dict[str, Any]:
    """Convert a group to a dict with the keys of `GroupFields`, except `members`.

    A negative (unknown) leader epoch, log partition or expected partition becomes None; other values are unchanged.
    `pending_offsets` is the number of commits whose transaction has not ended.
    """
    return {
        "group": group.group_id,
        "state": group.state,
        "type": group.type,
        "group_epoch": group.epoch,
        "assignor": group.assignor,
        "offsets": [
            GroupOffsetJson(
                tp=f"{commit.key.topic}-{commit.key.partition}",
                offset=commit.offset,
                metadata=commit.metadata,
                leader_epoch=_place(commit.leader_epoch),
            )
            for commit in group.offsets
        ],
        "protocol_type": group.protocol_type,
        "generation": group.generation,
        "leader": group.leader,
        "assignment_epoch": group.assignment_epoch,
        "state_timestamp": group.state_timestamp,
        "log_partition": _place(group.log_partition),
        "expected_partition": _place(group.expected_partition),
        "coordinator": group.coordinator,
        "pending_offsets": len(group.pending),
    }
