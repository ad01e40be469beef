"""Find the directories with the metadata that decides which brokers may lead: a KRaft controller's, else
ZooKeeper's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.copies.volumes import Shelf
from kafkalog.jobs.triage.kraft import kraft_memory
from kafkalog.jobs.triage.memory import Memory
from kafkalog.jobs.triage.zookeeper import zookeeper_memory

__all__ = ["memory_of"]


def memory_of(shelf: Shelf, static: Mapping[str, str], findings: list[Finding]) -> Memory:
    """Read and return the metadata from which leaders are predicted. It comes from copies of `__cluster_metadata`, or
    if there are none, from ZooKeeper's data directories. Findings are appended to `findings`. `static` are the
    controllers' settings. Raises `UsageError` if neither is among the directories or no ZooKeeper directory is usable.
    Raises `RecoveryRefused` if the metadata cannot be used. Raises `StorageError` if it cannot be read.
    """
    if shelf.metadata:
        findings += [_left_aside(path, shelf.metadata[0].path) for path in shelf.zookeeper]
        return kraft_memory(_of_known_nodes(shelf), static, findings)
    if not shelf.zookeeper:
        raise UsageError(
            "none of the directories says who may lead: give the controllers' directories with __cluster_metadata-0 "
            "too, or ZooKeeper's data directory"
        )
    known = [log_dir.meta_properties for log_dir in shelf.log_dirs if log_dir.meta_properties is not None]
    brokers = {meta_properties.node_id for meta_properties in known if meta_properties.node_id is not None}
    cluster = next((properties.cluster_id for properties in known if properties.cluster_id is not None), None)
    return zookeeper_memory(shelf.zookeeper, static, brokers, cluster, findings)


def _of_known_nodes(shelf: Shelf) -> list[str]:
    """Return the paths of the copies of the metadata log whose log directory names its cluster; of all copies if no
    directory does.
    """
    logs = [partition.path for partition in shelf.metadata]
    metas = {log_dir.path: log_dir.meta_properties for log_dir in shelf.log_dirs}
    known = {path for path, meta in metas.items() if meta and meta.cluster_id}
    return [log for log in logs if os.path.dirname(log) in known] or logs


def _left_aside(zookeeper: str, metadata: str) -> Finding:
    detail = f"ZooKeeper's data is left aside: the leaders are foreseen from {metadata}"
    return Finding.of(FindingCode.METADATA_INCONSISTENT, None, None, detail, zookeeper)
