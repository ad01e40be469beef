"""Conversion of ZooKeeper nodes to JSON objects, one per line, with ZooKeeper's field names."""

from __future__ import annotations

import base64

from msgspec import Struct

from kafkalog.cluster.rules.secrets import HIDDEN
from kafkalog.cluster.zookeeper.brokers import BrokerRegistration, ConfigEntity, broker_registration, config_entity
from kafkalog.cluster.zookeeper.kafka_nodes import shown_data
from kafkalog.cluster.zookeeper.tree import Node

__all__ = ["ZkLine", "znode_line"]


class AclLine(Struct, frozen=True, kw_only=True):
    """An entry of access control."""

    perms: int
    """bits: 1 read, 2 write, 4 create, 8 delete, 16 admin"""
    scheme: str
    """`world`, `sasl` …"""
    id: str
    """who"""


class ZkLine(Struct, frozen=True, kw_only=True, rename="camel"):
    """One line for each znode, under ZooKeeper's names."""

    path: str
    """of the node"""
    data: str | None
    """its bytes in base64, or [hidden] with --hide-secrets; null if there is none"""
    czxid: int
    """transaction that created it"""
    mzxid: int
    """transaction that last changed it"""
    pzxid: int
    """transaction that last changed its children"""
    ctime: int
    """when it was created, in ms since 1970"""
    mtime: int
    """when it was last changed, in ms since 1970"""
    version: int
    """of the data"""
    cversion: int
    """of the children"""
    aversion: int
    """of the access control"""
    ephemeral_owner: int
    """session that it lives with; 0 where it stays"""
    data_length: int
    """bytes"""
    num_children: int
    """number of them"""
    acl: list[AclLine] | None
    """access control; null if unknown"""
    kafka: BrokerRegistration | ConfigEntity | None = None
    """what it says as a broker's registration or a configuration, secrets hidden; null for other nodes"""


def znode_line(path: str, node: Node, *, hides: bool = False) -> ZkLine:
    """Convert one node to its JSON object. It has the stat, the ACL (null if unknown), and the data in base64 (null if
    there is none). Kafka's fields are there if it is a broker registration or a configuration; otherwise they are null.

    With `hides` the data is `[hidden]` if it contains credentials or is a configuration that cannot be parsed. In
    Kafka's fields secrets are always hidden.
    """
    data = None if node.data is None else base64.b64encode(node.data).decode()
    return ZkLine(
        path=path,
        data=HIDDEN if hides and data is not None and shown_data(path, node.data) != node.data else data,
        czxid=node.czxid,
        mzxid=node.mzxid,
        pzxid=node.pzxid,
        ctime=node.ctime,
        mtime=node.mtime,
        version=node.version,
        cversion=node.client_cversion,
        aversion=node.aversion,
        ephemeral_owner=node.ephemeral_owner,
        data_length=len(node.data or b""),
        num_children=len(node.children),
        acl=None if node.acl is None else [AclLine(perms=p, scheme=s, id=i) for p, s, i in node.acl],
        kafka=_typed(path, node),
    )


def _typed(path: str, node: Node) -> BrokerRegistration | ConfigEntity | None:
    """Convert a broker registration or a configuration to its JSON object, secrets hidden; None for all other nodes."""
    entity = config_entity(path, node.data)
    return broker_registration(path, node.data) if entity is None else entity.hidden()
