"""What a broker has deleted and not yet removed, for reading.

These are `.deleted` segments, directories that await removal, and records of live segments below the log start offset
(`DeleteRecords`: `UnifiedLog.maybeIncrementLogStartOffset` moves the start, and removes whole segments only).  A
consumer never sees them; who asks for them gets them separately from live data (`LocalLog.deleteSegmentFiles`,
`LogManager.asyncDelete`).
"""

from __future__ import annotations

import os
import stat

from kafkalog.codec.names import DELETED, DirectoryState, FileKind, parse_segment_file
from kafkalog.log.directories.inventory import Inventory
from kafkalog.log.directories.partition import Partition
from kafkalog.log.disk.files import status_of
from kafkalog.log.walk.segment import Segment

__all__ = ["below_log_start", "deleted_partitions", "deleted_segments"]


def deleted_segments(partition: Partition) -> tuple[Segment, ...]:
    """The `.deleted` log files of a partition directory, by base offset; raises `StorageError`."""
    found = []
    for path in partition.unfinished:
        parsed = parse_segment_file(os.path.basename(path))
        if parsed is None or parsed.kind is not FileKind.LOG or parsed.pending != DELETED:
            continue
        status = status_of(path)
        if status is not None and stat.S_ISREG(status.st_mode):
            files, sizes = {FileKind.LOG: path}, {FileKind.LOG: status.st_size}
            found.append(Segment(parsed.base_offset, path, status.st_size, status.st_mtime_ns, files, sizes))
    return tuple(sorted(found, key=lambda segment: (segment.base_offset, segment.path)))


def below_log_start(partition: Partition) -> Partition | None:
    """The live segments that begin below the log start offset, as a view that ends there; None if there are none."""
    start = partition.log_start_offset
    segments = tuple(each for each in partition.segments if each.base_offset < start)
    if partition.state is not DirectoryState.LIVE or not segments:
        return None
    return Partition(partition.path, partition.name, segments, metadata=partition.metadata, deleted_below=start)


def deleted_partitions(inventory: Inventory) -> tuple[Partition, ...]:
    """What was deleted, as partitions.

    `-delete` directories, of others the `.deleted` segments alone, and records below the log start offset.
    """
    found = []
    for partition in inventory.partitions:
        if partition.state is DirectoryState.DELETE:
            found.append(partition)
        segments = deleted_segments(partition)
        if segments:
            found.append(Partition(partition.path, partition.name, segments, metadata=partition.metadata))
        below = below_log_start(partition)
        if below is not None:
            found.append(below)
    return tuple(found)
