"""Configurations in ZooKeeper, `/config/<kind>/<name>`, as resources named as in a KRaft image (`ConfigEntityZNode`).

The default of all brokers, `/config/brokers/<default>`, is `broker:`, as in a KRaft image; clients, users and addresses
are quotas and credentials and stand here as `client:<id>`, `user:<name>` and `ip:<address>`, without a name for the
default of all, and a client of a user as `user:<name>/clients/<id>`.
"""

from __future__ import annotations

from kafkalog.cluster.zookeeper.brokers import DEFAULT_ENTITY, entity_name
from kafkalog.cluster.zookeeper.kafka_nodes import json_object
from kafkalog.cluster.zookeeper.tree import Tree

__all__ = ["zookeeper_configs"]

_KINDS = {"topics": "topic", "brokers": "broker", "clients": "client", "users": "user", "ips": "ip"}


def zookeeper_configs(tree: Tree, chroot: str = "") -> dict[str, dict[str, str]]:
    """Read all configurations of the cluster at `chroot`: values by setting, by resource (`topic:T` and the like), both
    sorted.

    The default entity has an empty name (`broker:`). Entities without settings, nodes that cannot be parsed, and values
    that are not text are omitted. Secrets are included.
    """
    found: dict[str, dict[str, str]] = {}
    for directory, kind in _KINDS.items():
        base = f"{chroot}/config/{directory}/"
        for path, node in tree.nodes.items():
            config = (json_object(node.data) or {}).get("config") if path.startswith(base) else None
            if isinstance(config, dict) and config:
                parts = path.removeprefix(base).split("/")
                name = "/".join("" if part == DEFAULT_ENTITY else entity_name(part) for part in parts)
                resource = f"{kind}:{name}"
                found[resource] = {key: value for key, value in sorted(config.items()) if isinstance(value, str)}
    return dict(sorted(found.items()))
