"""Build empty logs that begin after their part in remote storage, as a follower does if the beginning of a log is
remote.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.common.findings import StopReason
from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.files.text import LeaderEpoch, PartitionMetadata, encode_leader_epochs, encode_partition_metadata
from kafkalog.codec.names import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, FileKind, PartitionName, segment_file
from kafkalog.log.directories.directory import LogDir
from kafkalog.log.directories.partition import Partition
from kafkalog.recovery.facts.topic_facts import TopicFacts
from kafkalog.tiers.both_tiers import BothTiers

__all__ = ["Beginning", "beginning_of", "is_missed", "local_logs", "sound_end"]

Key = tuple[str, int]


class Beginning(Struct, frozen=True, kw_only=True):
    """Files of a partition directory whose log is empty and begins after its remote part."""

    name: str
    log_start: int
    """first remote offset"""
    end: int
    """offset after the last remote one"""
    files: Mapping[str, bytes]
    """content of all files by name, the log first"""


def beginning_of(both: BothTiers, key: Key, log_start: int | None = None) -> Beginning | None:
    """Return the files of an empty log that begins after its remote part; None if the partition has no remote part.
    Nothing is written. `log_start` is the log start offset; if it is None, the first remote offset is used. Reads the
    last remote segment's objects. Raises `StorageError` if this segment is missing or unreadable, if it differs from
    the copied one, or if its producer snapshot is above the limit.
    """
    stretches = both.copied(key)
    if not stretches:
        return None
    last = stretches[-1]
    both.log_of(key, last)[0].close()
    end = last.last + 1
    start = stretches[0].first if log_start is None else log_start
    files = {
        **{segment_file(end, kind): b"" for kind in (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)},
        LEADER_EPOCH_CHECKPOINT: encode_leader_epochs(_from_start(both.epochs(key), start)),
        PARTITION_METADATA: encode_partition_metadata(PartitionMetadata(0, both.listed[key][0].topic_id)),
    }
    listed = next(listed_segment for listed_segment in both.listed[key] if listed_segment.id == last.segment.id)
    item = listed.objects.get(FileKind.PRODUCER_SNAPSHOT)
    if item is not None and last.until is None:
        file = both.tier.open(item)
        try:
            if file.size > DEFAULT_LIMITS.snapshot_bytes:
                raise StorageError(None, f"a producer snapshot of {file.size} bytes is larger than any", item.path)
            files[segment_file(end, FileKind.PRODUCER_SNAPSHOT)] = file.read(0, file.size)
        finally:
            file.close()
    return Beginning(name=str(PartitionName(*key)), log_start=start, end=end, files=files)


def _from_start(epochs: Sequence[LeaderEpoch], start: int) -> list[LeaderEpoch]:
    """Leader epochs as a broker truncates them at the log start offset (`LeaderEpochFileCache.truncateFromStart`):
    earlier ones are dropped, and the one at `start` begins there.
    """
    number = bisect_right(epochs, start, key=lambda epoch: epoch.start_offset) - 1
    return [LeaderEpoch(epoch.epoch, max(epoch.start_offset, start)) for epoch in epochs[max(number, 0) :]]


def is_missed(key: Key, facts: TopicFacts) -> bool:
    """Whether a log that is missing here belongs to this broker according to the metadata. True also if the metadata or
    the broker's id is unknown.
    """
    return facts.node_id is None or facts.source is None or facts.node_id in facts.replicas.get(key, ())


def sound_end(partition: Partition, remote_end: int) -> tuple[int, bool]:
    """Find the end of the local segment that continues the remote part. Return (offset after its last valid batch,
    whether the segment ends in damage).

    The segment is the last one with a base offset up to `remote_end`; without one, (0, True) is returned. The offset is
    the base offset if the segment has no valid batch. Damage in earlier segments is ignored, because the remote tier
    has their records. Raises `StorageError` if the segment cannot be read.
    """
    segment = next((segment for segment in reversed(partition.segments) if segment.base_offset <= remote_end), None)
    if segment is None:
        return 0, True
    end = segment.base_offset
    with segment.scanner() as scanner:
        for batch in scanner:
            end = batch.last_offset + 1
        return end, scanner.stop is not StopReason.END or bool(scanner.findings)


def local_logs(log_dir: LogDir) -> Iterator[tuple[Key, Partition]]:
    """Yield ((topic, partition), log) for the live logs that have exactly one directory here."""
    for key in log_dir:
        if len(log_dir.live(*key)) == 1:
            yield key, log_dir[key]
