"""`/cluster/id`, by which brokers know their cluster (`ClusterIdZNode`, 0.10.1 and later)."""

from __future__ import annotations

from kafkalog.cluster.zookeeper.kafka_nodes import chroots, json_object
from kafkalog.cluster.zookeeper.tree import Tree
from kafkalog.codec.common.findings import Finding, FindingCode, Severity

__all__ = ["bad_cluster_ids", "cluster_id"]

_SHOWN = 60


def cluster_id(tree: Tree, chroot: str) -> str | None:
    """Id of the cluster at `chroot` (empty at the root); None if the node is missing or brokers could not parse it."""
    node = tree.nodes.get(f"{chroot}/cluster/id")
    text = (json_object(node.data) or {}).get("id") if node is not None else None
    return text if isinstance(text, str) else None


def bad_cluster_ids(tree: Tree, chroot: str | None, file: str | None = None) -> list[Finding]:
    """Return an error for each cluster whose `/cluster/id` exists but cannot be parsed; brokers do not start with it
    (`ClusterIdZNode.fromJson`).

    `chroot` restricts this to one cluster, None means all. `file` is the path that the findings name.
    """
    places = chroots(tree.nodes) if chroot is None else [chroot.rstrip("/")]
    findings = []
    for place in places:
        node = tree.nodes.get(f"{place}/cluster/id")
        if node is not None and cluster_id(tree, place) is None:
            shown = repr((node.data or b"").decode("utf-8", "replace")[:_SHOWN])
            detail = f"{place}/cluster/id holds no cluster id ({shown}): no broker starts with it"
            findings.append(Finding(FindingCode.ZK_NODE_INVALID, Severity.ERROR, None, None, detail, file))
    return findings
