"""Find out whether a sound segment is another one than its time index and a producer snapshot were made of: that of
another day or copy, which was put in its place.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left, bisect_right
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
    """Return a clause that contains `OTHER_SEGMENT` if the time index at this path was perhaps made of another segment
    than its own. This is so if no entry of the index has the largest timestamp of a batch of the segment, and some
    producer snapshot contradicts a batch. Such a snapshot lists a producer whose last offset is in the batch, and the
    batch has another last offset, sequence number, producer or timestamp. Another timestamp does not count if a later
    transaction marker of the producer has it, below the snapshot's offset.

    None otherwise. None also if the segment is missing, is damaged or has no batch of magic 2. Snapshots that are
    damaged are ignored. Raises `StorageError` if a file cannot be read.
    """
    bases = [segment.base_offset for segment in partition.segments]
    parsed = parse_segment_file(os.path.basename(time_index))
    if parsed is None or parsed.base_offset not in bases:
        return None
    number = bases.index(parsed.base_offset)
    alone = replace(partition, segments=partition.segments[number : number + 1])
    with FileSource(time_index) as file:
        entries = decode_time_index(file.read(0, min(file.size, limits.snapshot_bytes)))
    times = {entry.timestamp for entry in entries[: used_time_entries(entries)]}
    reader = alone.batches(on_damage=SKIP, limits=limits)
    columns = firsts, ends, stamps, ids, sequences = tuple(array("q") for _column in range(5))
    markers: dict[tuple[int, int], list[int]] = {}
    for batch in reader:
        header = batch.header
        if not isinstance(header, BatchHeader):
            continue
        if header.max_timestamp in times:
            return None
        if header.is_control:
            markers.setdefault((header.producer_id, header.max_timestamp), []).append(header.base_offset)
        row = header.base_offset, header.last_offset, header.max_timestamp, header.producer_id, header.last_sequence
        for column, value in zip(columns, row, strict=True):
            column.append(value)
    if reader.findings or not ends:
        return None
    for path in partition.snapshots:
        name = parse_segment_file(os.path.basename(path))
        try:
            with FileSource(path) as source:
                listed = list(read_producer_snapshot(source, source=path, limits=limits)) if name is not None else []
        except FormatError:
            continue
        for entry in listed:
            last = entry.last_offset
            place = bisect_left(ends, last)
            if place == len(ends) or last < firsts[place]:
                continue
            of_entry = markers.get((entry.producer_id, entry.timestamp), [])
            after = bisect_right(of_entry, last)
            is_marked = name is not None and after < len(of_entry) and of_entry[after] < name.base_offset
            is_same = (ends[place], ids[place], sequences[place]) == (last, entry.producer_id, entry.last_sequence)
            if not is_same or not (is_marked or entry.timestamp == stamps[place]):
                snapshot = os.path.basename(path)
                return f"the log is {OTHER_SEGMENT} ({snapshot}): look for another copy before they are made again"
    return None
