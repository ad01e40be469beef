"""Search the files of some nodes for signs that the quorum has committed metadata beyond the end of a metadata log."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from kafkalog.cluster.kraft.metadata_image import MetadataImage
from kafkalog.cluster.kraft.metadata_log import MetadataLog
from kafkalog.cluster.kraft.quorum_log import QuorumLog
from kafkalog.codec.common.limits import Limits
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

__all__ = ["sign_of_newer_metadata"]


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
    """Return a sentence if the topic (by its id, or by its name if no id is known) or the number of `partition` is not
    in the metadata, or if its latest leader epoch is above the one in the metadata. Otherwise return None.
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
