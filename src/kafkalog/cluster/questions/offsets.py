"""Offsets that consumer groups have committed, now or at a past moment, in Kafka and in ZooKeeper, and the state of
share groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.cluster.cross_check import KnownTopic
from kafkalog.cluster.groups.migration import elsewhere
from kafkalog.cluster.groups.offset_history import OffsetHistory, read_offset_history
from kafkalog.cluster.groups.offsets import CommittedOffset
from kafkalog.cluster.groups.old_group_lines import old_offsets
from kafkalog.cluster.groups.share_state import SharePartition
from kafkalog.cluster.questions.chosen_names import chosen_names
from kafkalog.cluster.questions.known_topics import groups_at_hand, known_topics
from kafkalog.cluster.questions.log_ends import LogEnds
from kafkalog.cluster.questions.moment import NOW, Moment, reading_until
from kafkalog.cluster.questions.opening import partition_names, partitions_with, split_zookeeper
from kafkalog.cluster.questions.zookeeper_groups import OldConsumers, old_consumers
from kafkalog.cluster.records.coordinator_records import CONSUMER_OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC
from kafkalog.cluster.rules.java import coordinator_partition
from kafkalog.cluster.zookeeper.old_consumers import OldGroup
from kafkalog.codec.common.advice import Ask, Sentence
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.findings import Finding
from kafkalog.codec.common.wording import counted
from kafkalog.log.directories.partition import Partition
from kafkalog.log.directories.selection import ALL, Selection
from kafkalog.log.disk.files import PathLike

__all__ = [
    "GroupOffset", "Offsets", "ShareOffset", "StoredOffsets", "groups_in", "offset_history", "offsets",
    "refuse_several_clusters", "refuse_without_logs", "stored_offsets",
]  # fmt: skip


class GroupOffset(Struct, frozen=True, kw_only=True):
    """A committed offset, with the end of the log that it refers to."""

    commit: CommittedOffset
    log_end_offset: int | None
    """end of the log; None if the log is not at hand, or for a past moment"""
    lag: int | None
    """offsets from the commit to the end of the log, negative if the log ends below it; None if unknown"""
    elsewhere: int | None
    """a different offset in the other place, ZooKeeper or Kafka; None if there is none"""


class ShareOffset(Struct, frozen=True, kw_only=True):
    """The state of one partition in a share group, with the end of its log."""

    state: SharePartition
    log_end_offset: int | None
    """end of the log; None if the log is not at hand, or for a past moment"""
    lag: int | None
    """offsets up to the end of the log that are still to be settled; None if unknown"""


class Offsets(Struct, frozen=True, kw_only=True):
    """Offsets of the chosen groups and partitions, sorted by group, topic and partition."""

    committed: tuple[GroupOffset, ...]
    """commits in Kafka and in ZooKeeper; an offset that is stored in both comes twice"""
    pending: tuple[GroupOffset, ...]
    """commits of transactions that have not ended; they do not count yet"""
    share: tuple[ShareOffset, ...]
    in_both_places: bool
    """whether log directories and ZooKeeper's directory were read"""
    findings: tuple[Finding, ...]


class StoredOffsets(Struct, frozen=True, kw_only=True):
    """Offsets of the chosen groups and partitions as they are stored, and where they were read."""

    at_hand: tuple[Partition, ...]
    """partitions in log directories"""
    zookeeper: OldConsumers | None
    old_groups: Sequence[OldGroup]
    """the chosen groups in ZooKeeper, with their offsets for all partitions"""
    committed: list[CommittedOffset]
    """in `__consumer_offsets`"""
    pending: list[CommittedOffset]
    in_zookeeper: list[CommittedOffset]
    share: list[SharePartition]
    findings: list[Finding]

    @property
    def all_committed(self) -> list[CommittedOffset]:
        """Commits in Kafka and in ZooKeeper, sorted by group, topic, partition and cluster."""
        return sorted([*self.committed, *self.in_zookeeper], key=lambda each: (each.key, each.chroot or ""))

    def place(self, chroot: str | None) -> str:
        """Return the ZooKeeper node of the cluster, empty at the root: `chroot` if it is not empty, else the node below
        which the offsets are stored. Raises `UsageError` if offsets of several clusters were read.
        """
        places = {group.chroot for group in self.old_groups if group.offsets}
        if len(places) > 1:
            raise _several_clusters(place or "/" for place in places)
        return (chroot or "").rstrip("/") or next(iter(places), "")


