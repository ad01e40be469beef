"""Comparison of the cluster's metadata with the log directories of its brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkalog.cluster.cross_check import KnownTopic, cross_check
from kafkalog.cluster.transactions.producer_ids import not_given_out
from kafkalog.cluster.transactions.producers import read_producers
from kafkalog.codec.common.findings import Finding
from kafkalog.codec.names import CLUSTER_METADATA_TOPIC, DirectoryState
from kafkalog.log import open_all
from kafkalog.log.disk.files import PathLike

__all__ = ["compared"]


def compared(
    against: Sequence[PathLike],
    known: Mapping[str, KnownTopic],
    next_block: int | None,
    clusters: Mapping[str, str] | None = None,
) -> list[Finding]:
    """Return findings about contradictions between the metadata and the log directories at `against`.

    `known` are the topics of the metadata by name. `clusters` are the cluster ids by ZooKeeper chroot; without any,
    they are not compared. `next_block` is the first producer id that is not allocated, -1 if none was, or None if
    unknown; ids at or above it in live partitions are reported too. Raises `UsageError` if a path has no Kafka files,
    `StorageError` for I/O errors.
    """
    log_dirs = open_all(*against).log_dirs
    findings = cross_check(log_dirs, known, clusters)[1]
    if next_block is None:
        return findings
    live = (
        partition
        for log_dir in log_dirs
        for partition in log_dir.partitions
        if partition.state is DirectoryState.LIVE and partition.topic not in (None, CLUSTER_METADATA_TOPIC)
    )
    return [*findings, *not_given_out(read_producers(live), next_block)]
