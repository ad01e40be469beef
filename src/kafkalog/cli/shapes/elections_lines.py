"""Types of the lines of `kafkalog elections --json`."""

from __future__ import annotations

from msgspec import Struct

from kafkalog.cli.shapes.metadata_lines import PartitionLine
from kafkalog.cluster.kraft.metadata_json import KraftStateJson
from kafkalog.cluster.kraft.metadata_log import QuorumTerm
from kafkalog.cluster.zookeeper.kafka_nodes import PartitionState

__all__ = [
    "BrokerLine", "LeaderAndIsrLine", "Line", "WithoutLine", "ZookeeperControllerLine",
    "ZookeeperPartitionLine", "ZookeeperWithoutLine",
]  # fmt: skip


class LeaderAndIsrLine(Struct, frozen=True, kw_only=True):
    """Leader and ISR of a partition."""

    leader: int
    """broker id of the leader; -1 if none"""
    isr: tuple[int, ...]
    """ids of the in-sync replicas (ISR)"""


class ZookeeperControllerLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="controller"):
    """One term of a controller in a cluster with ZooKeeper."""

    chroot: str
    """ZooKeeper path below which the cluster's znodes are (chroot); empty if they are at the root"""
    broker: int | None
    """broker id of the controller; null if the controller's znode does not contain an id"""
    epoch: int | None
    """controller epoch; null if unknown"""
    session: int
    """id of the ZooKeeper session in which the controller registered"""
    from_zxid: int
    """zxid of the ZooKeeper transaction that began the term"""
    from_time: int
    """start of the term, in ms since 1970"""
    to_zxid: int | None
    """zxid of the ZooKeeper transaction that ended the term; null if the term has not ended"""
    to_time: int | None
    """end of the term, in ms since 1970; null if the term has not ended"""
    ended_by: str | None
    """reason for the end of the term: `session closed by its client`, `session expired`, `node deleted` or `replaced`;
    null if the term has not ended
    """


class BrokerLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="broker"):
    """One registration of a broker in a cluster with ZooKeeper."""

    chroot: str
    """ZooKeeper path below which the cluster's znodes are (chroot); empty if they are at the root"""
    broker: str
    """broker id, as the name of the broker's znode"""
    epoch: int
    """zxid that created the broker's znode, which is the broker epoch from Kafka 2.2 on"""
    session: int
    """id of the ZooKeeper session in which the broker registered"""
    from_zxid: int
    """zxid of the ZooKeeper transaction that began the registration"""
    from_time: int
    """start of the registration, in ms since 1970"""
    to_zxid: int | None
    """zxid of the ZooKeeper transaction that ended the registration; null if the registration has not ended"""
    to_time: int | None
    """end of the registration, in ms since 1970; null if the registration has not ended"""
    ended_by: str | None
    """reason for the end of the registration: `session closed by its client`, `session expired`, `node deleted` or
    `replaced`; null if the registration has not ended
    """


class ZookeeperPartitionLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="partition"):
    """One change of a partition's state in a cluster with ZooKeeper."""

    chroot: str
    """ZooKeeper path below which the cluster's znodes are (chroot); empty if they are at the root"""
    zxid: int
    """zxid of the ZooKeeper transaction that made the change"""
    time: int
    """time of the change, in ms since 1970"""
    topic: str
    """topic"""
    partition: int
    """partition number"""
    election: bool
    """whether the change created a new leader epoch"""
    cause: str
    """cause of the change, derived from the states before and after it"""
    writer: str | None
    """id of the broker whose ZooKeeper session wrote the change; null if unknown"""
    before: PartitionState | None
    """state of the partition before the change; null if the change created it"""
    after: PartitionState | None
    """state of the partition after the change; null if the change deleted it"""


class WithoutLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="without"):
    """With `--without`, in a KRaft cluster: effect of a broker's departure on one partition."""

    without: int
    """id of the broker that leaves"""
    topic: str
    """topic"""
    partition: int
    """partition number"""
    outcome: str
    """effect of the departure: `kept` (the leader stays), `clean` (new leader without data loss), `unclean` (new leader
    that may lack records) or `offline` (no leader)
    """
    unclean_allowed: bool
    """whether unclean leader election is enabled for the topic, by settings or by `--unclean`"""
    before: KraftStateJson
    """state of the partition before this broker leaves; brokers that leave earlier have already left"""
    after: KraftStateJson
    """state of the partition after this broker has left"""


class ZookeeperWithoutLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="without"):
    """With `--without`, in a cluster with ZooKeeper: effect of a broker's departure on one partition."""

    chroot: str
    """ZooKeeper path below which the cluster's znodes are (chroot); empty if they are at the root"""
    without: int
    """id of the broker that leaves"""
    topic: str
    """topic"""
    partition: int
    """partition number"""
    outcome: str
    """effect of the departure: `kept` (the leader stays), `clean` (new leader without data loss), `unclean` (new leader
    that may lack records) or `offline` (no leader)
    """
    unclean_allowed: bool
    """whether unclean leader election is enabled for the topic, by settings or by `--unclean`"""
    before: LeaderAndIsrLine
    """leader and ISR before this broker leaves; brokers that leave earlier have already left"""
    after: LeaderAndIsrLine
    """leader and ISR after this broker has left"""


Line = (
    QuorumTerm
    | PartitionLine
    | ZookeeperControllerLine
    | BrokerLine
    | ZookeeperPartitionLine
    | WithoutLine
    | ZookeeperWithoutLine
)
"""One line for each term of a controller, registration of a broker (with ZooKeeper) and change of a partition, or with
`--without` for each effect of a departure; `kind` distinguishes them.
"""
