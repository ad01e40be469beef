"""The cluster's topics, read from metadata in the same directories or in a directory that the caller names."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from kafkalog.cluster.cross_check import KnownTopic, known_from_image, known_from_zookeeper
from kafkalog.cluster.groups.group_places import GroupPlaces
from kafkalog.cluster.groups.groups import Group, read_groups
from kafkalog.cluster.kraft.metadata_log import MetadataLog
from kafkalog.cluster.questions.chosen_names import WhyUnknown
from kafkalog.cluster.questions.opening import one_chroot, zookeeper_at
from kafkalog.cluster.records.coordinator_records import CONSUMER_OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC
from kafkalog.cluster.records.replay import Until
from kafkalog.cluster.zookeeper import tree_at
from kafkalog.cluster.zookeeper.kafka_nodes import chroots
from kafkalog.cluster.zookeeper.moments import zxid_at
from kafkalog.codec.common.advice import Advice, Ask
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.names import CLUSTER_METADATA_TOPIC
from kafkalog.log import open_all
from kafkalog.log.directories.partition import Partition
from kafkalog.log.directories.selection import Selection, is_glob
from kafkalog.log.disk.files import PathLike

__all__ = ["groups_at_hand", "known_topics"]


def _metadata_partitions(partitions: Sequence[Partition]) -> list[Partition]:
    return [partition for partition in partitions if partition.topic == CLUSTER_METADATA_TOPIC]


def known_topics(
    at_hand: Sequence[Partition],
    path: PathLike | None,
    until: Until,
    findings: list[Finding],
    chroot: str | None = None,
) -> Mapping[str, KnownTopic]:
    """Read the cluster's topics as of `until`; return them by name. Findings are appended to `findings`.

    With `path`, a KRaft log directory or ZooKeeper's dataDir, they are read from there. Raises `UsageError` if `path`
    is neither, if it has no cluster or several, or if its metadata does not go back to `until`. `chroot` chooses one of
    several clusters in ZooKeeper; raises `UnknownName` if it is not one of them.

    Without `path`, they are read from the metadata log among the partitions `at_hand`. The result is empty if there is
    no metadata log or several; it is also empty, and there is a finding, if the metadata log does not go back to
    `until`. Raises `StorageError` if a file cannot be read.
    """
    if path is None:
        logs = _metadata_partitions(at_hand)
        try:
            return _known_from_log(logs[0], until, findings) if len(logs) == 1 else {}
        except UsageError as error:
            detail = f"who coordinated the groups, and the topics there were, is not known: {error}"
            findings.append(Finding.of(FindingCode.PAST_REMOVED, None, None, detail, logs[0].path))
            return {}
    directory = zookeeper_at(path)
    if directory is None:
        logs = list(open_all(path).readable(select=Selection.of([CLUSTER_METADATA_TOPIC])))
        if len(logs) != 1:
            detail = f"{path} is neither ZooKeeper's dataDir nor a directory with {CLUSTER_METADATA_TOPIC}"
            raise UsageError(detail)
        return _known_from_log(logs[0], until, findings)
    tree = tree_at(directory, None if until.timestamp is None else zxid_at(directory, until.timestamp))
    findings += tree.findings
    place = one_chroot(chroots(tree.tree.nodes), chroot, Advice("{}", Ask.METADATA_AT, {"path": os.fspath(path)}))
    return _as_of(until, known_from_zookeeper(tree.tree, place))


def _known_from_log(partition: Partition, until: Until, findings: list[Finding]) -> Mapping[str, KnownTopic]:
    log = MetadataLog(partition)
    state = log.state(None if until.timestamp is None else log.offset_at(until.timestamp))
    findings += state.findings
    return _as_of(until, known_from_image(state.image))


def _as_of(until: Until, topics: Mapping[str, KnownTopic]) -> Mapping[str, KnownTopic]:
    """Return `topics`. If `until` has an offset and no timestamp, return a copy in which the leader of every partition
    is -1: that offset of `__consumer_offsets` does not show at which time the topics are wanted.
    """
    if until.offset is None or until.timestamp is not None:
        return topics
    return {
        name: replace(topic, partitions={number: replace(each, leader=-1) for number, each in topic.partitions.items()})
        for name, topic in topics.items()
    }


def _names_by_id(at_hand: Iterable[Partition], topics: Mapping[str, KnownTopic]) -> dict[str, str]:
    """Return topic names by topic id, from `partition.metadata` of the partitions at hand and from the cluster's
    metadata.
    """
    names = {each.metadata.topic_id: each.topic for each in at_hand if each.metadata is not None and each.topic}
    return names | {topic.topic_id: name for name, topic in topics.items() if topic.topic_id is not None}


def groups_at_hand(
    at_hand: Sequence[Partition],
    topics: Mapping[str, KnownTopic],
    offsets_partitions: int | None,
    until: Until,
    findings: list[Finding],
    names: Sequence[str],
) -> tuple[Sequence[Group], WhyUnknown]:
    """Read the groups in `__consumer_offsets` as of `until`. Return the groups and a function that takes a group id
    (None for any). The function returns the reason why this group may exist although it was not read, or None if the
    group cannot exist. If there are no partitions at hand, there are no groups, and the function always returns None.

    `topics` are the topics in the metadata. `offsets_partitions` is the number of partitions of `__consumer_offsets`
    that the caller passed, or None; it is used if the metadata lacks the number. `names` are the names or globs of the
    wanted groups, empty for all. Findings are appended to `findings`; partitions that were not read are reported only
    if all groups or a glob are wanted. Raises `UsageError` if both numbers of partitions are known and differ,
    `StorageError` if a file cannot be read.
    """
    places = GroupPlaces.of(topics)
    if None not in (places.partitions, offsets_partitions) and places.partitions != offsets_partitions:
        raise UsageError(
            f"{CONSUMER_OFFSETS_TOPIC} has {places.partitions} partitions according to the cluster's metadata"
        )
    if not at_hand:
        return (), lambda name: None
    count = places.partitions or offsets_partitions
    state_topic = topics.get(SHARE_GROUP_STATE_TOPIC)
    groups = read_groups(
        at_hand,
        topic_names=_names_by_id(at_hand, topics),
        until=until,
        offsets_topic_num_partitions=count,
        leaders=places.leaders,
        share_state_partitions=None if state_topic is None else len(state_topic.partitions),
    )
    findings += groups.findings
    logs, by_guess = groups.logs, groups.partition_count
    if not names or any(map(is_glob, names)):
        findings += logs.not_here()
    return groups.groups, lambda name: logs.why_unknown(name, by_guess)
