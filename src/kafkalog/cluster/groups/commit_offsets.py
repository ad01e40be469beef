"""Writing of a consumer group's offsets into `__consumer_offsets`, in the coordinator's format, without a broker."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from kafkalog.cluster.cross_check import KnownTopic, known_from_image
from kafkalog.cluster.groups.group_places import DEFAULT_PARTITIONS, partition_count, refuse_other_count
from kafkalog.cluster.groups.groups import read_groups
from kafkalog.cluster.groups.offsets import read_offsets
from kafkalog.cluster.kraft.metadata_log import MetadataLog
from kafkalog.cluster.records.coordinator_records import (
    CONSUMER_OFFSETS_TOPIC,
    TOPICS,
    CoordinatorRecord,
    encode_record,
)
from kafkalog.cluster.records.messages import Decoded
from kafkalog.cluster.rules.java import coordinator_partition
from kafkalog.codec.common.arguments import check_fields, checked
from kafkalog.codec.common.errors import FormatError, UsageError
from kafkalog.codec.common.findings import Severity
from kafkalog.codec.names import (
    CLUSTER_METADATA_DIRECTORY,
    PartitionName,
)
from kafkalog.log.directories.identities import read_meta_properties
from kafkalog.log.directories.partition import Partition, open_partition, read_partition
from kafkalog.log.disk.files import PathLike
from kafkalog.log.writing.broker_directories import BrokerDirectories, directories_of_one_broker
from kafkalog.log.writing.config import LogConfig
from kafkalog.log.writing.incoming import NewRecord
from kafkalog.log.writing.partition_counts import PartitionCounts
from kafkalog.log.writing.session import locked_directories
from kafkalog.log.writing.writer import Log

__all__ = ["GroupOffsets", "OffsetAndMetadata", "commit_offsets"]

_TYPE = 1
_VALUE_VERSION = 3
"""the one that 2.1 and later write"""
_NONE = -1
_LARGEST_METADATA = 4096
"""`offset.metadata.max.bytes`"""
_LARGEST = 2**31 - 1
_SEGMENT_BYTES = 104_857_600
"""`offsets.topic.segment.bytes`"""


class OffsetAndMetadata(Struct, frozen=True):
    """The offset that a group commits for a partition, that is the next offset that it will read."""

    offset: int
    metadata: str = ""
    """the consumer's own words, at most 4096 bytes in UTF-8"""
    leader_epoch: int = _NONE
    """of the record before the offset, -1 unknown"""

    def __post_init__(self) -> None:
        check_fields(self)


Paths = PathLike | Sequence[PathLike]
"""a log directory, or all those of a broker"""
Committed = Mapping[tuple[str, int], int | OffsetAndMetadata | None]
"""(topic, partition) -> offset; None takes the group's offset back"""


def _known(directories: BrokerDirectories) -> tuple[KnownTopic | None, int | None]:
    """Find `__consumer_offsets` in the cluster's metadata; return the facts about the topic, and the node id of the
    broker whose directory has the metadata.

    Returns (None, None) if no directory has `__cluster_metadata-0`. The topic is None if the metadata does not know it.
    The node id is None if `meta.properties` is missing or invalid. Raises `FormatError` if the metadata log has an
    error, `UsageError` if it has no segment, `StorageError` if a file cannot be read.
    """
    places = (os.path.join(root, CLUSTER_METADATA_DIRECTORY) for root in directories.roots)
    path = next(filter(os.path.isdir, places), None)
    if path is None:
        return None, None
    state = MetadataLog(open_partition(path)).state()
    for finding in state.findings:
        if finding.severity is Severity.ERROR:  # what it says of the topic may be wrong
            raise FormatError(finding.detail, source=finding.file, code=finding.code)
    known = known_from_image(state.image).get(CONSUMER_OFFSETS_TOPIC)
    try:
        meta = read_meta_properties(os.path.dirname(path))
    except FormatError:
        return known, None
    return known, None if meta is None else meta.node_id


