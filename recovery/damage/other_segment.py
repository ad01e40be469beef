"""Find out whether a sound segment is another one than its time index and a producer snapshot were made of: that of
another day or copy, which was put in its place.
"""

from __future__ import annotations

import os
from dataclasses import replace

from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.limits import Limits
from kafkalog.codec.files.index_files import decode_time_index, read_producer_snapshot, used_time_entries
from kafkalog.codec.model import BatchHeader
from kafkalog.codec.names import parse_segment_file
from kafkalog.log.directories.partition import Partition
from kafkalog.log.disk.files import FileSource
from kafkalog.log.walk.on_damage import SKIP

__all__ = ["OTHER_SEGMENT", "other_segment"]

OTHER_SEGMENT = "perhaps another segment than its time index and producer snapshot were made of"


def other_segment(partition: Partition, time_index: str, limits: Limits) -> str | None:
    """Return a clause that contains `OTHER_SEGMENT` if no entry of the time index at this path has the timestamp of
    a batch of its segment, and a producer snapshot contradicts the batch at the last offset of a producer that it
    lists: another last offset, sequence number, producer or timestamp. None if one of both fits or is missing, or if
    the segment is damaged. Raises `StorageError` if a file cannot be read.
    """
    bases = [segment.base_offset for segment in partition.segments]
    parsed = parse_segment_file(os.path.basename(time_index))
    if parsed is None or parsed.base_offset not in bases:
        return None
    number = bases.index(parsed.base_offset)
    alone = replace(partition, segments=partition.segments[number : number + 1])
    reader = alone.batches(on_damage=SKIP, limits=limits)
    headers = [batch.header for batch in reader if isinstance(batch.header, BatchHeader)]
    with FileSource(time_index) as file:
        entries = decode_time_index(file.read(0, min(file.size, limits.snapshot_bytes)))
    entries = entries[: used_time_entries(entries)]
    fits = {entry.timestamp for entry in entries} & {header.max_timestamp for header in headers}
    if reader.findings or not headers or fits:
        return None
    for path in partition.snapshots:
        try:
            with FileSource(path) as source:
                listed = list(read_producer_snapshot(source, source=path, limits=limits))
        except FormatError:
            continue
        name = parse_segment_file(os.path.basename(path))
        for entry in listed:
            last = entry.last_offset
            batch = next((header for header in headers if header.base_offset <= last <= header.last_offset), None)
            if batch is None or name is None:
                continue
            markers = (header for header in headers if header.is_control and header.producer_id == entry.producer_id)
            times = {batch.max_timestamp}
            times |= {marker.max_timestamp for marker in markers if last < marker.base_offset < name.base_offset}
            found = batch.last_offset, batch.producer_id, batch.last_sequence
            if found != (entry.last_offset, entry.producer_id, entry.last_sequence) or entry.timestamp not in times:
                snapshot = os.path.basename(path)
                return f"the log is {OTHER_SEGMENT} ({snapshot}): look for another copy before they are made again"
    return None
