"""Consumer groups that store their state in ZooKeeper (2.x and older): members, owners, committed offsets, and the
assignment that an assignor computes.

Follows `ZookeeperConsumerConnector` and `kafka.consumer.PartitionAssignor`. A group is a node below `/consumers`; it is
active while consumers are registered there. The assignor of a group is not stored. It is the first one whose result
equals the stored owners: range, round robin as up to 0.11, or round robin as in 1.0 and 1.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from kafkalog.cluster.assignors.assignors import TopicPartition
from kafkalog.cluster.assignors.old_assignors import OldConsumer, Owners, old_range, old_round_robin
from kafkalog.cluster.zookeeper.kafka_nodes import consumer_chroots, replicas_of
from kafkalog.cluster.zookeeper.registered_consumers import (
    RegisteredConsumer,
    is_client_id,
    registered_consumer,
    streams_by_topic,
)
from kafkalog.cluster.zookeeper.tree import Node, Tree
from kafkalog.codec.common.errors import FormatError, UsageError

__all__ = ["OldGroup", "OldOffset", "consumer_of_thread", "old_groups"]

RANGE, ROUND_ROBIN, ROUND_ROBIN_OF_1_0 = "range", "roundrobin", "roundrobin (1.0)"
_LONGEST_OFFSET = 20
_LARGEST_OFFSET = (1 << 63) - 1


class OldOffset(Struct, frozen=True, kw_only=True):
    """One committed offset: `/consumers/G/offsets/T/P`."""

    topic: str
    partition: int
    offset: int
    zxid: int
    """transaction that wrote the offset"""
    timestamp: int
    """time of that transaction by the clock of ZooKeeper's leader, ms"""


class OldGroup(Struct, frozen=True, kw_only=True):
    """Consumer group that is stored in ZooKeeper, below one chroot."""

    group: str
    chroot: str
    consumers: tuple[RegisteredConsumer, ...]
    streams: tuple[OldConsumer, ...]
    """topics and streams of each registered consumer, patterns resolved"""
    partitions: Mapping[str, tuple[int, ...]]
    """partition numbers of the consumed topics"""
    owners: Mapping[TopicPartition, str]
    """threads that own partitions"""
    offsets: tuple[OldOffset, ...]
    problems: tuple[str, ...] = field(default=())
    """registrations, owners and offsets that cannot be read"""
    resolved: bool = True
    """whether the topics of every consumer are known"""

    def assigned(self, assignor: str, consumers: Iterable[OldConsumer] | None = None) -> Owners | None:
        """Compute which threads own the group's partitions, and return the thread by (topic, partition). The assignor
        is range if `assignor` is `range`, round robin of Kafka 1.0 if it is `roundrobin (1.0)`, and older round robin
        for any other name. `consumers` replace the group's own consumers; None uses those of the group.

        Return None if the topics of any consumer of the group are unknown (not `resolved`), or if there are more than a
        million threads. Up to 0.9, Kafka refused round robin for some groups; this is not checked (see `conditions`).
        """
        if not self.resolved:
            return None
        chosen = tuple(self.streams if consumers is None else consumers)
        try:
            if assignor == RANGE:
                return old_range(self.partitions, chosen)
            brackets = assignor != ROUND_ROBIN_OF_1_0
            return old_round_robin(self.partitions, chosen, same_topics=False, brackets=brackets)
        except FormatError:
            return None

    @property
    def assignor(self) -> str:
        """Assignor whose result equals the stored owners; empty if there is none or no partition has an owner."""
        for name in (RANGE, ROUND_ROBIN, ROUND_ROBIN_OF_1_0) if self.owners else ():
            if self.assigned(name) == dict(self.owners):
                return name
        return ""

    def without(self, consumer: str) -> Owners | None:
        """Return the owners after a consumer leaves, computed by range if the group's assignor is unknown; None as for
        `assigned`.
        """
        return self.assigned(self.assignor or RANGE, [each for each in self.streams if each.consumer_id != consumer])

    def joined_by(self, consumer: str) -> Owners | None:
        """Return the owners after `consumer` joins. It subscribes to all topics of the members, and has for each topic
        as many streams as the member with the most. A registered consumer with this id is replaced. The owners are
        computed by the group's assignor, or by range if that is unknown. Return None if the topics of some consumer are
        unknown, or if the group has too many threads.
        """
        streams: dict[str, int] = {}
        for stream in self.streams:
            for topic, count in stream.streams.items():
                streams[topic] = max(count, streams.get(topic, 0))
        others = [each for each in self.streams if each.consumer_id != consumer]
        return self.assigned(self.assignor or RANGE, [*others, OldConsumer(consumer, streams)])

    def conditions(self) -> str | None:
        """Return a sentence that says why Kafka up to 0.9 refuses round robin for the group, or why this cannot be
        checked (too many threads). Return None if Kafka accepts it. Kafka requires that all consumers have the same
        topics, and that a consumer has the same number of streams for all topics. Consumers whose topics are unknown
        are left out.
        """
        try:
            old_round_robin({}, self.streams)
        except (UsageError, FormatError) as error:
            return str(error)
        return None

    def violations(self) -> list[str]:
        """Return a sentence for each partition whose owner is not registered, then one for each partition whose owner
        does not subscribe to its topic; each kind is sorted by partition. No assignor chooses such owners. Return an
        empty list if the topics of some consumer are unknown.
        """
        known = {stream.consumer_id: stream.streams for stream in self.streams}
        sentences = self.unregistered_owners()
        for (topic, number), thread in sorted(self.owners.items()):
            consumer = consumer_of_thread(thread)
            if consumer in known and self.resolved and topic not in known[consumer]:
                sentences.append(f"{topic}-{number} is owned by {thread}, which does not subscribe to its topic")
        return sentences

    def unregistered_owners(self) -> list[str]:
        """Return a sentence for each partition whose owner is not a registered consumer, sorted by partition.

        Empty if the topics of some consumer are unknown.
        """
        if not self.resolved:
            return []
        known = {stream.consumer_id for stream in self.streams} | {consumer.consumer_id for consumer in self.consumers}
        return [
            f"{topic}-{number} is owned by {thread}, which is not registered"
            for (topic, number), thread in sorted(self.owners.items())
            if consumer_of_thread(thread) not in known
        ]


