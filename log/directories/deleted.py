"""What a broker has deleted and not yet removed, for reading: `.deleted` segments, and directories that await removal.

A consumer never sees it; who asks for it gets it separately from live data (`LocalLog.deleteSegmentFiles`,
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

__all__ = ["deleted_partitions", "deleted_segments"]


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


def deleted_partitions(inventory: Inventory) -> tuple[Partition, ...]:
    """What was deleted, as partitions: `-delete` directories, and of others the `.deleted` segments alone."""
    found = []
    for partition in inventory.partitions:
        if partition.state is DirectoryState.DELETE:
            found.append(partition)
        segments = deleted_segments(partition)
        if segments:
            found.append(Partition(partition.path, partition.name, segments, metadata=partition.metadata))
    return tuple(found)
