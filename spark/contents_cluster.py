"""Produce the rows of contents about the state of the whole cluster, with the same values as the lines of the
corresponding commands.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from kafkalog.cluster.groups.group_lines import group_line, offset_line
from kafkalog.cluster.groups.groups import read_groups
from kafkalog.cluster.groups.offsets import read_offsets
from kafkalog.cluster.groups.rederive import partition_counts
from kafkalog.cluster.kraft.metadata_log import MetadataEvent, MetadataLog
from kafkalog.cluster.records.coordinator_records import CONSUMER_OFFSETS_TOPIC
from kafkalog.cluster.records.record_json import control_json, framed_json
from kafkalog.cluster.transactions.producers import read_producers
from kafkalog.cluster.transactions.transaction_lines import (
    producer_lines,
    transaction_partitions,
    transactional_id_line,
)
from kafkalog.cluster.transactions.transactions import open_transactions, read_transactions
from kafkalog.cluster.zookeeper import open_zookeeper, tree_at
from kafkalog.cluster.zookeeper.node_lines import znode_line
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.findings import Finding
from kafkalog.codec.names import CLUSTER_METADATA_TOPIC
from kafkalog.log import Partition, open_all
from kafkalog.log.directories.selection import Selection
from kafkalog.spark.contents_lines import MetadataLine
from kafkalog.spark.struct_columns import Row, as_columns

__all__ = ["OF_A_CLUSTER", "cluster_rows"]

OF_A_CLUSTER = ("offsets", "groups", "transactions", "metadata", "znodes")


def cluster_rows(contents: str, paths: Sequence[str], replica: str | None, findings: list[Finding]) -> Iterator[Row]:
    """Return an iterator over the rows of one kind of contents in `OF_A_CLUSTER` (`znodes`, `transactions`, `metadata`,
    `offsets` or `groups`). Findings are appended to `findings`. `replica` chooses among several copies of a partition.

    Raises `UsageError` if a path has no Kafka data (for `znodes`: if no path has ZooKeeper's files). It is raised too
    if a partition is in several directories and `replica` chooses none. Except for `transactions`, it is raised also if
    the topic with the rows is missing. Raises `StorageError` if a file cannot be read. Some errors are raised only
    while iterating.
    """
    if contents == "znodes":
        return _znodes(paths, findings)
    inventory = open_all(*paths)
    if contents == "transactions":
        others = inventory.readable(replica, wants=lambda name: name.topic != CLUSTER_METADATA_TOPIC)
        return _transactions(others, findings)
    topic = CLUSTER_METADATA_TOPIC if contents == "metadata" else CONSUMER_OFFSETS_TOPIC
    partitions = inventory.all_readable(replica, Selection.of([topic]))  # groups need the topics of all partitions
    if not any(partition.topic == topic for partition in partitions):
        raise UsageError(f"no partition of {topic} in {', '.join(paths)}")
    if contents == "metadata":
        return _metadata([partition for partition in partitions if partition.topic == topic], findings)
    return _offsets(partitions, findings) if contents == "offsets" else _groups(partitions, findings)


def _offsets(partitions: Sequence[Partition], findings: list[Finding]) -> Iterator[Row]:
    committed_offsets = read_offsets(partitions)
    findings.extend(committed_offsets.findings)
    for commit in committed_offsets.committed:
        yield as_columns(offset_line(commit)) | {"pending": False}
    for commit in committed_offsets.pending:
        yield as_columns(offset_line(commit, pending=True))


def _groups(partitions: Sequence[Partition], findings: list[Finding]) -> Iterator[Row]:
    groups = read_groups(partitions)
    findings.extend(groups.findings)
    counts = partition_counts(partitions)
    for group in groups.groups:
        yield as_columns(group_line(group, counts))


def _transactions(partitions: Sequence[Partition], findings: list[Finding]) -> Iterator[Row]:
    places = read_producers(partitions)
    coordinator = read_transactions(partitions)
    opened, hanging = open_transactions(places, coordinator)
    findings.extend([*coordinator.findings, *(finding for place in places for finding in place.findings), *hanging])
    yield from map(as_columns, producer_lines(places, opened))
    for transactional_id in coordinator.ids:
        names = transaction_partitions(transactional_id)
        yield as_columns(transactional_id_line(transactional_id)) | {"partitions": names}


def _metadata(partitions: Sequence[Partition], findings: list[Finding]) -> Iterator[Row]:
    for partition in partitions:
        log = MetadataLog(partition)
        for _, _, path in log.snapshots:
            for event in log.snapshot_events(path, findings):
                yield _event(event, path)
        for event in log.events(findings):
            yield _event(event, partition.path)


def _event(event: MetadataEvent, path: str) -> Row:
    if event.is_control:
        ((name, data),) = control_json(event.record).items()
        version = event.record.version
    else:
        fields = framed_json(event.record)
        name, version, data = str(fields["type"]), fields["version"], fields.get("data", {"raw": fields.get("raw")})
    line = MetadataLine(
        file=path,
        offset=event.offset,
        epoch=event.epoch,
        timestamp=event.timestamp,
        is_control=event.is_control,
        type=name,
        version=version,
        data=json.dumps(data),
    )
    return as_columns(line)


def _znodes(paths: Sequence[str], findings: list[Finding]) -> Iterator[Row]:
    replay = tree_at(open_zookeeper(*paths))
    findings.extend(replay.findings)
    for path, node in sorted(replay.tree.nodes.items()):
        yield as_columns(znode_line(path, node)) | {"data": node.data}
