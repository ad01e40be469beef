"""Read facts about the topics of a log directory from the cluster's metadata log (`__cluster_metadata`) in the broker's
log directories.

A KRaft broker reads there a topic's settings (`LogManager.fetchLogConfig` over `MetadataCache.topicConfig`), its id,
and whether a partition is its own at all (`LogManager.isStrayKraftReplica`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from kafkalog.cluster.rules.internal_topics import COMPACT, COMPACTED_BY_KAFKA, INTERNAL_TOPIC_SETTINGS
from kafkalog.codec.common.errors import KafkaLogError
from kafkalog.codec.names import (
    CLUSTER_METADATA_DIRECTORY,
    CLUSTER_METADATA_TOPIC,
    DirectoryState,
    PartitionName,
    parse_partition_directory,
)
from kafkalog.log.directories.identities import incomplete_meta_properties_of, meta_properties_of
from kafkalog.log.directories.log_settings import LogSettings
from kafkalog.recovery.facts.cleaner_settings import CleanerConfig, known_settings
from kafkalog.recovery.facts.metadata_copies import OTHER_COPIES
from kafkalog.tiers.local_tiering import read_tiering
from kafkalog.tiers.tiering import NO_TIERING, REMOTE_STORAGE_ENABLE, Tiering

if TYPE_CHECKING:
    from kafkalog.cluster.kraft.metadata_log import MetadataState

__all__ = ["NO_FACTS", "TopicFacts", "directory_id_of", "identity_of", "node_id_of", "read_topic_facts"]


class SettingsJson(Struct, frozen=True, kw_only=True):
    """Where the settings of topics and of the broker came from."""

    source: str | None
    """the metadata log that was read; null if there is none"""
    problem: str | None
    """why it could not be read; null otherwise"""
    configs_by_name: Mapping[str, Mapping[str, str]] = msgspec.field(name="topics")
    """by topic, its own settings under Kafka's names"""
    broker_configs: Mapping[str, str] = msgspec.field(name="broker")
    """the broker's dynamic settings"""


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """Settings, ids and placement of topics, by Kafka's topic names; empty if unknown."""

    configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    broker_configs: Mapping[str, str] = field(default_factory=dict)
    """dynamic settings of this broker and of all brokers, by the topic settings' names"""
    cleaner_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """settings for the cleaner by topic"""
    cleaner_broker_configs: Mapping[str, str] = field(default_factory=dict)
    """settings for the cleaner of this broker and of all brokers"""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    replicas: Mapping[tuple[str, int], tuple[int, ...]] = field(default_factory=dict)
    """(topic, partition) -> broker ids"""
    in_sync: Mapping[tuple[str, int], tuple[int, ...]] = field(default_factory=dict)
    """(topic, partition) -> broker ids that were in sync when the metadata was written"""
    leader_epochs: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """(topic, partition) -> leader epoch; empty if the metadata log is damaged"""
    compacted: frozenset[str] = frozenset()
    """topics whose settings in the metadata make them compacted"""
    assigned: Mapping[tuple[str, int], str] = field(default_factory=dict)
    """(topic, partition) -> id of the log directory that holds this broker's replica, if the metadata names it"""
    unassigned: frozenset[tuple[str, int]] = frozenset()
    """(topic, partition) of this broker's other replicas, such as all before `metadata.version` 3.7"""
    tiering: Tiering = NO_TIERING
    """which logs have a remote part"""
    node_id: int | None = None
    broker_epoch: int | None = None
    """broker epoch of this broker's last registration; None if unknown"""
    registered: frozenset[str] = frozenset()
    """ids of the log directories in this broker's last registration"""
    registered_by_others: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """broker id -> ids of the log directories in the last registration of each other broker"""
    held_by_others: Mapping[int, frozenset[tuple[str, int]]] = field(default_factory=dict, compare=False)
    """broker id -> (topic, partition) of its live partitions, for other brokers that were given whole: with all log
    directories that they registered, or reformatted
    """
    voter_directory: str | None = None
    """directory id of this node in the voter set; None with static voters"""
    source: str | None = None
    """the metadata log's directory that this was read from; None if there was none"""
    roots: tuple[str, ...] = field(default=(), compare=False)
    """log directories of the broker that were examined"""
    lost: tuple[str, ...] = field(default=(), compare=False)
    """log directories of the broker that are missing or empty, if they were named"""
    controllers: tuple[str, ...] = field(default=(), compare=False)
    """log directories of other nodes of the cluster, given in addition: those with a metadata log, and all of a node of
    which none has one
    """
    apart: tuple[str, ...] = field(default=(), compare=False)
    """log directories that name another broker but may belong to this one"""
    problem: str | None = None
    """why nothing, or not everything, could be read, as one sentence; None if everything could"""

    @property
    def directories(self) -> tuple[str, ...]:
        """Log directories with which the broker starts: those that were examined, and the lost ones."""
        return (*self.roots, *self.lost)

    def settings(self, topic: str, given: Mapping[str, str]) -> LogSettings:
        """Return the settings of a topic's logs: each from the metadata if it has it, else from `given`, else Kafka's
        default. Raises `UsageError` for a value that Kafka would refuse.
        """
        remote = {REMOTE_STORAGE_ENABLE: "true"} if self.tiering.has_remote_log(topic) else {}
        return LogSettings.from_names({**given, **self.broker_configs, **self.configs.get(topic, {}), **remote})

    @property
    def configs_by_name(self) -> Mapping[str, Mapping[str, str]]:
        """Settings of each topic, sorted by its name."""
        return dict(sorted(self.configs.items()))

    def cleaner_config(self, topic: str, given: Mapping[str, str]) -> CleanerConfig:
        """Return the cleaner's settings of a topic: each from the metadata if it has it, else from `given`, else
        Kafka's default. What Kafka itself sets for its internal topics precedes `given` too. Raises `UsageError` for a
        value that Kafka would refuse.
        """
        own = {**INTERNAL_TOPIC_SETTINGS.get(topic, {}), **self.cleaner_configs.get(topic, {})}
        return CleanerConfig.from_names({**known_settings(given), **self.cleaner_broker_configs, **own})

    def is_compacted(self, topic: str) -> bool:
        """Whether a topic is known to be compacted, which includes Kafka's own compacted topics."""
        return topic in COMPACTED_BY_KAFKA or topic in self.compacted

    def is_never_compacted(self, topic: str, partition: int) -> bool:
        """Whether the metadata is known, has this partition, and does not say that its topic is compacted."""
        is_known = self.source is not None and self.problem is None and (topic, partition) in self.replicas
        return is_known and not self.is_compacted(topic)

    def partitions_of(self, topic: str) -> int:
        """Number of a topic's partitions in the metadata; 0 if unknown."""
        return sum(name == topic for name, _partition in self.replicas)

    def strays(self, directories: Iterable[str]) -> list[str]:
        """Return the names in `directories` of live partitions that the metadata does not place on this broker, sorted:
        a start would rename them to `-stray`. Other names and the metadata log are ignored. Empty if the metadata is
        unknown or damaged, or the node id is unknown.
        """
        if self.source is None or self.problem is not None or self.node_id is None:
            return []
        strays = []
        for directory in directories:
            name = parse_partition_directory(directory)
            if name is None or name.state is not DirectoryState.LIVE or name.topic == CLUSTER_METADATA_TOPIC:
                continue
            if self.node_id not in self.replicas.get((name.topic, name.partition), ()):
                strays.append(directory)
        return sorted(strays)

    def placed_in(self, root: str) -> frozenset[tuple[str, int]]:
        """Return (topic, partition) of the replicas that a start creates in the log directory `root` if no log
        directory has them. These are the replicas assigned to its directory id. In the first of `roots` they are also
        the unassigned replicas, if the broker is registered and all its registered log directories are among `roots`.
        """
        own = directory_id_of(root)
        assigned = {key for key, directory_id in self.assigned.items() if own is not None and directory_id == own}
        if self.broker_epoch is None or not self.roots or os.path.abspath(root) != os.path.abspath(self.roots[0]):
            return frozenset(assigned)
        has_all = self.registered <= {directory_id_of(other) for other in self.roots}
        return frozenset(assigned | self.unassigned if has_all else assigned)

    def directory_not_given(self, name: PartitionName) -> str | None:
        """Return the id of the log directory in which this broker has its replica of a partition, if the metadata names
        it, the broker has registered it, and it is not the id of one of `roots`; else None. None also if a log
        directory is lost, because it may be that one.
        """
        assigned = self.assigned.get((name.topic, name.partition))
        is_away = assigned in self.registered and assigned not in map(directory_id_of, self.roots)
        return assigned if is_away and self.problem is None and not self.lost else None

    def live_partitions(self) -> frozenset[tuple[str, int]]:
        """Return (topic, partition) of each live partition directory in `roots`, by name alone: not a `-future`,
        `-delete` or `-stray` one. Log directories that cannot be listed are skipped.
        """
        partitions: set[tuple[str, int]] = set()
        for root in self.roots:
            try:
                names = os.listdir(root)
            except OSError:
                continue
            parsed = (parse_partition_directory(name) for name in names)
            partitions.update(
                (name.topic, name.partition)
                for name in parsed
                if name is not None and name.state is DirectoryState.LIVE
            )
        return frozenset(partitions)