def _records(group: str, offsets: Committed, now_ms: int) -> Iterator[NewRecord]:
    name, key_layout, value_layouts = TOPICS[CONSUMER_OFFSETS_TOPIC][_TYPE]
    for (topic, partition), new_offset in offsets.items():
        fields = {"group": group, "topic": topic, "partition": partition}
        key = Decoded(key_layout, key_layout.versions[-1], fields, 0)
        value = None
        if new_offset is not None:
            commit = new_offset if isinstance(new_offset, OffsetAndMetadata) else OffsetAndMetadata(new_offset)
            _check(topic, partition, commit)
            value = Decoded(
                value_layouts[0],
                _VALUE_VERSION,
                {
                    "offset": commit.offset,
                    "leader_epoch": commit.leader_epoch,
                    "metadata": commit.metadata,
                    "commit_timestamp": now_ms,
                },
                0,
            )
        raw_key, raw_value = encode_record(CoordinatorRecord(_TYPE, name, None, None, key, value))
        yield NewRecord(raw_value, raw_key, now_ms)


def _check(topic: str, partition: int, commit: OffsetAndMetadata) -> None:
    if not 0 <= partition <= _LARGEST:
        raise UsageError(f"there is no partition {partition} of {topic}")
    if commit.offset < 0:
        raise UsageError(f"offset {commit.offset} of {topic}-{partition} is negative")
    if len(commit.metadata.encode("utf-8", "surrogatepass")) > _LARGEST_METADATA:
        raise UsageError(f"the metadata of {topic}-{partition} has more than {_LARGEST_METADATA} bytes")


def commit_offsets(
    path: PathLike | Sequence[PathLike],
    group: str,
    offsets: Mapping[tuple[str, int], int | OffsetAndMetadata | None],
    *,
    offsets_topic_num_partitions: int | None = None,
    timestamp: int | None = None,
) -> int:
    """Commit offsets of a group into the log directory `path`; return the number of the partition of
    `__consumer_offsets` to which they were written.

    It is the partition that the group id maps to. The number of partitions is read from the cluster's metadata in the
    directory; without metadata it is `offsets_topic_num_partitions`, or 50. `path` must exist; if the broker has
    several log directories, pass all of them. The partition is created if it is missing.

    An offset of None deletes the group's offset. `timestamp` is the time of the commit in ms since 1970, by default
    now. Everything is written as one batch and flushed. Raises `UsageError` for an invalid offset, group or number of
    partitions, if a directory is missing, the directories are not of one broker, or a broker or another writer has one
    open, if the existing groups are in partitions that another number of partitions would give, if the group's
    partition is on other brokers, and if the metadata log has no segment. Raises `FormatError` if the cluster's
    metadata, a `meta.properties` or the log is damaged. Raises `RecoveryRefused` if a recovery of a directory has not
    ended. Raises `StorageError` for I/O errors.

    * `group`: the group id
    * `offsets`: (topic, partition) -> offset, or offset with metadata
    """
    return _commit(path, group, offsets, offsets_topic_num_partitions, timestamp, look=True)


def _commit(
    path: Paths, group: str, offsets: Committed, given: int | None, timestamp: int | None, *, look: bool
) -> int:
    """Implement `commit_offsets`; return the number of the partition of `__consumer_offsets` that was written. Locks
    the directories, creates the partition if it is missing, appends one batch (none if `offsets` is empty) and flushes
    it.

    `path` is a log directory, or a sequence with all directories of a broker. `offsets` maps (topic, partition) to an
    offset, with or without metadata; None deletes the group's offset. `given` is the number of partitions that the
    caller passed, or None. `timestamp` is in ms since 1970; None means now. If `look` is True and no metadata states
    the number of partitions, all groups in the directories are read and compared with it (`refuse_other_count`).

    Raises the errors of `commit_offsets`.
    """
    if not group:
        raise UsageError("a group needs a name")
    now_ms = time.time_ns() // 1_000_000 if timestamp is None else timestamp
    records = list(_records(group, offsets, now_ms))
    roots = directories_of_one_broker(path, may_make=False)
    with locked_directories(roots):
        directories = BrokerDirectories(roots)
        known, node_id = _known(directories)
        count = _count(directories, known, given, group if look else None)
        number = coordinator_partition(group, count)
        name = PartitionName(CONSUMER_OFFSETS_TOPIC, number)
        replicas = known.partitions[number].replicas if known is not None and number in known.partitions else None
        if replicas is not None and node_id is not None and node_id not in replicas:
            raise UsageError(
                f"{name}, where group {group} belongs, is not on broker {node_id}, but on {sorted(replicas)}"
            )
        topic_id = known.topic_id if known is not None else directories.known_topic_id(name.topic)
        directory = directories.path_of(name.topic, number)
        config = LogConfig(segment_bytes=_SEGMENT_BYTES)
        with Log.open(directory, config, topic_id=None if os.path.isdir(directory) else topic_id) as log:
            log.append(records)
            log.flush()
    return number


