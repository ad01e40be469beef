"""Groups in `__consumer_offsets` with their members: classic, consumer (KIP-848), share and streams groups.

Follows `GroupMetadataManager` (both classes of that name).  A classic group with members is Stable, without members
Empty; no other state is ever stored.  Offsets without group metadata form an Empty group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from kafkalog.cluster.coordinator_logs import CoordinatorLogs, coordinator_logs
from kafkalog.cluster.groups.group_places import partition_count
from kafkalog.cluster.groups.group_types import (
    CLASSIC,
    CONSUMER,
    GROUP_METADATA,
    NEW_PROTOCOLS,
    SHARE,
    STREAMS,
    GroupTypes,
)
from kafkalog.cluster.groups.offsets import CommittedOffset, OffsetsState
from kafkalog.cluster.groups.share_lost import Initialized, initialized_by, without_state
from kafkalog.cluster.groups.share_state import SharePartition, read_share_state
from kafkalog.cluster.records.consumer_protocol import (
    CONSUMER_PROTOCOL,
    Subscription,
    TopicPartition,
    read_assignment,
    read_subscription,
)
from kafkalog.cluster.records.coordinator_records import (
    CONSUMER_OFFSETS_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    CoordinatorRecord,
)
from kafkalog.cluster.records.replay import Entry, Marker, Until, partitions_of, replay
from kafkalog.cluster.rules.java import coordinator_partition
from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.log.directories.partition import Partition

__all__ = ["Group", "Groups", "Member", "is_expired", "read_groups"]

EMPTY, STABLE, ASSIGNING, RECONCILING = "Empty", "Stable", "Assigning", "Reconciling"
UNKNOWN = "Unknown"
"""state of a share group that only `__share_group_state` mentions"""
_DEFAULT_SERVER_ASSIGNOR = {CONSUMER: "uniform", SHARE: "simple", STREAMS: "sticky"}
_MEMBER_STABLE = {CONSUMER: 0, SHARE: 0, STREAMS: 1}

_OF_A_MEMBER = ("member", "target", "current")


class Member(Struct, frozen=True, kw_only=True):
    """A member of a group. `assignment` is None for streams groups, and if it is not encoded as an assignment of
    consumers.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    assignment: frozenset[TopicPartition] | None
    subscription: Subscription | None = None
    rack_id: str | None = None
    epoch: int | None = None
    """member epoch (new protocols)"""
    unresolved: tuple[str, ...] = ()
    """assigned topic ids without known names"""
    target: frozenset[TopicPartition] | None = None
    """target assignment of a member (new protocols)"""


class Group(Struct, frozen=True, kw_only=True):
    """A group as of the end of the log."""

    group_id: str
    type: str
    state: str
    protocol_type: str
    generation: int | None
    """generation of a classic group"""
    epoch: int | None
    """group epoch (new protocols)"""
    assignor: str
    """selected protocol of a classic group, else the server-side assignor"""
    leader: str | None
    members: tuple[Member, ...]
    offsets: tuple[CommittedOffset, ...] = ()
    log_partition: int = 0
    """partition of `__consumer_offsets` that has it"""
    expected_partition: int = 0
    """partition that the hash of its id gives"""
    state_timestamp: int | None = None
    """time at which a classic group entered its state, ms since 1970"""
    assignment_epoch: int | None = None
    pending: tuple[CommittedOffset, ...] = ()
    coordinator: int | None = None
    """broker that led its partition of `__consumer_offsets`; None if unknown"""
    share: tuple[SharePartition, ...] = ()
    """state of each partition of a share group"""


