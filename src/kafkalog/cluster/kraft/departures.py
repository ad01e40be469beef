"""Changes of a KRaft cluster's partitions when brokers leave one after another
(`ReplicationControlManager.handleBrokerFenced`).

A broker is live if it is registered and neither fenced nor in a controlled shutdown (`ClusterControlManager.isActive`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.cluster.kraft.election import ElectionRules, without_replica
from kafkalog.cluster.kraft.metadata_image import (
    MIGRATING,
    UNASSIGNED,
    BrokerImage,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from kafkalog.cluster.rules.configuration import effective_of_topic
from kafkalog.cluster.rules.departures import MIN_ISR, UNCLEAN, Departure, departure_result, refuse_unregistered
from kafkalog.codec.names import parse_java_long

__all__ = ["TopicRules", "directory_is_online", "election_rules", "kraft_departures", "topic_rules"]

_LOST = "A" * 21 + "g"
_RECOVERY_SINCE = 3
"""`metadata.version` of 3.2-IV0: unclean leaders are marked as recovering"""
_NO_EPOCH_ON_SHRINK_SINCE = 12
"""`metadata.version` of 3.6-IV0: a smaller ISR alone gives no new leader epoch"""
_ELR_FEATURE = "eligible.leader.replicas.version"


def directory_is_online(broker: BrokerImage, directory: str) -> bool:
    """Whether a log directory of a broker is online (`DirectoryId.isOnline`). `directory` is a directory id. True for
    the reserved ids of a migrating and an unassigned directory. Otherwise False for the reserved id of a lost one, and
    True if the broker has registered this directory or none.
    """
    if directory in (MIGRATING, UNASSIGNED):
        return True
    return directory != _LOST and (not broker.directories or directory in broker.directories)


def _acceptable(brokers: Mapping[int, BrokerImage], partition: PartitionImage) -> frozenset[int]:
    """Return the ids of the brokers that may lead a partition: registered, not fenced, not shutting down, with the
    replica's directory online. Candidates are the leader, the replicas and the last known leader.
    """
    place = dict(zip(partition.replicas, partition.directories, strict=False))
    acceptable = set()
    for candidate in {partition.leader, *partition.replicas, *partition.last_known_elr}:
        broker = brokers.get(candidate)
        if broker is None or broker.fenced or broker.in_controlled_shutdown:
            continue
        if directory_is_online(broker, place.get(candidate, MIGRATING)):
            acceptable.add(candidate)
    return frozenset(acceptable)


class TopicRules(Struct, frozen=True):
    """Settings of a topic that affect its elections."""

    unclean: bool
    """`unclean.leader.election.enable`"""
    min_isr: int
    """`min.insync.replicas`, at most the replication factor"""


def topic_rules(
    image: MetadataImage, topic: TopicImage, controller: int | None, static: Mapping[str, str], *, unclean: bool = False
) -> TopicRules:
    """Determine the election settings of a topic: whether unclean elections are allowed, and the minimum ISR size.
    `controller` is the id of the active controller, and `static` are the settings in its properties file. If
    `controller` is None, settings of single brokers are ignored.

    `unclean` allows unclean elections in any case. The minimum ISR size is 1 if it is not set or not a number. It is
    never larger than the replication factor of partition 0, which counts as 1 if there is no partition 0.
    """
    settings = effective_of_topic(image.configs, topic.name, broker=controller, static=static)
    allowed = unclean or (UNCLEAN in settings and settings[UNCLEAN].value.lower() == "true")
    least = parse_java_long(settings[MIN_ISR].value, 32) if MIN_ISR in settings else None
    first = topic.partitions.get(0)
    factor = len(first.replicas) if first is not None else 1
    return TopicRules(allowed, min(1 if least is None else least, factor))


def election_rules(image: MetadataImage, topic: TopicRules, acceptable: frozenset[int]) -> ElectionRules:
    """Combine topic rules with the cluster's features (`metadata.version`, ELR) into the rules of an election.

    `acceptable` are the brokers that may lead.
    """
    level = image.features.get("metadata.version", 1)
    return ElectionRules(
        acceptable=acceptable,
        unclean=topic.unclean,
        elr=image.features.get(_ELR_FEATURE, 0) > 0,
        min_isr=topic.min_isr,
        epoch_on_shrink=level < _NO_EPOCH_ON_SHRINK_SINCE,
        marks_recovery=level >= _RECOVERY_SINCE,
    )


def kraft_departures(
    image: MetadataImage,
    brokers: Sequence[int],
    *,
    unclean: bool = False,
    controller: int | None = None,
    static: Mapping[str, str] | None = None,
) -> Iterator[Departure[PartitionImage]]:
    """Yield the changes that a controller makes if `brokers` leave one after another: one for each partition that has
    the leaving broker in its ISR.

    Changes are in the order of `brokers`, then of topic and partition. `unclean` allows unclean elections for all
    topics; settings of topics and of the cluster may allow them too. `controller` is the node id of the active
    controller (None: unknown), whose own settings override the cluster's, and `static` are the settings in its
    properties file. The image is not changed. Raises, while iterating, `UnknownName` for a broker that is not
    registered and `UsageError` for one that is listed twice.
    """
    refuse_unregistered(brokers, image.brokers)
    alive = dict(image.brokers)
    decided = {
        name: topic_rules(image, topic, controller, static or {}, unclean=unclean)
        for name, topic in image.topics.items()
    }
    states = {(name, number): each for name, topic in image.topics.items() for number, each in topic.partitions.items()}
    for broker in brokers:
        alive[broker] = replace(alive[broker], fenced=True)
        for (name, number), before in sorted(states.items()):
            if broker not in before.isr:
                continue
            topic = decided[name]
            rules = election_rules(image, topic, _acceptable(alive, before))
            after, lossy = without_replica(before, broker, rules)
            states[name, number] = after
            outcome = departure_result(before.leader, after.leader, unclean=lossy)
            yield Departure(
                broker=broker,
                topic=name,
                partition=number,
                before=before,
                after=after,
                outcome=outcome,
                unclean_allowed=topic.unclean,
            )
