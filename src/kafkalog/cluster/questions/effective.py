"""Effective settings of topics and brokers, each with its source."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import chain

from msgspec import Struct

from kafkalog.cluster.cross_check import known_from_zookeeper
from kafkalog.cluster.kraft.metadata_log import MetadataState
from kafkalog.cluster.questions.metadata import state_at
from kafkalog.cluster.questions.moment import NOW, Moment, zookeeper_transaction
from kafkalog.cluster.questions.opening import metadata_log, one_chroot, zookeeper_at
from kafkalog.cluster.rules.config_defaults import default_settings
from kafkalog.cluster.rules.configuration import Setting, effective_of_broker, effective_of_topic
from kafkalog.cluster.zookeeper import ZooKeeperDirectory, tree_at
from kafkalog.cluster.zookeeper.cluster_id import bad_cluster_ids
from kafkalog.cluster.zookeeper.configs import zookeeper_configs
from kafkalog.cluster.zookeeper.kafka_nodes import chroots
from kafkalog.cluster.zookeeper.tree import Tree
from kafkalog.codec.common.advice import Ask, Sentence
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.findings import Finding
from kafkalog.codec.common.unknown import unknown_number
from kafkalog.log.directories.selection import ALL, Selection
from kafkalog.log.disk.files import PathLike

__all__ = ["EffectiveSetting", "EffectiveSettings", "effective_settings"]

_NO_PARTITION = -1
"""Settings are a topic's: a partition of it is not among what can be chosen or left out."""


class EffectiveSetting(Struct, frozen=True):
    """A setting of a resource."""

    resource: str
    """`topic:NAME` or `broker:ID`"""
    setting: Setting


class EffectiveSettings(Struct, frozen=True):
    """Settings of the chosen topics, then of the brokers, secrets included."""

    settings: tuple[EffectiveSetting, ...]
    findings: tuple[Finding, ...]


class _Configured(Struct, frozen=True, kw_only=True):
    """The resources of a cluster and their settings."""

    resources: Mapping[str, Mapping[str, str]]
    topics: tuple[str, ...]
    brokers: tuple[int, ...]
    others: frozenset[int] = frozenset()
    """nodes that are not registered and yet known: controllers, and replicas of brokers that are away"""
    levels: Mapping[int, int] = {}
    """registered broker -> the highest metadata.version that it supports, which tells its release"""

    def defaults(self, kind: str, broker: int | None) -> dict[str, str]:
        """Return Kafka's default settings for `topic` or `broker`: of this broker's release, or with None the ones that
        all brokers have in common. Empty if the releases are unknown.
        """
        levels = self.levels.values() if broker is None else [self.levels[broker]] if broker in self.levels else []
        return default_settings(kind, levels)


def effective_settings(
    *paths: PathLike,
    as_of: Moment = NOW,
    select: Selection = ALL,
    broker: int | None = None,
    started_with: Mapping[str, str] | None = None,
    defaults: bool = True,
    chroot: str | None = None,
    replica: PathLike | None = None,
) -> EffectiveSettings:
    """Return the settings in effect, from a KRaft metadata log or a ZooKeeper directory, each with its source. First
    come the settings of topics, sorted by topic and name, then those of brokers, sorted by id and name. Reads only.

    Raises `UsageError` if the paths hold no such log or directory, or several. It is raised too if the data do not go
    back to `as_of`, or end before the offset or transaction of `as_of`. It is also raised if an option does not apply
    to the data, or if everything selected is excluded. Raises `UnknownName` for a topic, broker or cluster that does
    not exist, `StorageError` for I/O errors.

    * `paths`: log directories, or ZooKeeper's dataDir and dataLogDir
    * `as_of`: a past moment
    * `select`: only settings of these topics, and none of brokers
    * `broker`: only settings of this broker; with `select`, the topics' settings as they apply on this broker; None:
      all
    * `started_with`: settings of the broker's server.properties
    * `defaults`: False: leave out settings that have only Kafka's default value
    * `chroot`: ZooKeeper node of the cluster, if several are below one ZooKeeper
    * `replica`: which directory counts if the metadata log is in several: `"longest"`, or its path, which must exist
    """
    findings: list[Finding] = []
    directory = zookeeper_at(*paths)
    if directory is not None and replica is not None:
        raise UsageError(Sentence(Ask.REPLICA, " chooses among log directories, and this is ZooKeeper's directory"))
    if directory is None and chroot is not None:
        about = Sentence(Ask.CHROOT, " is a ZooKeeper node, and this is not ", Ask.EFFECTIVE)
        raise UsageError(Sentence(about, " of a directory of its logs"))
    if directory is not None:
        configured = _of_zookeeper(directory, as_of, chroot, findings)
    else:
        configured = _of_image(state_at(metadata_log(paths, replica, findings), as_of, findings))
    effective_settings = _settings(configured, started_with or {}, select, broker, defaults=defaults)
    return EffectiveSettings(tuple(effective_settings), tuple(findings))