def is_expired(group: Group, offset: CommittedOffset, before: int, now_ms: int) -> bool:
    """Whether a committed offset has expired at `now_ms`. False while the group has members. A commit with an expiry
    time has expired from this time on. Any other has expired if the time from which its age counts is at or below
    `before` (ms since 1970). This is the time at which the last member left, if the group is empty and the time is
    known; otherwise it is the time of the commit.
    """
    if group.members:
        return False
    if offset.expire_timestamp >= 0:
        return offset.expire_timestamp <= now_ms
    is_empty = group.state == EMPTY and group.state_timestamp is not None and group.state_timestamp >= 0
    return (group.state_timestamp or 0 if is_empty else offset.commit_timestamp) <= before


class Groups(Struct, frozen=True, kw_only=True):
    """All groups, ascending by id."""

    groups: tuple[Group, ...]
    partition_count: int
    """number of partitions of `__consumer_offsets`"""
    findings: tuple[Finding, ...]
    logs: CoordinatorLogs
    initialized: tuple[Initialized, ...] = ()
    """partitions that share groups have initialized"""


class _Building(Struct):
    """A consumer, share or streams group while its records are read."""

    kind: str
    about: dict[str, dict[str, Any]] = field(default_factory=dict)
    members: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)


class _State:
    """Groups of one partition of `__consumer_offsets`; records must be passed in offset order."""

    def __init__(self) -> None:
        self.classic: dict[str, dict[str, Any]] = {}
        self.modern: dict[str, _Building] = {}
        self.conflict: tuple[int, str] | None = None
        """offset of the first record that no coordinator since 4.0 can apply, and the reason"""
        self._types = GroupTypes()

    def entry(self, entry: Entry) -> None:
        why = self._types.conflict(entry.record)
        if why is not None and self.conflict is None:
            self.conflict = entry.offset, why
        self.record(entry.record)

    def record(self, record: CoordinatorRecord) -> None:
        if not record.understood or record.type is None:
            return
        if record.type == GROUP_METADATA:
            group = record.key_field("group")
            self.modern.pop(group, None)
            if record.value is None:
                self.classic.pop(group, None)
            else:
                self.classic[group] = record.value.fields
        elif record.type in NEW_PROTOCOLS:
            self._modern(record, *NEW_PROTOCOLS[record.type])

    def initialized(self) -> list[Initialized]:
        """Return the partitions that share groups have initialized."""
        of_groups = ((group, building.about.get("initialized")) for group, building in self.modern.items())
        return [each for group, value in of_groups if value is not None for each in initialized_by(group, value)]

    def _modern(self, record: CoordinatorRecord, kind: str, what: str) -> None:
        group = record.key_field("group_id")
        value = None if record.value is None else record.value.fields
        building = self.modern.get(group)
        if building is None or building.kind != kind:
            if value is None:
                return
            building = self.modern[group] = _Building(kind)
        if what in _OF_A_MEMBER:
            parts = building.members.setdefault(record.key_field("member_id"), {})
            _set(parts, what, value)
            if not parts:
                del building.members[record.key_field("member_id")]
        else:
            _set(building.about, what, value)
            if what == "metadata" and value is None:
                del self.modern[group]


def _set(where: dict[str, dict[str, Any]], what: str, value: dict[str, Any] | None) -> None:
    if value is None:
        where.pop(what, None)
    else:
        where[what] = value


def _classic_member(
    fields: Mapping[str, Any], group: Mapping[str, Any], problems: list[tuple[str, Severity]]
) -> Member:
    subscription = assignment = None
    if group["protocol_type"] == CONSUMER_PROTOCOL:
        try:  # one by one: Kafka's tools show an assignment whatever the subscription is like
            if fields["subscription"]:
                subscription = read_subscription(fields["subscription"], group["protocol"])
        except FormatError as error:
            problems.append((f"member {fields['member_id']}: {error}", Severity.WARNING))
        try:
            assignment = read_assignment(fields["assignment"])
        except FormatError as error:
            problems.append((f"member {fields['member_id']}: {error}", Severity.ERROR))
    return Member(
        member_id=fields["member_id"],
        instance_id=fields.get("group_instance_id"),
        client_id=fields["client_id"],
        client_host=fields["client_host"],
        assignment=assignment,
        subscription=subscription,
        rack_id=subscription.rack if subscription is not None else None,
    )


