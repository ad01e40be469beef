"""Restore whole tiered logs in a log directory: write the remote segments that are missing or damaged locally."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import cache

from msgspec import Struct

from kafkalog.codec.common.findings import StopReason
from kafkalog.codec.files.text import (
    OffsetCheckpointEntry,
    PartitionMetadata,
    encode_leader_epochs,
    encode_offset_checkpoint,
    encode_partition_metadata,
)
from kafkalog.codec.names import (
    CLEAN_SHUTDOWN_FILE,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    REMOTE_LOG_METADATA_TOPIC,
    FileKind,
    PartitionName,
    parse_segment_file,
    segment_file,
)
from kafkalog.jobs.restore.beginning import beginning_of, is_missed, local_logs
from kafkalog.log.directories.directory import open_log_dir
from kafkalog.log.directories.partition import Partition
from kafkalog.log.directories.selection import ALL, Selection
from kafkalog.log.disk.remote_file import RemoteFile
from kafkalog.log.walk.on_damage import SKIP
from kafkalog.log.walk.segment import Segment
from kafkalog.recovery.act.fs import PIECE, FileSystem, own_file
from kafkalog.recovery.facts.topic_facts import read_topic_facts
from kafkalog.tiers.both_tiers import BothTiers
from kafkalog.tiers.lineage import RemoteStretch
from kafkalog.tiers.remote_tier import RemoteTier

__all__ = ["BroughtBack", "bring_back"]

Key = tuple[str, int]


class BroughtBack(Struct, frozen=True, kw_only=True):
    """Result for one log."""

    name: str
    segments: int
    size: int
    is_new: bool
    """whether nothing of the log was local"""


def bring_back(root: str, tier: RemoteTier, select: Selection = ALL, *, keep_remote: bool = False) -> list[BroughtBack]:
    """Write missing and damaged segments of the tiered logs into a log directory that no other process uses. The old
    files of these segments, except producer snapshots, are removed. Return the logs that were written, sorted by topic
    and partition. A log without local files is restored if the cluster's metadata places it on this broker. It is
    restored also if the metadata or the broker's id is unknown. With `keep_remote` such a log gets no segments and
    begins, empty, after its remote part.

    If anything was written, the clean-shutdown marker is removed, and new logs get entries in the log-start checkpoint;
    neither is done after an error. Raises `StorageError` if a file cannot be read or written, or an object cannot be
    read or differs from the copied segment. A log may be incomplete then.
    """
    facts = read_topic_facts([root])
    both = BothTiers(root, tier, facts.tiering.remote)
    log_dir = open_log_dir(root, tolerant=True)
    local = dict(local_logs(log_dir))
    backs = []
    with FileSystem(root) as fs:
        for key in sorted(both.listed):
            topic, number = key
            is_meant = select.takes(topic, number) and topic != REMOTE_LOG_METADATA_TOPIC
            if is_meant and (key in local or is_missed(key, facts)):
                begins = keep_remote and key not in local
                backs.append(_begin_after(fs, both, key) if begins else _bring_back(fs, both, key, local.get(key)))
        written = [back for back in backs if back.segments or (back.is_new and both.copied(_key(back.name)))]
        if written and fs.status(CLEAN_SHUTDOWN_FILE) is not None:
            fs.remove(CLEAN_SHUTDOWN_FILE)
        _add_log_starts(fs, both, [back for back in written if back.is_new], log_dir.log_start_offsets)
        fs.sync_directory("")
    return written


def _key(name: str) -> Key:
    topic, _, number = name.rpartition("-")
    return topic, int(number)


def _bring_back(fs: FileSystem, both: BothTiers, key: Key, partition: Partition | None) -> BroughtBack:
    name = str(PartitionName(*key))
    stretches = list(_wanted(both.copied(key), partition))
    if partition is None and stretches:
        _new_directory(fs, both, key)
    size = 0
    for stretch in stretches:
        base = stretch.segment.start_offset
        for file_name in fs.names(name):
            parsed = parse_segment_file(file_name)
            if parsed is not None and parsed.base_offset == base and parsed.kind is not FileKind.PRODUCER_SNAPSHOT:
                fs.remove(f"{name}/{file_name}")
        file, item = both.log_of(key, stretch)
        path = f"{name}/{segment_file(base, FileKind.LOG)}"
        try:
            fs.write_new(path, _pieces(file), file.size, own_file())
            size += file.size
        finally:
            file.close()
        fs.set_mtime(path, item.modified_ns)
    if stretches:
        fs.sync_directory(name)
    return BroughtBack(name=name, segments=len(stretches), size=size, is_new=partition is None)


def _new_directory(fs: FileSystem, both: BothTiers, key: Key) -> None:
    name = str(PartitionName(*key))
    fs.make_directory(name, 0o755)
    _write(fs, f"{name}/{LEADER_EPOCH_CHECKPOINT}", encode_leader_epochs(both.epochs(key)))
    topic_id = both.listed[key][0].topic_id
    _write(fs, f"{name}/{PARTITION_METADATA}", encode_partition_metadata(PartitionMetadata(0, topic_id)))


def _begin_after(fs: FileSystem, both: BothTiers, key: Key) -> BroughtBack:
    """Write the files of an empty log that begins after its remote part; write nothing if it has no remote part. Return
    the result for the log, with 0 segments. Raises `StorageError` as `beginning_of` does, or if writing fails.
    """
    begun = beginning_of(both, key)
    if begun is not None:
        fs.make_directory(begun.name, 0o755)
        for name, data in begun.files.items():
            _write(fs, f"{begun.name}/{name}", data)
        fs.sync_directory(begun.name)
    return BroughtBack(name=str(PartitionName(*key)), segments=0, size=0, is_new=True)


def _wanted(copied: list[RemoteStretch], partition: Partition | None) -> Iterator[RemoteStretch]:
    """Yield the remote stretches (offset ranges of a segment) that must be written locally, in order. They are
    stretches below the first local segment, and whole segments that are damaged or shorter locally. Others are segments
    that begin where the local log ends or has a gap. Each stretch ends before the next local segment. `copied` are the
    remote stretches in order; all are yielded if the partition has no local segments. Reads the local segments; raises
    `StorageError` if that fails.
    """
    if partition is None or not partition.segments:
        yield from copied
        return
    bases = [segment.base_offset for segment in partition.segments]
    known, reached = set(bases), cache(lambda number: _reached(partition, partition.segments[number]))
    written = 0
    for stretch in copied:
        start, last = stretch.segment.start_offset, stretch.last
        if stretch.first < bases[0]:
            last = min(last, bases[0] - 1)
        else:
            number = bisect_right(bases, start if start in known else stretch.first) - 1
            if number + 1 < len(bases):
                last = min(last, bases[number + 1] - 1)
            if bases[number] == start:
                is_whole = stretch.last == stretch.segment.end_offset
                is_lacking = is_whole and _sound_end(partition.segments[number]) <= last
            else:
                is_lacking = stretch.first == start == max(written, reached(number))
            if not is_lacking:
                continue
        yield RemoteStretch(stretch.first, last, stretch.segment)
        written = last + 1


def _sound_end(segment: Segment) -> int:
    """Return the offset after the last batch of a segment: the base offset without batches, -1 if it is damaged. Raises
    `StorageError` if it cannot be read.
    """
    end = segment.base_offset
    with segment.scanner() as scanner:
        for batch in scanner:
            end = batch.last_offset + 1
        return end if scanner.stop is StopReason.END and not scanner.findings else -1


def _reached(partition: Partition, segment: Segment) -> int:
    """Return the offset after the highest sound batch of a segment, also after damage; its base offset without one."""
    batches = Partition(partition.path, partition.name, (segment,)).batches(on_damage=SKIP)
    return max((batch.last_offset + 1 for batch in batches), default=segment.base_offset)


def _pieces(file: RemoteFile) -> Iterator[tuple[int, bytes]]:
    for position in range(0, file.size, PIECE):
        yield position, file.read(position, PIECE)


def _add_log_starts(fs: FileSystem, both: BothTiers, new: list[BroughtBack], known: Mapping[Key, int]) -> None:
    """Add the log start offsets of the logs `new` to the checkpoint, because a broker assumes 0 without an entry.
    `known` are the existing entries, which are kept. If an entry is new, the file is replaced atomically. Raises
    `StorageError` if it cannot be written.
    """
    starts = dict(known)
    for brought_back in new:
        key = _key(brought_back.name)
        starts.setdefault(key, both.copied(key)[0].first)
    if starts != known:
        entries = [OffsetCheckpointEntry(*key, offset) for key, offset in sorted(starts.items())]
        fs.put(LOG_START_OFFSET_CHECKPOINT, encode_offset_checkpoint(entries), own_file())


def _write(fs: FileSystem, path: str, data: bytes) -> None:
    fs.write_new(path, [(0, data)], len(data), own_file())
