"""Lines of `kafkalog elections`."""

from __future__ import annotations

from msgspec import Struct

from kafkalog.cli.shapes.metadata_lines import PartitionLine
from kafkalog.cluster.kraft.metadata_json import PartitionStateJson

__all__ = [
    "BrokerLine", "ControllerLine", "LeaderAndIsrLine", "Line", "WithoutLine", "ZookeeperControllerLine",
    "ZookeeperPartitionLine", "ZookeeperStateLine", "ZookeeperWithoutLine",
]  # fmt: skip


class ZookeeperStateLine(Struct, frozen=True, kw_only=True):
    """A partition as ZooKeeper has it."""

    leader: int
    """the leader; -1 if there is none"""
    leader_epoch: int
    """how many leaders it has had"""
    isr: tuple[int, ...]
    """brokers in sync"""
    controller_epoch: int
    """of the controller that decided"""
    recovering: bool
    """the leader was elected uncleanly and recovers"""


class LeaderAndIsrLine(Struct, frozen=True, kw_only=True):
    """Leader and ISR of a partition."""

    leader: int
    """the leader; -1 if there is none"""
    isr: tuple[int, ...]
    """brokers in sync"""


class ControllerLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="controller"):
    """A controller of a KRaft quorum."""

    leader: int
    """node id; -1 if there is none"""
    epoch: int
    """of the quorum"""
    from_offset: int
    """of the metadata log"""
    from_time: int
    """in ms since 1970"""
    to_offset: int | None
    """null for the last one"""
    to_time: int | None
    """in ms since 1970; null for the last one"""
    voters: tuple[int, ...]
    """of the quorum"""
    granting_voters: tuple[int, ...]
    """who voted for it"""


class ZookeeperControllerLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="controller"):
    """A controller of a cluster with ZooKeeper."""

    chroot: str
    """the node that the cluster lies below; empty at the root"""
    broker: int | None
    """its id; null if not given"""
    epoch: int | None
    """the controller epoch; null if unknown"""
    session: int
    """of ZooKeeper's"""
    from_zxid: int
    """ZooKeeper transaction with which it began"""
    from_time: int
    """in ms since 1970"""
    to_zxid: int | None
    """with which it ended; null if it has not ended"""
    to_time: int | None
    """in ms since 1970; null if it has not ended"""
    ended_by: str | None
    """what ended it; null if it has not ended"""


class BrokerLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="broker"):
    """A broker's life in a cluster with ZooKeeper."""

    chroot: str
    """the node that the cluster lies below; empty at the root"""
    broker: str
    """its id, as the znode is called"""
    epoch: int
    """of its registration"""
    session: int
    """of ZooKeeper's"""
    from_zxid: int
    """ZooKeeper transaction with which it began"""
    from_time: int
    """in ms since 1970"""
    to_zxid: int | None
    """with which it ended; null if it has not ended"""
    to_time: int | None
    """in ms since 1970; null if it has not ended"""
    ended_by: str | None
    """what ended it; null if it has not ended"""


class ZookeeperPartitionLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="partition"):
    """A change of a partition in a cluster with ZooKeeper."""

    chroot: str
    """the node that the cluster lies below; empty at the root"""
    zxid: int
    """the transaction"""
    time: int
    """in ms since 1970"""
    topic: str
    """its name"""
    partition: int
    """its number"""
    election: bool
    """it has a new leader epoch"""
    cause: str
    """what happened"""
    writer: str | None
    """who wrote it; null if unknown"""
    before: ZookeeperStateLine | None
    """null for a partition that is new"""
    after: ZookeeperStateLine | None
    """null for a partition that is gone"""


class WithoutLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="without"):
    """With --without, in a KRaft cluster: what would happen to a partition."""

    without: int
    """the broker that leaves"""
    topic: str
    """topic"""
    partition: int
    """its number"""
    outcome: str
    """what happens to it"""
    unclean_allowed: bool
    """the topic allows unclean elections"""
    before: PartitionStateJson
    """as it was"""
    after: PartitionStateJson
    """as it would be"""


class ZookeeperWithoutLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="without"):
    """With --without, in a cluster with ZooKeeper: what would happen to a partition."""

    chroot: str
    """the node that the cluster lies below; empty at the root"""
    without: int
    """the broker that leaves"""
    topic: str
    """topic"""
    partition: int
    """its number"""
    outcome: str
    """what happens to it"""
    unclean_allowed: bool
    """the topic allows unclean elections"""
    before: LeaderAndIsrLine
    """as it was"""
    after: LeaderAndIsrLine
    """as it would be"""


Line = (
    ControllerLine
    | PartitionLine
    | ZookeeperControllerLine
    | BrokerLine
    | ZookeeperPartitionLine
    | WithoutLine
    | ZookeeperWithoutLine
)
"""One line for each thing that happened; `kind` tells them apart."""
