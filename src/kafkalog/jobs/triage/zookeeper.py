"""Predict elections from the partition states that a controller in ZooKeeper mode will read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kafkalog.cluster.transactions.producer_ids import next_block_of_zookeeper
from kafkalog.cluster.zookeeper import Replay, Tree, ZooKeeperDirectory, open_zookeeper, tree_at
from kafkalog.cluster.zookeeper.cluster_id import bad_cluster_ids, cluster_id
from kafkalog.cluster.zookeeper.departures import Known, partition_states, unclean_allowed
from kafkalog.cluster.zookeeper.kafka_nodes import TopicNode, chroots, topic_nodes
from kafkalog.cluster.zookeeper.removal import removal_order
from kafkalog.cluster.zookeeper.starts import leaders_in_any_order, leaders_in_order
from kafkalog.codec.common.errors import RecoveryRefused, StorageError, UsageError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.wording import counted
from kafkalog.jobs.triage.logs import BrokerDisks, unread
from kafkalog.jobs.triage.memory import ELECTION_COMMAND, Key, KnownReplicas, Memory
from kafkalog.recovery.broker.node.older_copies import ZOOKEEPER_PAGE

__all__ = ["ZooKeeperMemory", "zookeeper_memory"]


_Server = tuple[ZooKeeperDirectory, Replay]
_BEFORE_2_4 = (
    ", or before Kafka 2.4, with ZooKeeper up and before the brokers start, by `kafka-configs.sh --zookeeper HOST:PORT "
    "--alter --entity-type topics --entity-name TOPIC --add-config unclean.leader.election.enable=true` (and "
    "--delete-config when it leads)"
)


@dataclass(slots=True)
class ZooKeeperMemory(Memory):
    """Metadata of a cluster in ZooKeeper's tree, from which leaders are predicted."""

    source: str
    states: Known
    unclean: Mapping[str, bool]
    registered: frozenset[int]
    order_is_known: bool
    """whether the order in which the controller removes brokers from ISRs is known: from 2.7 on, if built for Scala
    2.13
    """
    topics: Mapping[str, TopicNode] = field(default_factory=dict)
    first_step: str = (
        "Start ZooKeeper alone and wait for longer than zookeeper.session.timeout.ms, then start the brokers one after "
        "the other"
    )
    unclean_election: str = ELECTION_COMMAND
    page: str = ZOOKEEPER_PAGE
    next_producer_id: int | None = None
    _with_replicas: frozenset[int] = field(init=False)
    _up: frozenset[int] = frozenset()
    _removed: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.order_is_known:
            self.unclean_election += _BEFORE_2_4
        self._with_replicas = frozenset(replica for replicas, _ in self.states.values() for replica in replicas)

    @property
    def brokers(self) -> frozenset[int]:
        """Ids of brokers that are registered or have replicas."""
        return self.registered | self._with_replicas

    def partitions(self) -> dict[Key, KnownReplicas]:
        """Return the replicas, ISR, leader and leader epoch of every partition by (topic, partition number), in this
        order.
        """
        return {
            key: KnownReplicas(
                replicas=tuple(replicas),
                isr=tuple(state.isr),
                leader=state.leader,
                leader_epoch=state.leader_epoch,
            )
            for key, (replicas, state) in sorted(self.states.items())
        }

    def eligible(self, key: Key) -> frozenset[int]:
        """Ids of brokers that may lead without an unclean election, once they are up: those in the ISR. Raises
        `KeyError` for an unknown partition.
        """
        return frozenset(self.states[key][1].isr)

    def unknown(self, topic: str, partition: int, topic_id: str | None) -> str | None:
        """Return why ZooKeeper does not have the partition; None if it has it. Topics are compared by name, and also by
        id if both ids are known (Kafka 2.8 and later).
        """
        known = self.topics.get(topic)
        if known is None:
            return "ZooKeeper knows no such topic"
        if topic_id is not None and known.id is not None and known.id != topic_id:
            return f"ZooKeeper knows another topic of this name, with id {known.id}"
        return (
            None if partition in known.partitions else f"ZooKeeper knows {counted(len(known.partitions), 'partition')}"
        )

    def begin(self, disks: Mapping[int, BrokerDisks]) -> None:
        """Set the brokers that are about to be started. Must be called before `leaders`."""
        self._up = frozenset(node for node, broker_disks in disks.items() if broker_disks.is_up)

    def leaders(self, key: Key, order: tuple[int, ...] | None, *, cautious: bool = False) -> frozenset[int] | None:
        """Return the ids of all brokers that may lead after the start; `NO_LEADER` is among them if there may be none.
        Never None.

        `order` is the order in which brokers are started, None for any; brokers that do not start are skipped. With
        `cautious` the order in which a controller removes brokers from ISRs counts as unknown. Raises `KeyError` for an
        unknown partition.
        """
        replicas, state = self.states[key]
        unclean = self.unclean[key[0]]
        if order is None:
            return leaders_in_any_order(replicas, state.isr, sorted(self._up), unclean=unclean)
        started = [node for node in order if node in self._up]
        removed = self._removed_by(started[0]) if started and self.order_is_known and not cautious else None
        return leaders_in_order(replicas, state.isr, started, unclean=unclean, removed=removed)

    def _removed_by(self, controller: int) -> list[int]:
        if controller not in self._removed:
            self._removed[controller] = removal_order(self._with_replicas - {controller})
        return self._removed[controller]