def _partitions(
    topics: Iterable[Mapping[str, Any]], names: Mapping[str, str]
) -> tuple[frozenset[TopicPartition], tuple[str, ...]]:
    resolved: set[TopicPartition] = set()
    unresolved: list[str] = []
    for topic in topics:
        name = names.get(topic["topic_id"])
        if name is None:
            unresolved.append(topic["topic_id"])
        else:
            resolved.update((name, number) for number in topic["partitions"])
    return frozenset(resolved), tuple(unresolved)


def _modern_member(member_id: str, parts: Mapping[str, Mapping[str, Any]], names: Mapping[str, str]) -> Member:
    about, current, target = (parts.get(name, {}) for name in ("member", "current", "target"))
    streams = "active_tasks" in current or "active_tasks" in target
    assignment, unresolved = _partitions(current.get("assigned_partitions", ()), names)
    wanted, _ = _partitions(target.get("topic_partitions", ()), names)
    return Member(
        member_id=member_id,
        instance_id=about.get("instance_id") or None,
        client_id=about.get("client_id", ""),
        client_host=about.get("client_host", ""),
        assignment=None if streams else assignment,
        subscription=Subscription(topics=tuple(about.get("subscribed_topic_names", ())), rack=about.get("rack_id")),
        rack_id=about.get("rack_id"),
        epoch=current.get("member_epoch"),
        unresolved=unresolved,
        target=None if streams else wanted,
    )


def _modern_state(building: _Building, epoch: int, assignment_epoch: int) -> str:
    """Return the state of a consumer, share or streams group as Kafka names it (`ConsumerGroup.maybeUpdateGroupState`).
    It is Empty without members. It is Assigning if the group's epoch is newer than the target assignment's, and
    Reconciling if a member has not reached the target assignment. Otherwise it is Stable. A share group is Stable as
    soon as it has members.
    """
    if not building.members:
        return EMPTY
    if building.kind == SHARE:
        return STABLE
    if epoch > assignment_epoch:
        return ASSIGNING
    for parts in building.members.values():
        current = parts.get("current", {})
        if current.get("state") != _MEMBER_STABLE[building.kind] or current.get("member_epoch") != assignment_epoch:
            return RECONCILING
    return STABLE


def _server_assignor(building: _Building) -> str:
    """Return the server-side assignor that most members ask for, of several the one asked for first; without any, the
    broker's default for this type of group.
    """
    asked = [parts.get("member", {}).get("server_assignor") for parts in building.members.values()]
    named = [name for name in asked if name]
    return max(named, key=named.count) if named else _DEFAULT_SERVER_ASSIGNOR[building.kind]