def consumer_of_thread(thread: str) -> str:
    """Return the consumer id in a thread id `<consumer>-<n>`. A client id `<host>:<UUID>` is returned unchanged,
    because these clients own partitions without a thread number.
    """
    return thread if is_client_id(thread) else thread.rpartition("-")[0]


def _children(tree: Tree, path: str) -> list[tuple[str, Node]]:
    node = tree.nodes.get(path)
    names = sorted(node.children) if node is not None else ()
    nodes = ((name, tree.nodes.get(f"{path}/{name}")) for name in names)
    return [(name, child) for name, child in nodes if child is not None]


def _by_partition(tree: Tree, path: str, problems: list[str]) -> list[tuple[str, int, Node]]:
    numbered = []
    for topic, _ in _children(tree, path):
        for number, node in _children(tree, f"{path}/{topic}"):
            if number.isascii() and number.isdigit() and len(number) < 11:
                numbered.append((topic, int(number), node))
            else:
                problems.append(f"{path}/{topic}/{number} is not a partition")
    return sorted(numbered, key=lambda each: each[:2])


def _text(node: Node) -> str:
    return (node.data or b"").decode("utf-8", "replace")


def _offsets(tree: Tree, base: str, problems: list[str]) -> list[OldOffset]:
    old_offsets = []
    for topic, number, node in _by_partition(tree, f"{base}/offsets", problems):
        text = _text(node)
        digits = text.removeprefix("-")
        if digits.isascii() and digits.isdigit() and len(digits) < _LONGEST_OFFSET and int(digits) <= _LARGEST_OFFSET:
            old_offsets.append(
                OldOffset(topic=topic, partition=number, offset=int(text), zxid=node.mzxid, timestamp=node.mtime)
            )
        else:
            problems.append(f"{base}/offsets/{topic}/{number} holds no offset: {text[:60]!r}")
    return old_offsets


def _group(tree: Tree, chroot: str, group: str, topics: list[str]) -> OldGroup | None:
    base = f"{chroot}/consumers/{group}"
    problems: list[str] = []
    consumers, streams = [], []
    resolved = True
    for name, node in _children(tree, f"{base}/ids"):
        try:
            consumer = registered_consumer(name, node.data)
            consumers.append(consumer)
            streams.append(OldConsumer(name, streams_by_topic(consumer, topics)))
        except FormatError as error:
            problems.append(f"{base}/ids/{name}: {error.message}")
            resolved = False
    owners = {(topic, number): _text(node) for topic, number, node in _by_partition(tree, f"{base}/owners", problems)}
    offsets = _offsets(tree, base, problems)
    consumed = sorted({topic for stream in streams for topic in stream.streams})
    nodes = {topic: tree.nodes.get(f"{chroot}/brokers/topics/{topic}") for topic in consumed}
    partitions = {
        topic: tuple(sorted(replicas_of(node.data))) if node is not None else () for topic, node in nodes.items()
    }
    if not (consumers or owners or offsets or problems):
        return None
    return OldGroup(
        group=group,
        chroot=chroot,
        consumers=tuple(consumers),
        streams=tuple(streams),
        partitions=partitions,
        owners=owners,
        offsets=tuple(offsets),
        problems=tuple(problems),
        resolved=resolved,
    )


def old_groups(tree: Tree) -> list[OldGroup]:
    """Return all groups with registered consumers, owners, offsets or unreadable nodes of these kinds, sorted by chroot
    and name.
    """
    old_groups = []
    for chroot in consumer_chroots(tree):
        topics = [name for name, _ in _children(tree, f"{chroot}/brokers/topics")]
        old_groups += [_group(tree, chroot, name, topics) for name, _ in _children(tree, f"{chroot}/consumers")]
    return [old_group for old_group in old_groups if old_group is not None]
