"""Find partitions in the brokers' directories that the metadata does not have, so that no broker will lead them.

A KRaft broker takes such a directory out of service when it starts (`LogManager.isStrayKraftReplica`): 3.3 to 3.6
delete it, 3.7 and later rename it to `-stray`. With ZooKeeper it stays, without a leader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from msgspec import Struct, field

from kafkalog.codec.common.errors import FormatError, StorageError
from kafkalog.codec.names import CLUSTER_METADATA_TOPIC, DirectoryState
from kafkalog.jobs.triage.logs import BrokerDisks, topic_id_of
from kafkalog.jobs.triage.memory import Memory
from kafkalog.log.directories.directory import LogDir
from kafkalog.log.directories.partition import Partition
from kafkalog.log.directories.selection import Selection

__all__ = ["UnknownPartition", "unknown_partitions"]


class UnknownPartition(Struct, frozen=True, kw_only=True):
    """A partition directory of a partition that the metadata does not know."""

    topic: str
    """its topic"""
    partition: int
    """its number"""
    node: int
    """the broker that has it"""
    path: str
    """the partition directory"""
    topic_id: str | None
    """as `partition.metadata` says; null without it"""
    start: int
    """log start offset"""
    end: int
    """log end offset"""
    why: str = field(name="reason")
    """what the metadata says instead, in words"""
    known_to: str | None = None
    """another copy of the metadata log that knows the partition; null without one"""


def unknown_partitions(
    log_dirs: Iterable[LogDir], memory: Memory, disks: Mapping[int, BrokerDisks], select: Selection
) -> list[UnknownPartition]:
    """Return the live partition directories that the metadata does not have, sorted by topic, partition and broker.

    Only directories whose broker is known and partitions that `select` accepts are examined, without the metadata log.
    Topics that the metadata shows as deleted are omitted, and misidentified partitions (`BrokerDisks`). Start and end
    are offsets after the broker's simulated start, else on disk. Raises `StorageError` if a copy of the metadata log
    cannot be read.
    """
    unknown = []
    for log_dir in log_dirs:
        node = None if log_dir.meta_properties is None else log_dir.meta_properties.node_id
        if node is None:
            continue
        for partition in log_dir.partitions:
            name = partition.name
            if name is None or partition.state is not DirectoryState.LIVE or name.topic == CLUSTER_METADATA_TOPIC:
                continue
            broker = disks.get(node)
            is_misidentified = broker is not None and (name.topic, name.partition) in broker.misidentified
            if is_misidentified or not select.takes(name.topic, name.partition):
                continue
            topic_id = topic_id_of(partition.path)
            why = memory.unknown(name.topic, name.partition, topic_id)
            if why is not None:
                known_to = memory.known_elsewhere(name.topic, name.partition, topic_id)
                start, end = _bounds(partition, broker)
                unknown.append(
                    UnknownPartition(
                        topic=name.topic,
                        partition=name.partition,
                        node=node,
                        path=partition.path,
                        topic_id=topic_id,
                        start=start,
                        end=end,
                        why=why,
                        known_to=known_to,
                    )
                )
    return sorted(unknown, key=lambda partition: (partition.topic, partition.partition, partition.node, partition.path))


def _bounds(partition: Partition, disks: BrokerDisks | None) -> tuple[int, int]:
    """Return log start offset and log end offset: as the broker's simulated start leaves them, or as they are on disk
    if the start does not load the log. The end equals the start if the log cannot be read.
    """
    key = partition.topic or "", partition.partition or 0
    log = None if disks is None else disks.logs.get(key)
    if log is not None and log.path == partition.path:
        return log.start, log.end
    with suppress(StorageError, FormatError):
        return partition.log_start_offset, partition.log_end_offset()
    return partition.log_start_offset, partition.log_start_offset
