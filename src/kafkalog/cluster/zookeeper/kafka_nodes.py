"""Parsers for the data of Kafka's nodes in ZooKeeper (`ZkData`): controller, topics, partition states, configurations.

Data is UTF-8, mostly JSON with a version; a chroot may precede every path. Data that cannot be parsed gives None, never
an error, because other programs write these nodes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from kafkalog.cluster.rules.secrets import HIDDEN, is_secret_config
from kafkalog.cluster.zookeeper.tree import Tree

__all__ = [
    "PartitionState",
    "TopicNode",
    "chroots",
    "consumer_chroots",
    "controller_id",
    "json_object",
    "partition_state",
    "replicas_of",
    "shown_data",
    "topic_nodes",
]

_CONFIG = re.compile(r"/config/(?:topics|clients|users|brokers|ips)/")
_TOKEN = re.compile(r"/delegation_token/(?:tokens|token_changes)/")
_DEEPEST = 64
_BROKERS = ("/brokers/ids", "/brokers/topics")
_OF_A_GROUP = frozenset({"ids", "owners", "offsets"})


class PartitionState(Struct, frozen=True, kw_only=True):
    """State of a partition in its ZooKeeper znode (`/brokers/topics/T/partitions/P/state`)."""

    leader: int
    """broker id of the leader; -1 if none"""
    leader_epoch: int
    """leader epoch"""
    isr: tuple[int, ...]
    """ids of the in-sync replicas (ISR)"""
    controller_epoch: int
    """epoch of the controller that decided the state"""
    recovering: bool = False
    """whether the leader was elected uncleanly and has not recovered yet (Kafka 3.2 and later)"""


def json_object(data: bytes | None) -> dict[str, Any] | None:
    """Parse a node's data as a JSON object; None if it is empty, invalid, nested too deeply, or another JSON value."""
    if not data or (data.count(b"[") + data.count(b"{") > _DEEPEST and _too_deep(data)):
        return None
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _too_deep(data: bytes) -> bool:
    depth = 0
    for byte in data:
        if byte in b"[{":
            depth += 1
            if depth > _DEEPEST:
                return True
        elif byte in b"]}":
            depth -= 1
    return False


def _numbers(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, list) or not all(type(each) is int for each in value):
        return None
    return tuple(value)


def partition_state(data: bytes | None) -> PartitionState | None:
    """Parse the data of a partition's `state` node: leader, epochs, ISR and whether the leader still recovers. Return
    None if it cannot be parsed.
    """
    fields = json_object(data)
    if fields is None:
        return None
    isr = _numbers(fields.get("isr"))
    leader, epoch, controller = (fields.get(name) for name in ("leader", "leader_epoch", "controller_epoch"))
    if isr is None or not type(leader) is type(epoch) is type(controller) is int:
        return None
    return PartitionState(
        leader=leader,
        leader_epoch=epoch,
        isr=isr,
        controller_epoch=controller,
        recovering=bool(fields.get("leader_recovery_state")),
    )


def controller_id(data: bytes | None) -> int | None:
    """Return the controller's broker id from the data of `/controller`; None if it cannot be parsed. In very old
    releases the data is a bare number.
    """
    fields = json_object(data)
    value = fields.get("brokerid") if fields is not None else None
    if type(value) is int:
        return value
    text = (data or b"").strip()
    return int(text) if text.isdigit() and len(text) < 11 else None


def replicas_of(data: bytes | None) -> dict[int, tuple[int, ...]]:
    """Parse the data of `/brokers/topics/T`; return the replicas of each partition number, in the assigned order.

    Partitions that cannot be parsed are omitted; the result is empty if none can be parsed.
    """
    fields = json_object(data) or {}
    partitions = fields.get("partitions")
    replicas: dict[int, tuple[int, ...]] = {}
    for name, value in partitions.items() if isinstance(partitions, dict) else ():
        numbers = _numbers(value)
        if numbers is not None and name.isdecimal() and len(name) < 11:
            replicas[int(name)] = numbers
    return replicas


class TopicNode(Struct, frozen=True):
    """A topic (`/brokers/topics/T`)."""

    id: str | None
    """None before Kafka 2.8, or if the node cannot be parsed"""
    partitions: frozenset[int]


def topic_nodes(tree: Tree, chroot: str) -> dict[str, TopicNode]:
    """Return topic id and partition numbers of every topic of the cluster at `chroot`, by name.

    The id is None before 2.8. A topic whose node cannot be parsed has no id and no partitions.
    """
    base = f"{chroot}/brokers/topics"
    topics = tree.nodes.get(base)
    nodes = {}
    for topic in topics.children if topics is not None else ():
        data = tree.nodes[f"{base}/{topic}"].data
        topic_id = (json_object(data) or {}).get("topic_id")
        nodes[topic] = TopicNode(topic_id if isinstance(topic_id, str) else None, frozenset(replicas_of(data)))
    return nodes


def chroots(nodes: Mapping[str, object]) -> list[str]:
    """Sorted chroots of the Kafka clusters in the tree, "" for the root. A node with `/brokers/ids` or
    `/brokers/topics` below it is one.
    """
    return sorted({path[: path.rindex("/brokers/")] for path in nodes if path.endswith(_BROKERS)})


def consumer_chroots(tree: Tree) -> list[str]:
    """Return the sorted chroots below which groups may be stored: every cluster, and every other node whose child
    `consumers` has groups, unless it is inside another chroot's `/consumers`.
    """
    places = chroots(tree.nodes)
    for path in sorted((node for node in tree.nodes if node.endswith("/consumers")), key=len):
        place = path.removesuffix("/consumers")
        is_inside = any(path.startswith(f"{each}/consumers/") for each in places)
        if place not in places and not is_inside and _holds_groups(tree, path):
            places.append(place)
    return sorted(places)


def _holds_groups(tree: Tree, path: str) -> bool:
    groups = (tree.nodes.get(f"{path}/{name}") for name in tree.nodes[path].children)
    return any(group is not None and not _OF_A_GROUP.isdisjoint(group.children) for group in groups)


def shown_data(path: str, data: bytes | None) -> bytes | None:
    """Return the data of the node at `path` with secrets replaced by `[hidden]`: SCRAM credentials, passwords,
    delegation tokens.

    Data without secrets, None and empty data are returned unchanged. A delegation token is hidden completely. So is a
    configuration that is not a JSON object, or whose `config` is neither a JSON object nor missing or null.
    """
    if not data:
        return data
    if _TOKEN.search(path):
        return HIDDEN.encode()
    if not _CONFIG.search(path):
        return data
    fields = json_object(data)
    config = fields.get("config") if fields is not None else None
    if fields is None or not isinstance(config, dict | None):
        return HIDDEN.encode()
    if config is None:
        return data
    if not any(is_secret_config(name) for name in config):
        return data
    config = {name: HIDDEN if is_secret_config(name) else value for name, value in config.items()}
    return json.dumps({**fields, "config": config}, separators=(",", ":")).encode()
