"""Changes of a ZooKeeper cluster's partitions when brokers leave one after another (`KafkaController.onBrokerFailure`).

Live brokers are the nodes in `/brokers/ids`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kafkalog.cluster.rules.configuration import effective_of_topic
from kafkalog.cluster.rules.departures import UNCLEAN, Departure, departure_result, refuse_unregistered
from kafkalog.cluster.zookeeper.configs import zookeeper_configs
from kafkalog.cluster.zookeeper.election import without_broker
from kafkalog.cluster.zookeeper.kafka_nodes import PartitionState, controller_id, partition_state, replicas_of
from kafkalog.cluster.zookeeper.tree import Tree

__all__ = ["partition_states", "unclean_allowed", "zookeeper_departures"]

Known = dict[tuple[str, int], tuple[tuple[int, ...], PartitionState]]


def _unclean_by_default(tree: Tree, chroot: str) -> bool:
    """Whether unclean elections are allowed by default, that is, before 0.11. `/latest_producer_id_block` exists since
    then.
    """
    return f"{chroot}/latest_producer_id_block" not in tree.nodes


def _live(tree: Tree, chroot: str) -> set[int]:
    node = tree.nodes.get(f"{chroot}/brokers/ids")
    return {int(each) for each in (node.children if node is not None else ()) if each.isdecimal() and len(each) < 11}


def partition_states(tree: Tree, chroot: str) -> Known:
    """Return replicas and state of every partition of the cluster at `chroot`, by (topic, partition); partitions
    without a readable state are omitted.
    """
    states: Known = {}
    base = f"{chroot}/brokers/topics"
    topics = tree.nodes.get(base)
    for topic in topics.children if topics is not None else ():
        for number, replicas in replicas_of(tree.nodes[f"{base}/{topic}"].data).items():
            node = tree.nodes.get(f"{base}/{topic}/partitions/{number}/state")
            state = partition_state(node.data) if node is not None else None
            if state is not None:
                states[topic, number] = replicas, state
    return states


def _controller(tree: Tree, chroot: str) -> int | None:
    node = tree.nodes.get(f"{chroot}/controller")
    return controller_id(node.data) if node is not None else None


def unclean_allowed(
    tree: Tree, chroot: str, topics: set[str], controller: int | None, static: Mapping[str, str]
) -> dict[str, bool]:
    """Return whether unclean elections are allowed, by topic, for each of `topics`. The topic's setting counts; without
    one, the controller's setting counts, and without that, the default of the cluster's release. `controller` is the
    controller's broker id, or None if it is unknown. `static` are the settings in its properties file.
    """
    resources = zookeeper_configs(tree, chroot)
    by_default = _unclean_by_default(tree, chroot)
    allowed = {}
    for topic in topics:
        setting = effective_of_topic(resources, topic, broker=controller, static=static).get(UNCLEAN)
        allowed[topic] = by_default if setting is None else setting.value.strip().lower() == "true"
    return allowed


def zookeeper_departures(
    tree: Tree,
    chroot: str,
    brokers: Sequence[int],
    *,
    unclean: bool = False,
    static: Mapping[str, str] | None = None,
) -> Iterator[Departure[PartitionState]]:
    """Yield the changes that the controller makes if `brokers` leave one after another: one for each partition that has
    the leaving broker as its leader or in its ISR.

    Changes are in the order of `brokers`, then of topic and partition. `unclean` allows unclean elections for all
    topics; otherwise settings decide, including `static`, the settings in the controller's properties file. The tree is
    not changed. Partitions without a readable state are skipped. Raises, while iterating, `UnknownName` for a broker
    that is not live, `UsageError` for one that is listed twice.
    """
    live = _live(tree, chroot)
    refuse_unregistered(brokers, live)
    known = partition_states(tree, chroot)
    controller = _controller(tree, chroot)
    keeps_last = f"{chroot}/log_dir_event_notification" in tree.nodes  # one of 1.0 or later
    allowed = unclean_allowed(tree, chroot, {topic for topic, _ in known}, controller, static or {})
    for broker in brokers:
        live.discard(broker)
        for (topic, number), (replicas, before) in sorted(known.items()):
            if broker != before.leader and broker not in before.isr:
                continue
            may = unclean or allowed[topic]
            keeps = keeps_last or broker == controller  # a new controller of those releases leaves the ISRs alone
            after, lossy = without_broker(before, replicas, broker, live, unclean=may, keeps_last=keeps)
            known[topic, number] = replicas, after
            outcome = departure_result(before.leader, after.leader, unclean=lossy)
            yield Departure(
                broker=broker,
                topic=topic,
                partition=number,
                before=before,
                after=after,
                outcome=outcome,
                unclean_allowed=may,
                chroot=chroot,
            )