def zookeeper_memory(
    paths: Sequence[str],
    static: Mapping[str, str],
    brokers: Collection[int],
    of_brokers: str | None,
    findings: list[Finding],
) -> ZooKeeperMemory:
    """Read the cluster's metadata from the data directories of ZooKeeper's servers. Return the metadata of the server
    with the newest transaction. `static` are the controller's settings. `brokers` are the ids of brokers whose
    directories are here, and `of_brokers` is the cluster id in these (None if unknown). Findings, also about servers
    that lag behind, are appended to `findings`.

    Raises `RecoveryRefused` if the directories are not of one Kafka cluster, or if ZooKeeper has no cluster, or
    several, that can be the brokers'. If no server can be read, the `StorageError` or `UsageError` of one of them is
    raised.
    """
    servers = _of_one_cluster(_read(paths, findings), of_brokers, findings)
    servers.sort(key=lambda server: server[1].zxid)
    directory, replay = servers[-1]
    source = " and ".join(directory.paths)
    findings += replay.findings
    if not directory.logs:
        detail = "it has snapshots and no transaction log: what came after them is not known; give dataLogDir too"
        findings.append(Finding.of(FindingCode.ZK_GAP, None, None, detail, source))
    findings += [_behind(other, behind, source, replay) for other, behind in servers[:-1] if behind.zxid < replay.zxid]
    chroot = _chroot(replay, source, of_brokers)
    findings += bad_cluster_ids(replay.tree, chroot, source)
    states = partition_states(replay.tree, chroot)
    unclean = unclean_allowed(replay.tree, chroot, {topic for topic, _ in states}, None, static)
    ids = replay.tree.nodes[f"{chroot}/brokers/ids"].children
    registered = frozenset({int(name) for name in ids if name.isdecimal() and len(name) < 11} | set(brokers))
    known = f"{chroot}/feature" in replay.tree.nodes
    return ZooKeeperMemory(
        f"{source} up to transaction 0x{replay.zxid:x}",
        states,
        unclean,
        registered,
        known,
        topics=topic_nodes(replay.tree, chroot),
        next_producer_id=next_block_of_zookeeper(replay.tree, chroot),
    )


def _of_one_cluster(servers: list[_Server], of_brokers: str | None, findings: list[Finding]) -> list[_Server]:
    """Return the servers of the cluster `of_brokers`, and the servers whose cluster is unknown; append a finding for
    each other server to `findings`. If every server is of another cluster, all are returned without findings.

    If `of_brokers` is None, all are returned. `RecoveryRefused` is raised then if there are several servers, and more
    than one cluster id in them; no id counts as an id too.
    """
    named = [(server, set(_clusters(server[1].tree).values())) for server in servers]
    if of_brokers is None:
        several = sorted({str(cluster) for _, ids in named for cluster in ids})
        if len(servers) > 1 and len(several) > 1:
            raise RecoveryRefused(
                f"ZooKeeper's directories are of several clusters ({', '.join(several)}), and no directory of a broker "
                "says which it is: give those of one"
            )
        return servers
    foreign = [server for server, ids in named if ids and not ids & {of_brokers, None}]
    if len(foreign) == len(servers):
        return servers
    for directory, _ in foreign:
        detail = f"it is of another cluster than the brokers' directories ({of_brokers}): left aside"
        place = " and ".join(directory.paths)
        findings.append(Finding.of(FindingCode.NOT_REPLICAS, None, None, detail, place))
    return [server for server in servers if server not in foreign]