NO_FACTS = TopicFacts()


def read_topic_facts(roots: Iterable[str]) -> TopicFacts:
    """Return the facts about topics from the first of a broker's log directories that has a metadata log. If none has
    one, only the facts about remote storage are filled, which come from all directories. If the log is damaged or
    cannot be read, `problem` describes that, and no exception is raised.
    """
    roots = list(roots)
    for root in roots:
        path = os.path.join(root, CLUSTER_METADATA_DIRECTORY)
        if not os.path.isdir(path):
            continue
        try:
            return _read(root, path, roots)
        except KafkaLogError as error:
            problem = f"the topics' settings in {path} cannot be read ({error}): only the given settings apply"
            return TopicFacts(source=path, problem=problem, tiering=read_tiering(roots, None), roots=tuple(roots))
    tiering = read_tiering(roots, None)
    return TopicFacts(tiering=tiering, roots=tuple(roots))


def _read(root: str, path: str, roots: Sequence[str]) -> TopicFacts:
    from kafkalog.cluster.kraft.metadata_image import MIGRATING, UNASSIGNED
    from kafkalog.cluster.kraft.metadata_log import MetadataLog
    from kafkalog.cluster.rules.configuration import dynamic_of_broker
    from kafkalog.log.directories.partition import open_partition

    state = MetadataLog(open_partition(path)).state()
    image = state.image
    node_ids = (node_id_of(place) for place in dict.fromkeys([root, *roots]))  # its own file may be damaged
    node_id = next((number for number in node_ids if number is not None), None)
    voters = {voter["voter_id"]: voter["voter_directory_id"] for voter in state.voters}
    registered = None if node_id is None else image.brokers.get(node_id)
    broker = dynamic_of_broker(image.configs, node_id)
    configs = {name: image.configs.get(f"topic:{name}", {}) for name in image.topics}
    problem = _problem(path, state)
    placed = {
        (name, number): dict(zip(partition.replicas, partition.directories, strict=False)).get(node_id, MIGRATING)
        for name, topic in image.topics.items()
        for number, partition in topic.partitions.items()
        if node_id is not None and node_id in partition.replicas
    }
    return TopicFacts(
        configs={name: known for name, values in configs.items() if (known := LogSettings.known_to_topics(values))},
        broker_configs=LogSettings.known_to_topics(broker),
        cleaner_configs={name: known_settings(values) for name, values in configs.items()},
        cleaner_broker_configs=known_settings(broker),
        topic_ids={name: topic.id for name, topic in image.topics.items()},
        replicas={
            (name, number): tuple(partition.replicas)
            for name, topic in image.topics.items()
            for number, partition in topic.partitions.items()
        },
        in_sync={
            (name, number): tuple(partition.isr)
            for name, topic in image.topics.items()
            for number, partition in topic.partitions.items()
        },
        leader_epochs={
            (name, number): partition.leader_epoch
            for name, topic in image.topics.items()
            for number, partition in topic.partitions.items()
            if problem is None
        },
        assigned={key: directory for key, directory in placed.items() if directory not in (MIGRATING, UNASSIGNED)},
        unassigned=frozenset(key for key, directory in placed.items() if directory in (MIGRATING, UNASSIGNED)),
        compacted=frozenset(
            name for name, values in configs.items() if COMPACT in (values.get("cleanup.policy") or "")
        ),
        tiering=read_tiering(roots, configs),
        node_id=node_id,
        broker_epoch=None if registered is None else registered.epoch,
        registered=frozenset(() if registered is None else registered.directories),
        registered_by_others={
            number: frozenset(broker.directories) for number, broker in image.brokers.items()
            if number != node_id and broker.directories
        },
        voter_directory=None if node_id is None else voters.get(node_id),
        source=path,
        roots=tuple(roots),
        problem=problem,
    )


