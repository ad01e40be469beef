"""Znodes as objects under ZooKeeper's names: one line of JSON, one row."""

from __future__ import annotations

import base64

from msgspec import to_builtins

from kafkalog.cluster.rules.secrets import HIDDEN
from kafkalog.cluster.zookeeper.brokers import broker_registration, config_entity
from kafkalog.cluster.zookeeper.kafka_nodes import shown_data
from kafkalog.cluster.zookeeper.tree import Node

__all__ = ["hidden_znode_line", "typed", "znode_line"]


def znode_line(path: str, node: Node) -> dict[str, object]:
    """One node with its whole stat; the data are its bytes as they are, in base64."""
    return {
        "path": path,
        "data": None if node.data is None else base64.b64encode(node.data).decode(),
        "czxid": node.czxid,
        "mzxid": node.mzxid,
        "pzxid": node.pzxid,
        "ctime": node.ctime,
        "mtime": node.mtime,
        "version": node.version,
        "cversion": node.client_cversion,
        "aversion": node.aversion,
        "ephemeralOwner": node.ephemeral_owner,
        "dataLength": len(node.data or b""),
        "numChildren": len(node.children),
        "acl": None if node.acl is None else [{"perms": p, "scheme": s, "id": i} for p, s, i in node.acl],
    }


def hidden_znode_line(path: str, node: Node) -> dict[str, object]:
    """The line of a node, with credentials hidden."""
    line = znode_line(path, node)
    shown = shown_data(path, node.data)
    if node.data is not None and shown != node.data:
        line["data"] = HIDDEN
    return line


def typed(path: str, node: Node) -> dict[str, object] | None:
    """What a broker's registration or a configuration says, secrets hidden; None for all other nodes."""
    broker = broker_registration(path, node.data)
    if broker is not None:
        return {"kind": "broker", **to_builtins(broker)}
    entity = config_entity(path, node.data)
    if entity is not None:
        return {"kind": "config", **to_builtins(entity), "config": entity.hidden()}
    return None