def _read(paths: Sequence[str], findings: list[Finding]) -> list[_Server]:
    """Return (server, its newest tree) for each server; for a server that cannot be read a finding is appended to
    `findings`. Raises the first error (`StorageError` or `UsageError`) if none can be read.
    """
    servers = []
    failed: list[StorageError | UsageError] = []
    for server in _servers(paths, failed):
        try:
            servers.append((server, tree_at(server)))
        except StorageError as error:
            failed.append(error)
    if not servers:
        raise failed[0]
    findings += [
        unread(paths[0], error)
        if isinstance(error, StorageError)
        else Finding.of(FindingCode.UNREADABLE, None, None, str(error), None)
        for error in failed
    ]
    return servers


def _servers(paths: Sequence[str], failed: list[StorageError | UsageError]) -> list[ZooKeeperDirectory]:
    """Return an opened server for each path. If exactly one has only transaction logs (dataLogDir) and exactly one has
    only snapshots (dataDir), these two are opened together. This one server comes last. What cannot be opened is left
    out, and its error is appended to `failed`.
    """
    servers = []
    for path in paths:
        try:
            servers.append(open_zookeeper(path))
        except (StorageError, UsageError) as error:
            failed.append(error)
    logs = [server for server in servers if not server.snapshots]
    snapshots = [server for server in servers if not server.logs]
    if len(logs) == len(snapshots) == 1:
        rest = [server for server in servers if server.snapshots and server.logs]
        try:
            return [*rest, open_zookeeper(*snapshots[0].paths, *logs[0].paths)]
        except (StorageError, UsageError) as error:
            failed.append(error)
            return rest
    return servers


def _behind(other: ZooKeeperDirectory, replay: Replay, source: str, best: Replay) -> Finding:
    detail = (
        f"it ends with transaction 0x{replay.zxid:x}, and {source} with 0x{best.zxid:x}: what follows holds if the "
        "server with the later one is started with the others"
    )
    return Finding.of(FindingCode.METADATA_INCONSISTENT, None, None, detail, " and ".join(other.paths))


def _chroot(replay: Replay, source: str, of_brokers: str | None) -> str:
    """Return the chroot in ZooKeeper's tree of the only cluster that matches: its id is `of_brokers` or unknown; every
    cluster matches if `of_brokers` is None. `source` names the directory in messages. Raises `RecoveryRefused` if the
    tree has no cluster, or if none or several match.
    """
    ids = _clusters(replay.tree)
    if not ids:
        bad = next((finding for finding in replay.findings if finding.severity is Severity.ERROR), None)
        why = "there is no node /brokers/ids" if bad is None else f"{bad.file}: {bad.detail}"
        raise RecoveryRefused(f"{source} says nothing of a Kafka cluster: {why}; give a data directory that does")
    fitting = [place for place, cluster in ids.items() if of_brokers is None or cluster in (of_brokers, None)]
    if len(fitting) == 1:
        return fitting[0]
    clusters = ", ".join(f"{cluster or 'one without an id'} at {place or '/'}" for place, cluster in ids.items())
    if not fitting:
        raise RecoveryRefused(
            f"{source} is of another cluster ({clusters}) than the brokers' directories ({of_brokers})"
        )
    raise RecoveryRefused(
        f"{source} holds {len(fitting)} Kafka clusters ({clusters}), and no directory of a broker says whose they are"
    )


def _clusters(tree: Tree) -> dict[str, str | None]:
    """Return path in the tree -> cluster id, None if a cluster has no id."""
    return {place: cluster_id(tree, place) for place in chroots(tree.nodes)}