def _settings(
    configured: _Configured, static: Mapping[str, str], select: Selection, broker: int | None, *, defaults: bool
) -> Iterator[EffectiveSetting]:
    select.check((name, _NO_PARTITION) for name in configured.topics)
    topics = [name for name in configured.topics if select.takes_topic(name)]
    if broker is not None and broker not in {*configured.brokers, *configured.others}:
        raise unknown_number("broker", broker, {*configured.brokers, *configured.others})
    of_topics = configured.defaults("topic", broker) if defaults else None
    for name in topics if select != ALL or broker is None else ():
        for setting in effective_of_topic(
            configured.resources, name, broker=broker, static=static, defaults=of_topics
        ).values():
            yield EffectiveSetting(f"topic:{name}", setting)
    if select != ALL:
        return
    for number in configured.brokers if broker is None else [broker]:
        own = configured.defaults("broker", number) if defaults else None
        for setting in effective_of_broker(configured.resources, number, static, own).values():
            yield EffectiveSetting(f"broker:{number}", setting)


def _of_zookeeper(
    directory: ZooKeeperDirectory, as_of: Moment, chroot: str | None, findings: list[Finding]
) -> _Configured:
    replay = tree_at(directory, zookeeper_transaction(directory, as_of))
    findings += replay.findings
    place = one_chroot(chroots(replay.tree.nodes), chroot, Ask.EFFECTIVE)
    findings += bad_cluster_ids(replay.tree, place, directory.paths[0])
    resources = zookeeper_configs(replay.tree, place)
    topics = _children(replay.tree, f"{place}/brokers/topics")
    brokers = {int(each) for each in _children(replay.tree, f"{place}/brokers/ids") if _is_number(each)}
    brokers.update(_brokers_with_settings(resources))
    known = known_from_zookeeper(replay.tree, place).values()
    replicas = frozenset(number for topic in known for each in topic.partitions.values() for number in each.replicas)
    return _Configured(
        resources=resources, topics=tuple(sorted(topics)), brokers=tuple(sorted(brokers)), others=replicas
    )


def _children(tree: Tree, path: str) -> Collection[str]:
    node = tree.nodes.get(path)
    return node.children if node is not None else ()


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) < 11


def _brokers_with_settings(resources: Mapping[str, Mapping[str, str]]) -> set[int]:
    named = (resource.partition(":")[2] for resource in resources if resource.startswith("broker:"))
    return {int(each) for each in named if _is_number(each)}


def _of_image(state: MetadataState) -> _Configured:
    image = state.image
    replicas = (partition.replicas for topic in image.topics.values() for partition in topic.partitions.values())
    others = {*image.controllers, *chain.from_iterable(replicas), *_brokers_with_settings(image.configs)}
    levels = {number: high for number, broker_image in image.brokers.items()
              for name, _, high in broker_image.features if name == "metadata.version"}  # fmt: skip
    topics, brokers = tuple(sorted(image.topics)), tuple(sorted(image.brokers))
    return _Configured(resources=image.configs, topics=topics, brokers=brokers, others=frozenset(others), levels=levels)