def offsets(
    *paths: PathLike,
    groups: Sequence[str] = (),
    select: Selection = ALL,
    as_of: Moment = NOW,
    chroot: str | None = None,
    replica: PathLike | None = None,
    offsets_partitions: int | None = None,
    log_ends: bool = True,
) -> Offsets:
    """Return the last committed offset of every group and partition, from `__consumer_offsets` and from ZooKeeper, and
    the state of share groups. Reads only; damage becomes findings.

    All are sorted by group, topic and partition; an offset that is stored in both is returned twice. A commit in a
    transaction counts from the transaction's COMMIT marker on; while the transaction is open, it is in `pending`.

    Raises `UsageError` in these cases:

    * A path has no Kafka data, or none of the log directories has a partition of `__consumer_offsets` or
      `__share_group_state`.
    * A partition of the groups' topics is in several directories, and `replica` chooses none.
    * ZooKeeper's logs do not go back to the time of `as_of`, or end before its transaction.
    * There are log directories, and offsets in ZooKeeper are of several clusters.
    * The metadata has another number than `offsets_partitions`.
    * An option does not apply to the paths, or everything selected is excluded.

    Raises `UnknownName` for a group, topic, partition or cluster that does not exist, `StorageError` for I/O errors.

    * `paths`: log directories, and ZooKeeper's dataDir and dataLogDir
    * `groups`: names or patterns of groups; empty for all
    * `select`: the topic-partitions that commits are for
    * `as_of`: a past moment; log ends are then unknown, and at an offset also the states of share groups
    * `chroot`: ZooKeeper node of the cluster, if several are below one ZooKeeper
    * `replica`: which directory counts if a partition is in several: `"longest"`, or its path, which must exist
    * `offsets_partitions`: number of partitions of `__consumer_offsets` if no metadata states it; None: 50, or the
      number that suits the groups
    * `log_ends`: False: the logs that commits refer to are not read
    """
    logs, zookeeper = split_zookeeper(paths)
    refuse_without_logs(logs, {
        Ask.AT_OFFSET: as_of.offset, Ask.REPLICA: replica, Ask.OFFSETS_PARTITIONS: offsets_partitions,
    })  # fmt: skip
    if zookeeper is None and chroot is not None:
        raise UsageError(Sentence(Ask.CHROOT, _NO_ZOOKEEPER))
    old = old_consumers(zookeeper, as_of, chroot)
    stored = stored_offsets(
        logs, old, groups=groups, select=select, as_of=as_of, chroot=chroot, replica=replica,
        offsets_partitions=offsets_partitions,
    )  # fmt: skip
    if logs:  # of one cluster, whose commits and log ends are shown beside
        refuse_several_clusters(stored.in_zookeeper)
    ends = LogEnds(stored.at_hand if log_ends and as_of.is_now else (), replica, stored.findings)
    ends.note_beyond(stored.all_committed)
    in_kafka = elsewhere(stored.in_zookeeper, stored.committed)
    in_zookeeper = elsewhere(stored.committed, stored.in_zookeeper)

    def beside_log(commit: CommittedOffset) -> GroupOffset:
        other = (in_zookeeper if commit.zxid is None else in_kafka).get(commit.key)
        return GroupOffset(
            commit=commit, log_end_offset=ends.of(commit), lag=ends.lag(commit), elsewhere=other
        )  # fmt: skip

    return Offsets(
        committed=tuple(map(beside_log, stored.all_committed)),
        share=tuple(_beside_log(state, ends) for state in stored.share),
        pending=tuple(map(beside_log, stored.pending)),
        in_both_places=old is not None and bool(logs),
        findings=tuple(stored.findings),
    )


