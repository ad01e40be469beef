"""Search the files of some nodes for signs that the quorum has committed metadata beyond the end of a metadata log."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence

from kafkalog.cluster.kraft.metadata_image import MetadataImage
from kafkalog.cluster.kraft.metadata_log import MetadataLog
from kafkalog.cluster.kraft.quorum_log import QuorumLog
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.names import (
    CLUSTER_METADATA_TOPIC,
    LEADER_EPOCH_CHECKPOINT,
    QUORUM_STATE,
    REPLICATION_OFFSET_CHECKPOINT,
    DirectoryState,
)
from kafkalog.log.directories.directory import LogDir, open_log_dir
from kafkalog.log.directories.partition import Partition, open_partition
from kafkalog.log.storage.producers.snapshots import snapshot_offsets, within_reach

__all__ = ["older_voters", "sign_of_newer_metadata"]

_FENCED_OR_NOT = ("RegisterBrokerRecord", "BrokerRegistrationChangeRecord", "UnfenceBrokerRecord")


def sign_of_newer_metadata(
    best: QuorumLog, logs: Sequence[QuorumLog], limits: Limits, beside: Sequence[str] = ()
) -> str | None:
    """Return a sentence with the first sign that the log `best` is older than the quorum's last commit; None without
    such a sign.

    Signs are: an epoch, a snapshot or a checkpointed high watermark beyond the end of `best` in any file; and
    partitions with a topic or a leader epoch that its metadata lacks, because controllers record both before a broker
    learns of them. Topics whose deletion the log records do not count. A sign does not prove it: an election may have
    ended without a record, and a topic may have been deleted before the log's first record. `logs` are all copies that
    the caller has, `beside` further log directories of their nodes; all log directories are listed, and the metadata of
    `best` is read if one of them has partitions. Raises `StorageError` if a metadata directory or the log of `best`
    cannot be read.
    """
    return next(_signs(best, logs, limits, beside), None)


def _signs(best: QuorumLog, logs: Sequence[QuorumLog], limits: Limits, beside: Sequence[str]) -> Iterator[str]:
    for log in logs:
        if log.elected_epoch > max(best.epoch, log.epoch):
            path = os.path.join(log.directory, QUORUM_STATE)
            yield f"{path} knows epoch {log.elected_epoch}, of which no record is here"
        for snapshot in log.snapshots:
            if snapshot.end > best.end:
                yield f"{os.path.join(log.directory, snapshot.file)} ends at offset {snapshot.end}"
        yield from _signs_beside(best, open_partition(log.directory, limits=limits))
    roots = (*(log.root for log in logs), *beside)
    directories = [open_log_dir(root, tolerant=True, limits=limits) for root in roots]
    for directory in directories:
        watermark = directory.high_watermarks.get((CLUSTER_METADATA_TOPIC, 0), 0)
        if watermark > best.end:
            path = os.path.join(directory.path, REPLICATION_OFFSET_CHECKPOINT)
            yield f"{path} knows {watermark} as the high watermark of the metadata"
    partitions = [partition for directory in directories for partition in _live(directory)]
    if partitions:
        metadata = MetadataLog(open_partition(best.directory, limits=limits), limits)
        image = metadata.state().image
        signs = [(partition, sign) for partition in partitions if (sign := _newer(partition, image)) is not None]
        removed = metadata.removed_topics() if signs else frozenset()
        yield from (sign for partition, sign in signs if _topic_id(partition) not in removed)


def older_voters(
    best: QuorumLog, logs: Sequence[QuorumLog], voters: Collection[int], limits: Limits = DEFAULT_LIMITS
) -> Mapping[int | None, str]:
    """Return a clause for each voter whose copy lacks what it once had, as the log `best` shows: the copy comes from a
    backup, for example. The key is the node id; the clause says what shows it. Empty if the other voters are a majority
    of `voters`: they have everything that was committed.

    A voter records the epoch before it votes or leads. A broker that also is a voter is put into service only after its
    own metadata log has its registration. The offset of the registration is the broker's epoch
    (`BrokerHeartbeatManager`). `logs` are the copies of one cluster; of a voter's copies, the one that goes furthest
    counts. Damaged copies, and copies that go as far as `best`, are not older. Raises `StorageError` if the log of
    `best` cannot be read.
    """
    able = [log for log in logs if log.node in voters and (log.is_static or log.is_voter) and log.refusal is None]
    sound = {log.node: log for log in sorted(able, key=lambda log: log.position) if not log.is_damaged}
    behind = {node: log for node, log in sound.items() if node is not None and log.end < best.end}
    in_service = _in_service(best, limits) if behind else {}
    older: dict[int | None, str] = {}
    for node, log in sorted(behind.items()):
        voted = max((term.epoch for term in best.terms if node in (term.leader, *term.granting)), default=-1)
        registered = in_service.get(node, -1)
        if log.end <= registered < best.end:
            older[node] = (
                f"it ends at offset {log.end}, and node {node} had it up to its registration at offset {registered}"
            )
        elif log.state is not None and log.latest_epoch < voted:
            older[node] = f"it knows epoch {log.latest_epoch}, and node {node} voted in epoch {voted}"
    return {} if 2 * (len(sound) - len(older)) > len(voters) else older


def _in_service(log: QuorumLog, limits: Limits) -> dict[int, int]:
    """Return the epoch of the last registration of each broker that was not fenced in it, by broker id. Raises
    `StorageError` if the log cannot be read.
    """
    metadata = MetadataLog(open_partition(log.directory, limits=limits), limits)
    start = log.start
    image = metadata.state(start).image if start else MetadataImage()
    epochs = {broker.id: broker.epoch for broker in image.brokers.values() if not broker.fenced}
    for event in metadata.events([], start):
        if event.is_control:
            continue
        image.apply(event.record)
        if event.record.name in _FENCED_OR_NOT:
            epochs |= {broker.id: broker.epoch for broker in image.brokers.values() if not broker.fenced}
    return epochs


def _signs_beside(best: QuorumLog, partition: Partition) -> Iterator[str]:
    """Yield a sentence for each sign, in the files beside a metadata log, that this log was newer than `best`. Signs
    are producer snapshots whose name, an end offset of the log, is above the end of `best`, and leader epochs above the
    epoch of `best`. Snapshots at offsets that the last segment cannot reach are ignored: they are damage.
    """
    last_base = partition.segments[-1].base_offset if partition.segments else 0
    names = map(os.path.basename, partition.snapshots)
    for offset in within_reach(last_base, snapshot_offsets(names)):
        if offset > best.end:
            yield f"by its producer snapshots {partition.path} went to offset {offset}"
    for entry in partition.leader_epochs:
        if entry.epoch > best.epoch:
            yield f"{os.path.join(partition.path, LEADER_EPOCH_CHECKPOINT)} knows epoch {entry.epoch}"


def _live(directory: LogDir) -> list[Partition]:
    return [
        partition
        for partition in directory.partitions
        if partition.state is DirectoryState.LIVE and partition.topic not in (None, CLUSTER_METADATA_TOPIC)
    ]


def _topic_id(partition: Partition) -> str | None:
    return None if partition.metadata is None else partition.metadata.topic_id


def _newer(partition: Partition, image: MetadataImage) -> str | None:
    """Return a sentence if the metadata does not have the topic or the number of `partition`. The topic is found by its
    id, or by its name if no id is known. Return one also if the partition's latest leader epoch is above the one in the
    metadata. Otherwise return None.
    """
    topic_id = _topic_id(partition)
    name = partition.topic if topic_id is None else image.topic_names.get(topic_id)
    topic = image.topics.get(name or "")
    known = None if topic is None else topic.partitions.get(partition.partition or 0)
    if known is None:
        return f"{partition.path} is of a topic or partition that is not in this metadata: it was deleted, or is newer"
    epoch = max((entry.epoch for entry in partition.leader_epochs), default=-1)
    if epoch > known.leader_epoch:
        return f"{partition.path} has leader epoch {epoch}, and this metadata knows {known.leader_epoch}"
    return None
