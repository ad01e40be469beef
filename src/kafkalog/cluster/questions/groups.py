"""Groups with their members and assignments, and the assignment after a rebalance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.cluster.assignors.assignors import Assignment
from kafkalog.cluster.cross_check import KnownTopic
from kafkalog.cluster.groups.groups import STABLE, Group
from kafkalog.cluster.groups.growth import Growth
from kafkalog.cluster.groups.old_group_lines import as_group
from kafkalog.cluster.groups.rederive import Verdict, assignment_of, partition_counts, verdict
from kafkalog.cluster.questions.chosen_names import chosen_names
from kafkalog.cluster.questions.known_topics import groups_at_hand, known_topics
from kafkalog.cluster.questions.moment import NOW, Moment, reading_until
from kafkalog.cluster.questions.offsets import groups_in, refuse_without_logs
from kafkalog.cluster.questions.opening import split_zookeeper
from kafkalog.cluster.questions.zookeeper_groups import OldConsumers, old_consumers
from kafkalog.cluster.zookeeper.old_consumers import OldGroup
from kafkalog.codec.common.advice import Advice, Ask, Sentence
from kafkalog.codec.common.arguments import check_fields
from kafkalog.codec.common.errors import UnknownName, UsageError
from kafkalog.codec.common.findings import Finding
from kafkalog.codec.common.unknown import unknown
from kafkalog.log.directories.partition import Partition
from kafkalog.log.directories.selection import ALL, Selection
from kafkalog.log.disk.files import PathLike

__all__ = ["ClusterGroups", "Rebalance", "groups"]


class Rebalance(Struct, frozen=True, kw_only=True):
    """A change after which groups rebalance."""

    without: str | None = None
    """member that leaves"""
    joining: str | None = None
    """id of a member that joins and subscribes to everything that the group subscribes to"""
    partitions: Mapping[str, int] = {}
    """topic -> its number of partitions from now on"""
    topics: Sequence[str] = ()
    """topics that all members subscribe to from now on"""

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def growth(self) -> Growth | None:
        """The new partitions and topics; None if there are none."""
        return Growth(self.partitions, self.topics) if self.partitions or self.topics else None


NO_REBALANCE = Rebalance()


class ClusterGroups(Struct, frozen=True, kw_only=True):
    """The chosen groups, ascending by id, and the rebalance for which assignments can be computed."""

    groups: tuple[Group, ...]
    """in `__consumer_offsets` and `__share_group_state`"""
    old_groups: tuple[OldGroup, ...]
    """groups of old consumers, in ZooKeeper"""
    partition_counts: Mapping[str, int]
    """topic -> number of partitions, as far as it is known"""
    rebalance: Rebalance
    findings: tuple[Finding, ...]

    def verdict(self, group: Group) -> Verdict:
        """Compare the stored assignment of a group with the one that its assignor computes."""
        return verdict(group, self.partition_counts)

    def after_leaving(self, group: Group) -> Assignment | None:
        """Assignment by member after `rebalance.without` has left; if that is None, the one for the stored
        subscriptions. None if it cannot be derived.
        """
        return assignment_of(group, self.partition_counts, without=self.rebalance.without)

    def after_joining(self, group: Group) -> Assignment | None:
        """Assignment by member after `rebalance.joining` has joined; if that is None, the one for the stored
        subscriptions. None if it cannot be derived.
        """
        return assignment_of(group, self.partition_counts, joining=self.rebalance.joining)

    def after_growth(self, group: Group) -> Assignment | None:
        """Assignment by member after topics have changed; None if it cannot be derived, or if no changed topic concerns
        the group.
        """
        growth = self.rebalance.growth
        return None if growth is None else growth.assignment_of(group, self.partition_counts)


def groups(
    *paths: PathLike,
    groups: Sequence[str] = (),
    select: Selection = ALL,
    rebalance: Rebalance = NO_REBALANCE,
    as_of: Moment = NOW,
    metadata: PathLike | None = None,
    chroot: str | None = None,
    replica: PathLike | None = None,
    offsets_partitions: int | None = None,
) -> ClusterGroups:
    """Return groups with their members, from `__consumer_offsets`, `__share_group_state` and ZooKeeper. They are sorted
    by id; those in ZooKeeper by chroot, then by id. Reads only; damage becomes findings.

    Raises `UsageError` in these cases:

    * A path has no Kafka data, or none of the log directories has a partition of `__consumer_offsets` or
      `__share_group_state`.
    * A partition of the groups' topics is in several directories, and `replica` chooses none.
    * ZooKeeper's logs or `metadata` do not go back to the time of `as_of`, or the logs end before its transaction.
    * An option does not apply to the paths, or everything selected is excluded.

    Raises `UnknownName` for a group, member, topic, partition or cluster that does not exist, `StorageError` for I/O
    errors.

    * `paths`: log directories, and ZooKeeper's dataDir and dataLogDir
    * `groups`: names or patterns of groups; empty for all
    * `select`: only groups with commits, assignments or share state for these topic-partitions
    * `rebalance`: a change that `after_leaving`, `after_joining` and `after_growth` of the result answer about
    * `as_of`: a past moment
    * `metadata`: a KRaft log directory or ZooKeeper dataDir with the cluster's topics; None: the metadata in `paths`
    * `chroot`: ZooKeeper node of the cluster, if several are below one ZooKeeper
    * `replica`: which directory counts if a partition is in several: `"longest"`, or its path, which must exist
    * `offsets_partitions`: number of partitions of `__consumer_offsets` if no metadata states it; None: 50, or the
      number that suits the groups
    """
    logs, zookeeper = split_zookeeper(paths)
    refuse_without_logs(logs, {
        Ask.METADATA: metadata, Ask.AT_OFFSET: as_of.offset, Ask.REPLICA: replica,
        Ask.OFFSETS_PARTITIONS: offsets_partitions, Ask.GROWN: rebalance.partitions, Ask.SUBSCRIBED: rebalance.topics,
    })  # fmt: skip
    if chroot is not None and zookeeper is None and metadata is None:
        detail = " is a ZooKeeper node, and none of the paths is a directory of its logs"
        raise UsageError(Sentence(Ask.CHROOT, detail))
    old = old_consumers(zookeeper, as_of, chroot)
    findings = [*old.findings] if old is not None else []
    at_hand = groups_in(logs, replica, findings)
    topics = _topics(at_hand, old, metadata, chroot, as_of, findings)
    counts = _counts(at_hand, topics)
    if rebalance.growth is not None:
        rebalance.growth.check(counts)
    all_groups, why_unknown = groups_at_hand(
        at_hand, topics, offsets_partitions, reading_until(as_of), findings, groups
    )
    old_groups = () if old is None else old.below(chroot)
    alive = {group.group for group in old_groups if group.consumers}
    all_groups = [
        replace(group, state=STABLE) if _has_only_offsets(group) and group.group_id in alive else group
        for group in all_groups
    ]
    _refuse_unknown_topics(rebalance, counts, all_groups)
    names = [*(group.group_id for group in all_groups), *(group.group for group in old_groups)]
    is_meant = chosen_names("group", groups, names, why_unknown, findings)
    has_selected = _has_selected(select, [*all_groups, *map(as_group, old_groups)], counts)
    chosen = tuple(group for group in all_groups if is_meant(group.group_id) and has_selected(group))
    old_groups = tuple(group for group in old_groups if is_meant(group.group) and has_selected(as_group(group)))
    _refuse_unknown_member(rebalance.without, [*chosen, *map(as_group, old_groups)])
    return ClusterGroups(
        groups=chosen,
        old_groups=old_groups,
        partition_counts=counts,
        rebalance=rebalance,
        findings=tuple(findings),
    )


def _topics(
    at_hand: Sequence[Partition],
    old: OldConsumers | None,
    metadata: PathLike | None,
    chroot: str | None,
    as_of: Moment,
    findings: list[Finding],
) -> Mapping[str, KnownTopic]:
    if old is None:
        return known_topics(at_hand, metadata, reading_until(as_of), findings, chroot)
    known = old.topics_below(chroot) if metadata is None else None
    if known is not None:
        return known
    return known_topics(at_hand, metadata, reading_until(as_of), findings)


def _counts(at_hand: Iterable[Partition], topics: Mapping[str, KnownTopic]) -> dict[str, int]:
    counts = partition_counts(at_hand)
    for name, topic in topics.items():
        counts[name] = max(counts.get(name, 0), len(topic.partitions))
    return counts


def _has_only_offsets(group: Group) -> bool:
    """Whether a group has commits but neither protocol nor members in Kafka, as groups have whose consumers are managed
    in ZooKeeper.
    """
    return not group.protocol_type and not group.members


def _refuse_unknown_topics(rebalance: Rebalance, counts: Mapping[str, int], groups: Iterable[Group]) -> None:
    """Raise `UnknownName` for a topic in `rebalance.partitions` that is unknown. A topic is known if it is in `counts`,
    if a member of a group subscribes to it, or if it is in `rebalance.topics`.
    """
    subscribed = {
        topic
        for group in groups
        for member in group.members
        if member.subscription
        for topic in member.subscription.topics
    }
    for topic in rebalance.partitions:
        if topic not in counts and topic not in rebalance.topics and topic not in subscribed:
            subscribe = Advice("{}", Ask.SUBSCRIBED_TO, {"topic": topic})
            error = unknown("topic", topic, {*counts, *subscribed})
            raise UnknownName(Sentence(f"{error}; for a new topic give ", subscribe, " too"))


def _has_selected(select: Selection, groups: Iterable[Group], counts: Mapping[str, int]) -> Callable[[Group], bool]:
    """Return a predicate that is True for groups with commits, assignments or share state for a selected partition.
    Without a selection it is True for every group. `counts` are the numbers of partitions by topic.

    Raises `UnknownName` for a selected topic or partition that neither a group nor the cluster has. Raises `UsageError`
    if the selection excludes everything that it selects.
    """
    if select == ALL:
        return lambda group: True
    known = {(topic, number) for topic, count in counts.items() for number in range(count)}
    select.check(known.union(*map(_places, groups)))
    return lambda group: any(select.takes(*place) for place in _places(group))


def _places(group: Group) -> set[tuple[str, int]]:
    """Return the partitions for which a group has a committed offset, an assignment, or share state."""
    assigned = {place for member in group.members for place in member.assignment or ()}
    committed = {(commit.key.topic, commit.key.partition) for commit in group.offsets}
    return assigned | committed | {(state.topic, state.partition) for state in group.share if state.topic is not None}


def _refuse_unknown_member(member_id: str | None, groups: Iterable[Group]) -> None:
    if member_id is None:
        return
    members = {member.member_id for group in groups for member in group.members}
    if member_id not in members:
        raise unknown("member", member_id, members)