def read_groups(
    partitions: Iterable[Partition],
    *,
    topic_names: Mapping[str, str] | None = None,
    until: Until | None = None,
    offsets_topic_num_partitions: int | None = None,
    leaders: Mapping[int, int] | None = None,
    share_state_partitions: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Groups:
    """Read all groups in `__consumer_offsets` with members and offsets, as of the end of the log or as of `until`.
    Return the groups, sorted by id and then by partition of `__consumer_offsets`. The findings are about damage,
    missing or removed data, misplaced groups, groups of two types, and partitions that two members own.

    `topic_names` are names by topic id; None takes them from the partitions' `partition.metadata`.
    `offsets_topic_num_partitions` is the number of partitions of `__consumer_offsets`; None guesses it with
    `partition_count`. `leaders` maps each of these partitions to its leader, the coordinator of the groups there.
    `share_state_partitions` is the number of partitions of `__share_group_state`, if known. Share-group state is not
    read if `until` is an offset.

    Raises `StorageError` if files cannot be read, and `UsageError` if `offsets_topic_num_partitions` is below 1 and
    there is a group. Damage raises nothing and is in the findings.
    """
    partitions = tuple(partitions)
    if topic_names is None:
        topic_names = {
            each.metadata.topic_id: each.topic for each in partitions if each.metadata is not None and each.topic
        }
    findings: list[Finding] = []
    refused: list[Finding] = []
    groups: list[Group] = []
    initialized: list[Initialized] = []
    places = partitions_of(partitions, CONSUMER_OFFSETS_TOPIC)
    paths = {place.partition or 0: place.path for place in places}
    for partition in places:
        state, offsets = _State(), OffsetsState(partition.partition or 0)
        for each in replay(partition, findings, until=until, limits=limits):
            if isinstance(each, Marker):
                offsets.marker(each)
            else:
                offsets.entry(each)
                state.entry(each)
        groups += _groups_of(partition, state, offsets, topic_names, findings)
        refused += _refused(partition.path, state)
        initialized += state.initialized()
    logs = coordinator_logs(partitions, CONSUMER_OFFSETS_TOPIC, findings, limits)
    findings += refused  # all of these partitions was read
    findings += [finding for group in groups for finding in _owned_twice(group, paths[group.log_partition])]
    count = offsets_topic_num_partitions
    if count is None:
        numbers = [place.partition or 0 for place in places]
        count = partition_count([(group.group_id, group.log_partition) for group in groups], numbers)
    placed = [_placed(group, count, leaders or {}, findings) for group in groups]
    share = []
    if until is None or until.offset is None:  # an offset of `__consumer_offsets` says nothing of the other topic
        share = read_share_state(
            partitions, topic_names, findings, until=until, partition_count=share_state_partitions, limits=limits
        )
    if initialized and (until is None or until.is_now):
        state_logs = coordinator_logs(partitions, SHARE_GROUP_STATE_TOPIC, findings, limits)
        findings += without_state(initialized, share, state_logs)
    placed = _with_share(placed, share, count)
    by_id = tuple(sorted(placed, key=lambda each: (each.group_id, each.log_partition)))
    return Groups(groups=by_id, partition_count=count, findings=tuple(findings), logs=logs,
                  initialized=tuple(initialized))  # fmt: skip


def _owned_twice(group: Group, path: str) -> list[Finding]:
    """Return a warning for each assigned partition that an earlier member of the group owns too. The warnings are
    ordered by member, then by partition; they name the file `path`. Return an empty list for share groups, whose
    members share partitions.
    """
    if group.type == SHARE:
        return []
    owner: dict[TopicPartition, str] = {}
    findings = []
    for member in group.members:
        for place in sorted(member.assignment or ()):
            first = owner.setdefault(place, member.member_id)
            if first != member.member_id:
                detail = (
                    f"group {group.group_id}: {place[0]}-{place[1]} belongs to {first} and to {member.member_id}: both "
                    "consume it"
                )
                code = FindingCode.PARTITION_OWNED_TWICE
                findings.append(Finding(code, Severity.WARNING, None, None, detail, path))
    return findings


def _refused(path: str, state: _State) -> list[Finding]:
    """Return one finding, which names the file `path`, if records give a group two types; otherwise an empty list.
    Coordinators from 4.0 on do not load such a partition. `state` has read all records of the partition.
    """
    if state.conflict is None:
        return []
    offset, why = state.conflict
    detail = f"{why}: coordinators from 4.0 on do not load the partition, and serve none of its groups"
    return [Finding.of(FindingCode.GROUP_KINDS_MIXED, None, offset, detail, path)]


def _with_share(groups: list[Group], share: Iterable[SharePartition], count: int) -> list[Group]:
    """Add the state of share groups, which is in `__share_group_state`, to the groups; return a new list.

    A group id that has state there, but is not a share group in `groups`, is appended as a new share group: without
    members, with state Unknown and log partition -1. `count` is the number of partitions of `__consumer_offsets`.
    """
    of: dict[str, list[SharePartition]] = {}
    for share_partition in share:
        of.setdefault(share_partition.group, []).append(share_partition)
    known = [replace(each, share=tuple(of.pop(each.group_id, ()))) if each.type == SHARE else each for each in groups]
    return known + [
        Group(
            group_id=group_id,
            type=SHARE,
            state=UNKNOWN,
            protocol_type=SHARE.lower(),
            generation=None,
            epoch=None,
            assignor="",
            leader=None,
            members=(),
            log_partition=-1,
            expected_partition=coordinator_partition(group_id, count),
            share=tuple(state),
        )
        for group_id, state in of.items()
    ]


def _groups_of(
    partition: Partition,
    state: _State,
    offsets: OffsetsState,
    topic_names: Mapping[str, str],
    findings: list[Finding],
) -> list[Group]:
    committed: dict[str, list[CommittedOffset]] = {}
    for commit in sorted(offsets.committed.values(), key=lambda each: each.key):
        committed.setdefault(commit.key.group, []).append(commit)
    pending: dict[str, list[CommittedOffset]] = {}
    for commit in sorted(offsets.pending, key=lambda each: each.key):
        pending.setdefault(commit.key.group, []).append(commit)
    groups = []
    for group_id in {**state.classic, **state.modern, **committed, **pending}:
        building = state.modern.get(group_id)
        if building is not None:
            group = _modern_group(group_id, building, topic_names)
        else:
            group = _classic_group(group_id, state.classic.get(group_id, _ONLY_OFFSETS), partition.path, findings)
        groups.append(
            replace(
                group,
                offsets=tuple(committed.get(group_id, ())),
                pending=tuple(pending.get(group_id, ())),
                log_partition=partition.partition or 0,
            )
        )
    return groups


_ONLY_OFFSETS: dict[str, Any] = {"protocol_type": "", "members": []}


def _modern_group(group_id: str, building: _Building, topic_names: Mapping[str, str]) -> Group:
    epoch = int(building.about.get("metadata", {}).get("epoch", 0))
    assigned = int(building.about.get("target_epoch", {}).get("assignment_epoch", 0))
    return Group(
        group_id=group_id,
        type=building.kind,
        state=_modern_state(building, epoch, assigned),
        protocol_type=building.kind.lower(),
        generation=None,
        epoch=epoch,
        assignor=_server_assignor(building),
        leader=None,
        members=tuple(_modern_member(*each, topic_names) for each in building.members.items()),
        assignment_epoch=assigned,
    )


def _classic_group(group_id: str, fields: Mapping[str, Any], path: str, findings: list[Finding]) -> Group:
    problems: list[tuple[str, Severity]] = []
    members = tuple(_classic_member(field, fields, problems) for field in fields["members"])
    for problem, severity in problems:
        detail = f"group {group_id}: {problem}"
        findings.append(Finding(FindingCode.TYPED_RECORD_INVALID, severity, None, None, detail, path))
    timestamp = fields.get("current_state_timestamp", -1)
    return Group(
        group_id=group_id,
        type=CLASSIC,
        state=STABLE if members else EMPTY,
        protocol_type=fields["protocol_type"],
        generation=fields.get("generation"),
        epoch=None,
        assignor=fields.get("protocol") or "",
        leader=fields.get("leader"),
        members=members,
        state_timestamp=timestamp if timestamp >= 0 else None,
    )


def _placed(group: Group, count: int, leaders: Mapping[int, int], findings: list[Finding]) -> Group:
    expected = coordinator_partition(group.group_id, count)
    if expected != group.log_partition:
        place = group.log_partition
        detail = f"group {group.group_id} is in partition {place}; of {count} partitions its place is {expected}"
        findings.append(Finding.of(FindingCode.GROUP_MISPLACED, None, None, detail))
    leader = leaders.get(expected, -1)
    return replace(group, expected_partition=expected, coordinator=leader if leader >= 0 else None)
