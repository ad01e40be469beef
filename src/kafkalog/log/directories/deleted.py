"""Find data that a broker has deleted but not yet removed: `.deleted` segments, directories that wait for removal or
were put out of service, and records of live segments below the log start offset. `DeleteRecords` raises the start, but
removes whole segments only (`UnifiedLog.maybeIncrementLogStartOffset`). Consumers never get such data, and callers get
it separately from live data (`LocalLog.deleteSegmentFiles`, `LogManager.asyncDelete`, `LogManager.addStrayLog`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

from kafkalog.codec.names import CLEANED, DELETED, SWAP, DirectoryState, FileKind, parse_segment_file
from kafkalog.log.directories.inventory import Inventory
from kafkalog.log.directories.partition import Partition
from kafkalog.log.disk.files import status_of
from kafkalog.log.walk.segment import Segment

__all__ = ["below_log_start", "deleted_partitions", "deleted_segments", "first_base_after_swaps"]


def deleted_segments(partition: Partition) -> tuple[Segment, ...]:
    """Return the segments of a partition directory whose log file a broker renamed to `.deleted`, sorted by base
    offset. They have no index files. A file that no longer exists or is not a regular one is skipped. Raises
    `StorageError` if a file cannot be examined.
    """
    segments = []
    for path in partition.unfinished:
        parsed = parse_segment_file(os.path.basename(path))
        if parsed is None or parsed.kind is not FileKind.LOG or parsed.pending != DELETED:
            continue
        status = status_of(path)
        if status is not None and stat.S_ISREG(status.st_mode):
            files, sizes = {FileKind.LOG: path}, {FileKind.LOG: status.st_size}
            segments.append(Segment(
                base_offset=parsed.base_offset, path=path, size=status.st_size, modified_ns=status.st_mtime_ns,
                files=files, sizes=sizes,
            ))  # fmt: skip
    return tuple(sorted(segments, key=lambda segment: (segment.base_offset, segment.path)))


def first_base_after_swaps(names: Iterable[str]) -> int | None:
    """Return the lowest base offset of the logs that are live after a start, from the file names of a partition
    directory: live logs, and `.swap` logs of a compaction with a base offset below that of every `.cleaned` file
    (`LogLoader.removeTempFilesAndCollectSwapFiles`). None if there are none.
    """
    files = [parsed for parsed in map(parse_segment_file, names) if parsed is not None]
    cleaned = min((file.base_offset for file in files if file.pending == CLEANED), default=None)
    logs = (file for file in files if file.is_live_log or (file.kind is FileKind.LOG and file.pending == SWAP))
    return min(
        (log.base_offset for log in logs if log.is_live_log or cleaned is None or log.base_offset < cleaned),
        default=None,
    )


def below_log_start(partition: Partition) -> Partition | None:
    """Return a view of the partition with only the segments that begin below its log start offset. Return None if there
    are no such segments or the directory is not live. The last of them may hold live records too, so `deleted_below` is
    set to the log start offset.
    """
    start = partition.log_start_offset
    segments = tuple(segment for segment in partition.segments if segment.base_offset < start)
    if partition.state is not DirectoryState.LIVE or not segments:
        return None
    metadata, limits = partition.metadata, partition.limits
    return Partition(
        partition.path, partition.name, segments, metadata=metadata, deleted_below=start, limits=limits
    )


def deleted_partitions(inventory: Inventory) -> tuple[Partition, ...]:
    """Return the deleted data of an inventory as partitions, in the order of the inventory; empty if there is none. A
    directory may give several partitions:

    (1) A `-delete` or `-stray` directory is returned unchanged. (2) A directory with `.deleted` segments gives a
    partition of only those segments. (3) A live directory with segments below its log start offset gives the view of
    `below_log_start`. Raises `StorageError` if a `.deleted` file cannot be examined.
    """
    deleted = []
    for partition in inventory.partitions:
        if partition.state in (DirectoryState.DELETE, DirectoryState.STRAY):
            deleted.append(partition)
        segments = deleted_segments(partition)
        if segments:
            metadata, limits = partition.metadata, partition.limits
            deleted.append(Partition(partition.path, partition.name, segments, metadata=metadata, limits=limits))
        below = below_log_start(partition)
        if below is not None:
            deleted.append(below)
    return tuple(deleted)
