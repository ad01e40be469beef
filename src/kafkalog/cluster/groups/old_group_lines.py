"""Groups of old consumers as today's groups are shown: the same columns and keys, and what only ZooKeeper has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkalog.cluster.assignors.old_assignors import Owners
from kafkalog.cluster.groups.group_lines import Line, group_state, member_line, names_of
from kafkalog.cluster.groups.groups import EMPTY, STABLE, Group, Member
from kafkalog.cluster.groups.offsets import CommittedOffset, OffsetKey
from kafkalog.cluster.records.consumer_protocol import Subscription
from kafkalog.cluster.zookeeper.old_consumers import OldGroup, consumer_of_thread
from kafkalog.cluster.zookeeper.registered_consumers import consumer_id

__all__ = ["as_derived", "as_group", "by_thread", "old_group_line", "old_offsets"]

ZOOKEEPER = "ZooKeeper"
_NONE = -1


def old_offsets(group: OldGroup) -> list[CommittedOffset]:
    """The group's offsets as commits; places in `__consumer_offsets` are -1, the commit's time is the node's."""
    return [
        CommittedOffset(
            key=OffsetKey(group.group, each.topic, each.partition),
            offset=each.offset,
            metadata="",
            leader_epoch=_NONE,
            commit_timestamp=each.timestamp,
            expire_timestamp=_NONE,
            topic_id=None,
            log_offset=_NONE,
            log_timestamp=each.timestamp,
            log_partition=_NONE,
            zxid=each.zxid,
            chroot=group.chroot,
        )
        for each in group.offsets
    ]


def as_group(group: OldGroup) -> Group:
    """An old group as a group of today; Stable while consumers are registered, else Empty."""
    owned: dict[str, set[tuple[str, int]]] = {}
    for place, thread in group.owners.items():
        owned.setdefault(consumer_of_thread(thread), set()).add(place)
    topics = {each.consumer_id: tuple(sorted(each.streams)) for each in group.streams}
    members = []
    for consumer in group.consumers:
        name = consumer.consumer_id
        made = consumer_id(group.group, name)
        subscription = Subscription(topics=topics[name]) if name in topics else None
        host = made.host if made is not None else ""
        members.append(Member(name, None, "", host, frozenset(owned.get(name, ())), subscription))
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
    """Whether the owners are what one of the two assignors gives; None where nobody is registered or owns anything."""
    if not group.consumers or not group.owners or not group.resolved:
        return None
    return bool(group.assignor)


def by_thread(owners: Owners | Mapping[tuple[str, int], str] | None) -> dict[str, list[str] | None] | None:
    """Thread -> the names of its partitions."""
    if owners is None:
        return None
    found: dict[str, list[tuple[str, int]]] = {}
    for place, thread in owners.items():
        found.setdefault(thread, []).append(place)
    return {thread: names_of(places) for thread, places in sorted(found.items())}


def _members(group: OldGroup, lines: Iterable[Line]) -> list[Line]:
    owned = by_thread(group.owners) or {}
    found = []
    for consumer, line in zip(group.consumers, lines, strict=True):
        name = consumer.consumer_id
        made = consumer_id(group.group, name)
        found.append({
            **line,
            "pattern": consumer.pattern,
            "streams": dict(consumer.subscription),
            "subscribedTimestamp": consumer.timestamp,
            "startedTimestamp": made.started if made is not None else None,
            "uuid": made.uuid if made is not None else None,
            "threads": {each: names for each, names in owned.items() if consumer_of_thread(each) == name},
        })  # fmt: skip
    return found


def old_group_line(group: OldGroup, without: str | None = None, joining: str | None = None) -> Line:
    """One group under the keys of `group_line`; what-ifs and the derived assignment are by thread."""
    shown = as_group(group)
    line = {**group_state(shown), "members": _members(group, map(member_line, shown.members))}
    same = as_derived(group)
    line["assignmentAsDerived"] = same
    line["derivedAssignment"] = by_thread(group.assigned("range")) if same is False else None
    line["assignmentProblems"] = group.violations()
    if without is not None:
        line["assignmentWithout"] = by_thread(group.without(without))
    if joining is not None:
        line["assignmentWith"] = by_thread(group.joined_by(joining))
    line["chroot"] = group.chroot
    line["roundRobinRefused"] = group.conditions() if group.consumers else None
    return line
