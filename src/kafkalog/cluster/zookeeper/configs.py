"""Configurations in ZooKeeper, `/config/<kind>/<name>`, as resources named as in a KRaft image (`ConfigEntityZNode`).

The default of all brokers, `/config/brokers/<default>`, is `broker:`, as in a KRaft image. Clients, users and
addresses, which have quotas and credentials, are named `client:<id>`, `user:<name>` and `ip:<address>`, with an empty
name for the default of all. A client of a user is `user:<name>/clients/<id>`.
"""

from __future__ import annotations

from kafkalog.cluster.zookeeper.brokers import DEFAULT_ENTITY, entity_name
from kafkalog.cluster.zookeeper.kafka_nodes import json_object
from kafkalog.cluster.zookeeper.tree import Tree

__all__ = ["zookeeper_configs"]

_KINDS = {"topics": "topic", "brokers": "broker", "clients": "client", "users": "user", "ips": "ip"}


def zookeeper_configs(tree: Tree, chroot: str = "") -> dict[str, dict[str, str]]:
    """Read all configurations of the cluster at `chroot`; return a dict of settings by resource (such as `topic:T`),
    both sorted by name.

    The default entity has an empty name (`broker:`). Entities without settings, nodes that cannot be parsed, and values
    that are not text are omitted. Secrets are included.
    """
    resources: dict[str, dict[str, str]] = {}
    for directory, kind in _KINDS.items():
        base = f"{chroot}/config/{directory}/"
        for path, node in tree.nodes.items():
            config = (json_object(node.data) or {}).get("config") if path.startswith(base) else None
            if isinstance(config, dict) and config:
                parts = path.removeprefix(base).split("/")
                name = "/".join("" if part == DEFAULT_ENTITY else entity_name(part) for part in parts)
                resource = f"{kind}:{name}"
                settings = {key: value for key, value in sorted(config.items()) if isinstance(value, str)}
                if settings:
                    resources[resource] = settings
    return dict(sorted(resources.items()))
