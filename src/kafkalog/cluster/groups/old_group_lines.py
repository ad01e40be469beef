"""Convert groups that store their state in ZooKeeper to JSON objects with the keys of `GroupFields` and more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import UNSET, UnsetType, structs

from kafkalog.cluster.assignors.old_assignors import Owners
from kafkalog.cluster.groups.group_lines import GroupFields, GroupLine, MemberJson, group_state, member_line, names_of
from kafkalog.cluster.groups.groups import EMPTY, STABLE, Group, Member
from kafkalog.cluster.groups.offsets import CommittedOffset, OffsetKey
from kafkalog.cluster.records.consumer_protocol import Subscription
from kafkalog.cluster.zookeeper.old_consumers import OldGroup, consumer_of_thread
from kafkalog.cluster.zookeeper.registered_consumers import consumer_id

__all__ = ["as_derived", "as_group", "by_thread", "old_group_line", "old_offsets"]

ZOOKEEPER = "ZooKeeper"
_NONE = -1


class OldMemberLine(MemberJson, frozen=True, kw_only=True, rename="camel"):
    """A registered consumer of a group of old consumers."""

    pattern: str | None
    """how it subscribed: `static`, `white_list` or `black_list`; null if not given"""
    streams: Mapping[str, int]
    """topic or pattern, and how many threads"""
    subscribed_timestamp: int | None
    """in ms since 1970; null if not given"""
    started_timestamp: int | None
    """in ms since 1970, from its id; null if not given"""
    uuid: str | None
    """from its id; null if not given"""
    threads: dict[str, list[str] | None]
    """thread, and its partitions"""


class OldGroupLine(GroupFields, frozen=True, kw_only=True, rename="camel"):
    """A group of old consumers, in ZooKeeper."""

    members: list[OldMemberLine]
    """member by member"""
    assignment_as_derived: bool | None
    """the assignor gives the assignment that is stored; null if unknown"""
    derived_assignment: dict[str, list[str] | None] | None
    """what it gives, by member, or thread of an old consumer; null if it gives the same"""
    assignment_problems: list[str]
    """what is wrong with the assignment"""
    assignment_without: dict[str, list[str] | None] | UnsetType | None = UNSET
    """with --without; null if unknown"""
    assignment_with: dict[str, list[str] | None] | UnsetType | None = UNSET
    """with --with; null if unknown"""
    chroot: str
    """the node that the cluster lies below; empty at the root"""
    round_robin_refused: str | None
    """which condition of round robin it does not meet; null if it meets both, or has no consumers"""


Line = GroupLine | OldGroupLine
"""One line for each group; under the names of Kafka's admin client."""


def old_offsets(group: OldGroup) -> list[CommittedOffset]:
    """Convert the offsets of a group in ZooKeeper to commits, in the group's order.

    Both timestamps are the ZooKeeper node's; the log offset, log partition, leader epoch and expiry are -1, the
    metadata is empty.
    """
    return [
        CommittedOffset(
            key=OffsetKey(group.group, offset.topic, offset.partition),
            offset=offset.offset,
            metadata="",
            leader_epoch=_NONE,
            commit_timestamp=offset.timestamp,
            expire_timestamp=_NONE,
            topic_id=None,
            log_offset=_NONE,
            log_timestamp=offset.timestamp,
            log_partition=_NONE,
            zxid=offset.zxid,
            chroot=group.chroot,
        )
        for offset in group.offsets
    ]


def as_group(group: OldGroup) -> Group:
    """Convert a group in ZooKeeper to a `Group` as brokers store them; Stable while consumers are registered, else
    Empty.

    Members are the registered consumers; the assignment of a consumer has the partitions of all its threads. A
    consumer's subscription is None if it is unknown. Epochs are None, log partitions -1.
    """
    owned: dict[str, set[tuple[str, int]]] = {}
    for place, thread in group.owners.items():
        owned.setdefault(consumer_of_thread(thread), set()).add(place)
    topics = {stream.consumer_id: tuple(sorted(stream.streams)) for stream in group.streams}
    members = []
    for consumer in group.consumers:
        name = consumer.consumer_id
        parsed_id = consumer_id(group.group, name)
        subscription = Subscription(topics=topics[name]) if name in topics else None
        host = parsed_id.host if parsed_id is not None else ""
        members.append(
            Member(
                member_id=name,
                instance_id=None,
                client_id="",
                client_host=host,
                assignment=frozenset(owned.get(name, ())),
                subscription=subscription,
            )
        )
    return Group(
        group_id=group.group,
        type=ZOOKEEPER,
        state=STABLE if group.consumers else EMPTY,
        protocol_type="consumer",
        generation=None,
        epoch=None,
        assignor=group.assignor,
        leader=None,
        members=tuple(members),
        offsets=tuple(old_offsets(group)),
        log_partition=_NONE,
        expected_partition=_NONE,
    )


def as_derived(group: OldGroup) -> bool | None:
    """Whether the stored owners equal an assignment that Kafka computes; None if no consumer is registered or owns a
    partition, or if the topics of some consumer are unknown.
    """
    if not group.consumers or not group.owners or not group.resolved:
        return None
    return bool(group.assignor)


def by_thread(owners: Owners | Mapping[tuple[str, int], str] | None) -> dict[str, list[str] | None] | None:
    """Return the `topic-number` names of each thread's partitions, sorted by topic and number. Threads are in ascending
    order. `owners` maps (topic, partition) to the thread; None for None.
    """
    if owners is None:
        return None
    places_by_thread: dict[str, list[tuple[str, int]]] = {}
    for place, thread in owners.items():
        places_by_thread.setdefault(thread, []).append(place)
    return {thread: names_of(places) for thread, places in sorted(places_by_thread.items())}


def _members(group: OldGroup, members: Iterable[Member]) -> Iterator[OldMemberLine]:
    owned = by_thread(group.owners) or {}
    for consumer, member in zip(group.consumers, members, strict=True):
        name = consumer.consumer_id
        parsed_id = consumer_id(group.group, name)
        yield OldMemberLine(
            **structs.asdict(member_line(member)),
            pattern=consumer.pattern,
            streams=consumer.subscription,
            subscribed_timestamp=consumer.timestamp,
            started_timestamp=parsed_id.started if parsed_id is not None else None,
            uuid=parsed_id.uuid if parsed_id is not None else None,
            threads={each: names for each, names in owned.items() if consumer_of_thread(each) == name},
        )


def old_group_line(group: OldGroup, without: str | None = None, joining: str | None = None) -> OldGroupLine:
    """Convert a group in ZooKeeper to its JSON object.

    Computed assignments map each thread to its partitions; they are null if they cannot be computed.
    `derived_assignment` is computed by range if no assignor gives the stored assignment. It is null if one does, if no
    partition has an owner, or if no consumer is registered. `without` names a consumer that leaves, and `joining` one
    that joins; the key of the assignment after that is left out if the argument is None. `round_robin_refused` is the
    reason why Kafka up to 0.9 refuses round robin, or why that cannot be checked; it is null if Kafka accepts it, or if
    no consumer is registered.
    """
    shown, same = as_group(group), as_derived(group)
    return OldGroupLine(
        **group_state(shown),
        members=list(_members(group, shown.members)),
        assignment_as_derived=same,
        derived_assignment=by_thread(group.assigned("range")) if same is False else None,
        assignment_problems=group.violations(),
        assignment_without=UNSET if without is None else by_thread(group.without(without)),
        assignment_with=UNSET if joining is None else by_thread(group.joined_by(joining)),
        chroot=group.chroot,
        round_robin_refused=group.conditions() if group.consumers else None,
    )