def _beside_log(state: SharePartition, ends: LogEnds) -> ShareOffset:
    end = None if state.topic is None else ends.of_partition(state.topic, state.partition)
    lag = None if end is None or state.start_offset < 0 else end - state.start_offset - state.settled
    return ShareOffset(state=state, log_end_offset=end, lag=lag)


_NO_ZOOKEEPER = " is a ZooKeeper node, and none of the paths is a directory of its logs"


def stored_offsets(
    logs: Sequence[PathLike],
    old: OldConsumers | None,
    *,
    groups: Sequence[str],
    select: Selection,
    as_of: Moment,
    chroot: str | None,
    replica: PathLike | None,
    offsets_partitions: int | None,
) -> StoredOffsets:
    """Read the offsets in log directories and in ZooKeeper; the parameters are the same as in `offsets`.

    `old` are the consumers that were read from ZooKeeper, None without a ZooKeeper directory. Commits in Kafka are
    sorted by group, topic and partition; commits in ZooKeeper are in the order of its groups. Damage becomes findings
    of the result.

    Raises `UsageError` if `logs` have no partition of `__consumer_offsets` or `__share_group_state`, or if such a
    partition is in several directories and `replica` chooses none. It is raised too if the metadata has another number
    than `offsets_partitions`, or if everything selected is excluded. Raises `UnknownName` for a group, topic, partition
    or cluster that does not exist, `StorageError` for I/O errors.
    """
    findings = [*old.findings] if old is not None else []
    at_hand = groups_in(logs, replica, findings)
    topics = _topics(at_hand, old, chroot, as_of, findings)
    all_groups, why_unknown = groups_at_hand(
        at_hand, topics, offsets_partitions, reading_until(as_of), findings, groups
    )
    old_groups = () if old is None else old.below(chroot)
    names = [*(group.group_id for group in all_groups), *(group.group for group in old_groups)]
    is_meant = chosen_names("group", groups, names, why_unknown, findings)
    chosen = [group for group in all_groups if is_meant(group.group_id)]
    old_groups = tuple(group for group in old_groups if is_meant(group.group))
    committed = sorted((commit for group in chosen for commit in group.offsets), key=lambda commit: commit.key)
    pending = sorted(
        (commit for group in chosen for commit in group.pending), key=lambda commit: (commit.key, commit.producer_id)
    )
    in_zookeeper = [commit for group in old_groups for commit in old_offsets(group)]
    share = [state for group in chosen for state in group.share]
    select.check({
        *((commit.key.topic, commit.key.partition) for commit in (*committed, *pending, *in_zookeeper)),
        *((each.topic, each.partition) for each in at_hand if each.topic is not None and each.partition is not None),
        *partition_names(topics),
        *((state.topic, state.partition) for state in share if state.topic is not None),
    })  # fmt: skip

    def selected(commits: Iterable[CommittedOffset]) -> list[CommittedOffset]:
        return [commit for commit in commits if select.takes(commit.key.topic, commit.key.partition)]

    return StoredOffsets(
        at_hand=at_hand,
        zookeeper=old,
        old_groups=old_groups,
        committed=selected(committed),
        pending=selected(pending),
        in_zookeeper=selected(in_zookeeper),
        share=[state for state in share if select.takes(state.topic, state.partition)],
        findings=findings,
    )


def groups_in(logs: Sequence[PathLike], replica: PathLike | None, findings: list[Finding]) -> tuple[Partition, ...]:
    """Open all partitions in the log directories; return an empty tuple if there are no directories. Findings about
    unreadable files are appended to `findings`. Raises `UsageError` if there is no partition of `__consumer_offsets` or
    `__share_group_state`, or if one is in several directories and `replica` chooses none. Raises `StorageError` if none
    was found and a directory could not be read.
    """
    if not logs:
        return ()
    return partitions_with(logs, CONSUMER_OFFSETS_TOPIC, replica, findings, or_topic=SHARE_GROUP_STATE_TOPIC)