def _count(directories: BrokerDirectories, known: KnownTopic | None, given: int | None, group: str | None) -> int:
    """Return the number of partitions of `__consumer_offsets`: from the cluster's metadata, else `given`, else 50.
    Raises `UsageError` if `given` differs from the metadata.

    If the metadata does not state the number, the result is checked. Raises `UsageError` if `given` is below 1, or if
    the directories have a partition whose number is not below the result. If `group` (the group to write) is not None,
    the existing groups are read too, and `refuse_other_count` raises `UsageError` if the result does not suit them.
    Raises `StorageError` if a directory cannot be listed or a file cannot be read.
    """
    if known is not None and known.partitions:
        if given is not None and given != len(known.partitions):
            raise UsageError(
                f"{CONSUMER_OFFSETS_TOPIC} has {len(known.partitions)} partitions according to the cluster's metadata, "
                f"and offsets_topic_num_partitions is {given}"
            )
        return len(known.partitions)
    option, wanted = "offsets_topic_num_partitions", given
    if wanted is None:
        option, wanted = f"{option}, which was not given,", DEFAULT_PARTITIONS
    counts = PartitionCounts(directories.counts(), wanted, option)
    if group is not None:
        _refuse_other_count(directories, group, wanted)
    return counts[CONSUMER_OFFSETS_TOPIC]


def _here(directories: BrokerDirectories) -> list[Partition]:
    """Open the partitions of `__consumer_offsets` in the directories; those without segments are omitted. Raises
    `StorageError` if a directory cannot be listed or a file cannot be read.
    """
    partitions = [
        read_partition(directories.path_of(topic, number), PartitionName(topic, number), None)
        for topic, number in directories.there()
        if topic == CONSUMER_OFFSETS_TOPIC
    ]
    return [partition for partition in partitions if partition.segments]


def _refuse_other_count(directories: BrokerDirectories, group: str, count: int) -> None:
    here = _here(directories)
    places = [(each.group_id, each.log_partition) for each in read_groups(here).groups]
    refuse_other_count(group, places, [partition.partition or 0 for partition in here], count)


@checked()
class GroupOffsets:
    """The offsets of one group in the `__consumer_offsets` of a broker, from which a `Consumer` resumes."""

    def __init__(self, path: Paths, group: str, *, offsets_topic_num_partitions: int | None = None) -> None:
        self.path = path
        self.group = group
        self._count = offsets_topic_num_partitions
        self._looked = False

    def load(self) -> dict[tuple[str, int], int]:
        """Read the group's committed offsets from disk; return them by (topic, partition). Empty if it committed
        nothing, or if its partition of `__consumer_offsets` does not exist and nothing shows that it did. Commits of
        open transactions and negative offsets do not count.

        Raises `UsageError` if a directory is missing, if the directories are not of one broker, or if
        `offsets_topic_num_partitions` is needed and below 1. Raises `FormatError` if the group's partition is lost or
        was not read completely, because consumers would restart too early. It is raised too for a malformed
        `meta.properties` of one of several directories; that of a single directory is not read. Raises `StorageError`
        if a file cannot be read.
        """
        directories = BrokerDirectories(directories_of_one_broker(self.path, may_make=False))
        here = _here(directories)
        committed_offsets = read_offsets(here)
        places = {(commit.key.group, commit.log_partition) for commit in committed_offsets.committed}
        known = committed_offsets.logs.count or self._count
        count = partition_count(places, committed_offsets.logs.read) if known is None else known
        why = committed_offsets.logs.why_partial(coordinator_partition(self.group, count))
        if why is not None:
            raise FormatError(f"the offsets of group {self.group} are not known: {why}", source=str(directories))
        return {
            (commit.key.topic, commit.key.partition): commit.offset
            for commit in committed_offsets.committed
            if commit.key.group == self.group and commit.is_commit
        }

    def commit(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit offsets for the group, as `commit_offsets` does; its errors are raised. The partitions of other groups
        are checked until a call has succeeded.
        """
        _commit(self.path, self.group, dict(offsets), self._count, None, look=not self._looked)
        self._looked = True  # from now on the group's own place keeps others from another number
