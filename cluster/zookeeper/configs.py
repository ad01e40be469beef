"""Configurations in ZooKeeper, `/config/<kind>/<name>`, as resources named as in a KRaft image (`ConfigEntityZNode`).

`/config/brokers/<default>` is `broker:`; clients, users and addresses are quotas and credentials and stand here as
`client:`, `user:` and `ip:`, a client of a user as `user:<name>/clients:<id>`.
"""

from __future__ import annotations

from urllib.parse import unquote_plus

from kafkalog.cluster.zookeeper.kafka_nodes import json_object
from kafkalog.cluster.zookeeper.tree import Tree

__all__ = ["zookeeper_configs"]

_KINDS = {"topics": "topic", "brokers": "broker", "clients": "client", "users": "user", "ips": "ip"}
_DEFAULT = "<default>"


def zookeeper_configs(tree: Tree, chroot: str = "") -> dict[str, dict[str, str]]:
    """Resource -> name -> value; entities without a setting are left out, and so is what cannot be read."""
    found: dict[str, dict[str, str]] = {}
    for directory, kind in _KINDS.items():
        base = f"{chroot}/config/{directory}/"
        for path, node in tree.nodes.items():
            config = (json_object(node.data) or {}).get("config") if path.startswith(base) else None
            if isinstance(config, dict) and config:
                name = unquote_plus(path.removeprefix(base))
                resource = f"{kind}:{'' if kind == 'broker' and name == _DEFAULT else name}"
                found[resource] = {key: value for key, value in sorted(config.items()) if isinstance(value, str)}
    return dict(sorted(found.items()))