def _topics(
    at_hand: Sequence[Partition], old: OldConsumers | None, chroot: str | None, as_of: Moment, findings: list[Finding]
) -> Mapping[str, KnownTopic]:
    """Return the topics in the metadata beside the groups, by name; empty if there is none."""
    known = None if old is None else old.topics_below(chroot)
    if known is not None:
        return known
    return known_topics(at_hand, None, reading_until(as_of), findings) if at_hand else {}


def refuse_several_clusters(in_zookeeper: Iterable[CommittedOffset]) -> None:
    """Raise `UsageError` if the commits are from several clusters in one ZooKeeper."""
    places = {commit.chroot or "/" for commit in in_zookeeper}
    if len(places) > 1:
        raise _several_clusters(places)


def _several_clusters(places: Iterable[str]) -> UsageError:
    names = ", ".join(sorted(places))
    return UsageError(
        Sentence(f"ZooKeeper holds offsets of several clusters ({names}); ", Ask.CHROOT, " chooses one")
    )  # fmt: skip


def refuse_without_logs(logs: Sequence[PathLike], options: Mapping[Ask, object]) -> None:
    """Raise `UsageError` for the first option that was passed, if there are no log directories. `options` maps options
    about `__consumer_offsets` to their values; None, () and {} mean that the option was not passed.
    """
    if logs:
        return
    for option, value in options.items():
        if value is not None and value != () and value != {}:
            rest = ["; ", Ask.AT_ZXID, " is ZooKeeper's"] if option is Ask.AT_OFFSET else []
            about = f" is about {CONSUMER_OFFSETS_TOPIC}, and no path is a log directory"
            raise UsageError(Sentence(option, about, *rest))


def offset_history(
    *paths: PathLike, groups: Sequence[str] = (), select: Selection = ALL, replica: PathLike | None = None
) -> OffsetHistory:
    """Return every commit that `__consumer_offsets` still has, and every removal of an offset. Reads only; damage
    becomes findings.

    They are sorted by group, topic and partition, then in the order in which they took effect.

    Raises `UsageError` if the paths hold no partition of `__consumer_offsets`, or if a path is ZooKeeper's. It is
    raised too if a partition is in several directories and `replica` chooses none, or if everything selected is
    excluded. Raises `UnknownName` for a group, topic or partition without a change, `StorageError` for I/O errors.

    * `paths`: log directories
    * `groups`: names or patterns of groups; empty for all
    * `select`: the topic-partitions that commits are for
    * `replica`: which directory counts if a partition is in several: `"longest"`, or its path, which must exist
    """
    logs, zookeeper = split_zookeeper(paths)
    if not logs or zookeeper is not None:
        detail = f" needs log directories with {CONSUMER_OFFSETS_TOPIC}, and nothing else"
        raise UsageError(Sentence(Ask.HISTORY, detail))
    findings: list[Finding] = []
    history = read_offset_history(partitions_with(logs, CONSUMER_OFFSETS_TOPIC, replica, findings))
    findings += history.findings
    names = [change.key.group for change in history.changes]
    is_meant = chosen_names("group", groups, names, lambda name: _why_unknown(history, name), findings)
    select.check({(change.key.topic, change.key.partition) for change in history.changes})
    changes = tuple(
        change for change in history.changes
        if is_meant(change.key.group) and select.takes(change.key.topic, change.key.partition)
    )  # fmt: skip
    return replace(history, changes=changes, findings=tuple(findings))


def _why_unknown(history: OffsetHistory, name: str | None) -> str | None:
    """Return the reason why the group `name` may have committed although no commit of it was read; None if it certainly
    has not. The reason is that the log is incomplete, or that the cleaner has removed records. If `name` is None, the
    reason may concern any group.
    """
    why = history.logs.why_unknown(name, history.partition_count)
    if why is not None or not history.missing:
        return why
    number = None if name is None else coordinator_partition(name, history.logs.count or history.partition_count)
    numbers = sorted(history.missing) if number is None else [number]
    removed = next((each for each in numbers if each in history.missing), None)
    if removed is None:
        return None
    count = counted(history.missing[removed], "record")
    return f"the cleaner has removed {count} of {CONSUMER_OFFSETS_TOPIC}-{removed}"
