"""Controllers, brokers, leaders and ISRs over time, and what the controller would do if brokers left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from kafkalog.cluster.cross_check import KnownTopic, cluster_ids, known_from_image, known_from_zookeeper
from kafkalog.cluster.kraft.departures import kraft_departures
from kafkalog.cluster.kraft.metadata_history import PartitionChange
from kafkalog.cluster.kraft.metadata_image import PartitionImage
from kafkalog.cluster.kraft.metadata_log import MetadataLog, QuorumTerm
from kafkalog.cluster.questions.against import compared
from kafkalog.cluster.questions.metadata import chosen_changes
from kafkalog.cluster.questions.moment import (
    NOW,
    Moment,
    metadata_offset,
    refuse_beyond_end,
    zookeeper_transaction,
)
from kafkalog.cluster.questions.opening import chosen_chroot, metadata_log, partition_names, zookeeper_at
from kafkalog.cluster.rules.departures import Departure
from kafkalog.cluster.transactions.producer_ids import next_block_of_zookeeper
from kafkalog.cluster.zookeeper import ZooKeeperDirectory, tree_at
from kafkalog.cluster.zookeeper.cluster_id import bad_cluster_ids
from kafkalog.cluster.zookeeper.departures import zookeeper_departures
from kafkalog.cluster.zookeeper.kafka_nodes import PartitionState, chroots
from kafkalog.cluster.zookeeper.timeline import BrokerLife, ControllerTerm, LeaderChange, timeline
from kafkalog.codec.common.advice import Ask, Sentence
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.findings import Finding
from kafkalog.log.directories.selection import ALL, Selection
from kafkalog.log.disk.files import PathLike

__all__ = ["Departures", "KRaftElections", "ZooKeeperElections", "departures", "elections"]


class KRaftElections(Struct, frozen=True, kw_only=True):
    """History of a KRaft cluster, in order."""

    terms: tuple[QuorumTerm, ...]
    changes: tuple[PartitionChange, ...]
    findings: tuple[Finding, ...]


class ZooKeeperElections(Struct, frozen=True, kw_only=True):
    """History of a cluster with ZooKeeper, in order; of several clusters if they share one ZooKeeper."""

    terms: tuple[ControllerTerm, ...]
    brokers: tuple[BrokerLife, ...]
    changes: tuple[LeaderChange, ...]
    findings: tuple[Finding, ...]


class Departures(Struct, frozen=True, kw_only=True):
    """Effects of brokers that leave one after another, on each partition that they led or were in sync for."""

    departures: tuple[Departure[PartitionImage] | Departure[PartitionState], ...]
    findings: tuple[Finding, ...]


def elections(
    *paths: PathLike,
    select: Selection = ALL,
    every_change: bool = False,
    against: Sequence[PathLike] = (),
    chroot: str | None = None,
    replica: PathLike | None = None,
) -> KRaftElections | ZooKeeperElections:
    """Return controllers, broker registrations and changes of partitions in order, from a KRaft metadata log or
    ZooKeeper's directory, as far back as these go. Broker registrations are known only from ZooKeeper. Reads only;
    damage becomes findings.

    Raises `UsageError` if the paths hold neither a metadata log nor ZooKeeper's directory, or several of them. It is
    raised too if an option does not apply to what they hold, or if everything selected is excluded. The same holds if a
    path in `against` has no Kafka data. Raises `UnknownName` for a topic, partition or cluster that does not exist,
    `StorageError` for I/O errors.

    * `paths`: log directories, or ZooKeeper's dataDir and dataLogDir
    * `select`: the partitions whose changes are returned
    * `every_change`: True: all changes of a partition; False: only new leader epochs
    * `against`: log directories of brokers; a contradiction to the final state is a finding
    * `chroot`: ZooKeeper node of the cluster, if several are below one ZooKeeper
    * `replica`: which directory counts if the metadata log is in several: `"longest"`, or its path, which must exist
    """
    directory = _zookeeper(paths, chroot, replica)
    if directory is not None:
        return _of_zookeeper(directory, select, against, chroot, every_change=every_change)
    findings: list[Finding] = []
    log = metadata_log(paths, replica, findings)
    terms = log.terms(findings)
    changes = [change for change in chosen_changes(log, select, findings) if every_change or change.is_election]
    if against:
        image = log.state().image
        findings += compared(against, known_from_image(image), image.next_producer_id, {})
    return KRaftElections(terms=tuple(terms), changes=tuple(changes), findings=tuple(findings))


def _zookeeper(
    paths: Sequence[PathLike], chroot: str | None, replica: PathLike | None
) -> ZooKeeperDirectory | None:
    directory = zookeeper_at(*paths)
    if directory is not None and replica is not None:
        raise UsageError(Sentence(Ask.REPLICA, " chooses among log directories, and this is ZooKeeper's directory"))
    if directory is None and chroot is not None:
        raise UsageError(Sentence(Ask.CHROOT, " is a ZooKeeper node, and this is not a directory of its logs"))
    return directory


def _of_zookeeper(
    directory: ZooKeeperDirectory,
    select: Selection,
    against: Sequence[PathLike],
    chroot: str | None,
    *,
    every_change: bool,
) -> ZooKeeperElections:
    history = timeline(directory)
    findings = [*history.findings]
    places = chroots(history.tree.nodes)
    if chroot is not None:
        places = [chosen_chroot(places, chroot)]
        history = history.of(places[0])
    if against and len(places) > 1:
        names = ", ".join(place or "/" for place in places)
        raise UsageError(Sentence(
            f"ZooKeeper knows several clusters ({names}), and ", Ask.AGAINST, " is about one; ", Ask.CHROOT,
            " chooses it",
        ))  # fmt: skip
    known: dict[str, KnownTopic] = {}
    for place in places:
        known.update(known_from_zookeeper(history.tree, place))
    select.check([*partition_names(known), *((change.topic, change.partition) for change in history.changes)])
    if against:
        next_block = next_block_of_zookeeper(history.tree, places[0]) if len(places) == 1 else None
        findings += compared(against, known, next_block, cluster_ids(history.tree))
    findings += bad_cluster_ids(history.tree, chroot, directory.paths[0])
    return ZooKeeperElections(
        terms=tuple(history.terms),
        brokers=tuple(history.brokers),
        changes=tuple(
            change for change in history.changes
            if select.takes(change.topic, change.partition) and (every_change or change.is_election)
        ),
        findings=tuple(findings),
    )  # fmt: skip


def departures(
    *paths: PathLike,
    brokers: Sequence[int],
    select: Selection = ALL,
    unclean: bool = False,
    started_with: Mapping[str, str] | None = None,
    as_of: Moment = NOW,
    chroot: str | None = None,
    replica: PathLike | None = None,
) -> Departures:
    """Return the changes that the controller would make to partitions if brokers left, one after another. Reads only.

    There is one for each partition that the leaving broker leads or is in sync for, by broker, topic and partition. A
    partition that would have no leader is not a finding.

    Raises `UsageError` if the paths have the metadata of no cluster or of several. It is raised too if the metadata
    does not go back to `as_of`, or ends before the offset or transaction of `as_of`. It is also raised if an option
    does not apply to the metadata, if a broker is listed twice, or if everything selected is excluded. Raises
    `UnknownName` for a broker, topic, partition or cluster that does not exist, `StorageError` for I/O errors.

    * `paths`: log directories, or ZooKeeper's dataDir and dataLogDir
    * `brokers`: ids of the brokers, in the order in which they leave
    * `select`: the partitions to return
    * `unclean`: True: unclean elections are allowed for all topics; False: settings decide
    * `started_with`: settings of the controller's server.properties
    * `as_of`: a past moment
    * `chroot`: ZooKeeper node of the cluster, if several are below one ZooKeeper
    * `replica`: which directory counts if the metadata log is in several: `"longest"`, or its path, which must exist
    """
    directory = _zookeeper(paths, chroot, replica)
    findings: list[Finding] = []
    all_departures: list[Departure[PartitionImage] | Departure[PartitionState]] = []
    static = started_with or {}
    if directory is not None:
        tree = tree_at(directory, zookeeper_transaction(directory, as_of))
        findings += tree.findings
        place = _one_cluster(chroots(tree.tree.nodes), chroot)
        select.check(partition_names(known_from_zookeeper(tree.tree, place)))
        all_departures += zookeeper_departures(tree.tree, place, brokers, unclean=unclean, static=static)
    else:
        log = metadata_log(paths, replica, findings)
        offset = metadata_offset(log, as_of)
        state = log.state(offset)
        refuse_beyond_end(offset, state)
        findings += state.findings
        select.check(partition_names(known_from_image(state.image)))
        controller = _controller(log, offset)
        all_departures += kraft_departures(state.image, brokers, unclean=unclean, controller=controller, static=static)
    chosen = tuple(each for each in all_departures if select.takes(each.topic, each.partition))
    return Departures(departures=chosen, findings=tuple(findings))


def _one_cluster(places: Sequence[str], chroot: str | None) -> str:
    if chroot is not None:
        return chosen_chroot(places, chroot)
    if len(places) != 1:
        names = ", ".join(place or "/" for place in places)
        count = f" needs one cluster, and there are {len(places)} ({names}); "
        raise UsageError(Sentence(Ask.DEPARTED, count, Ask.CHROOT, " chooses one"))
    return places[0]


def _controller(log: MetadataLog, offset: int | None) -> int | None:
    """Return the node id of the active controller before an offset, or at the end of the log for None; None if the log
    does not contain its election.
    """
    terms = [term for term in log.terms([]) if offset is None or term.from_offset < offset]
    return terms[-1].leader if terms else None