def _problem(path: str, state: MetadataState) -> str | None:
    """Return a sentence about damage of the metadata log at `path`, or that it has no record; None otherwise. A torn
    tail does not count: a crash leaves one, and its records were not committed.
    """
    damage = state.damage
    if damage is not None:
        return f"the metadata log is damaged, so settings of topics may be missing: {damage}; {OTHER_COPIES}"
    if not state.next_offset:
        return f"the metadata log {path} has no record that can be read: only the given settings apply"
    return None


def node_id_of(root: str) -> int | None:
    """Return the broker id in the directory's `meta.properties`, also if no broker accepts the file; None if it has
    none.
    """
    meta = meta_properties_of(root)
    if meta is None or meta.node_id is None:
        meta = incomplete_meta_properties_of(root)
    return None if meta is None else meta.node_id


def identity_of(root: str) -> tuple[str | None, int] | None:
    """Cluster id and broker id in the directory's `meta.properties`; None if it has no broker id."""
    meta = meta_properties_of(root)
    return None if meta is None or meta.node_id is None else (meta.cluster_id, meta.node_id)


def directory_id_of(root: str) -> str | None:
    """Directory id in the directory's `meta.properties`; None if it cannot be read or has none."""
    meta = meta_properties_of(root)
    return None if meta is None else meta.directory_id
