"""Find the segment, batch and position of an offset or a time in the log itself, and check the indexes for it. The
rules are those of `LogSegment.translateOffset`, `UnifiedLog.fetchOffsetByTimestamp`, `OffsetIndex.lookup` and
`TimeIndex.lookup`. The index entry that a broker would use is compared with the log; a wrong entry makes a finding.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.limits import Limits
from kafkalog.codec.derive import FixedLayout
from kafkalog.codec.files.index_files import OFFSET_ENTRY, TIME_ENTRY, OffsetEntry, TimeEntry
from kafkalog.codec.model import NO_TIMESTAMP, BatchHeader, RecordBatch
from kafkalog.codec.names import FileKind
from kafkalog.codec.plain.insides import Insides, look_inside
from kafkalog.codec.plain.records import decode_batch
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log.directories.partition import Look, Partition, first_since
from kafkalog.log.directories.side_files import read_side_file
from kafkalog.log.disk.files import FileSource, NotRegularFileError
from kafkalog.log.disk.remote_file import MissingFileError
from kafkalog.log.reading.readable import OffsetAndTimestamp
from kafkalog.log.walk.on_damage import SKIP, STOP
from kafkalog.log.walk.segment import Segment, index_of
from kafkalog.log.walk.sliced import Sliced, run_slices

__all__ = ["Located", "index_findings_of_offset", "index_findings_of_time", "locate", "looking_for_newest", "newest"]


class Located(Struct, frozen=True, kw_only=True):
    """The batch with which a fetch from an offset begins: the first whose last offset is not below it."""

    segment: str
    """path of the log file"""
    segment_base_offset: int
    position: int
    size: int
    """size of the batch in bytes"""
    base_offset: int
    last_offset: int
    leader_epoch: int
    """-1 if unknown"""
    is_there: bool
    """whether the batch has a record of that offset; compaction may have removed it, and markers are not records"""
    is_control: bool
    record_timestamp: int | None
    """timestamp of that record in ms; None without it"""
    insides: Insides = Insides.NOT_EXAMINED
    """whether all records of the batch can be decoded"""


def locate(partition: Partition, offset: int, *, through_damage: bool = False) -> tuple[Located | None, list[Finding]]:
    """Return the batch with which a fetch from `offset` begins, and the findings up to that batch and in it. Damage
    before it ends the search, as it ends a consumer's reading; with `through_damage` the search continues after the
    damage. The batch is None if the log or the search ends before the offset. Raises `StorageError` if a file cannot be
    read.
    """
    reader = partition.batches(start_offset=offset, on_damage=SKIP if through_damage else STOP)
    for batch in reader:
        if batch.last_offset >= offset and reader.segment is not None:
            insides, finding = look_inside(batch, limits=partition.limits)
            findings = [] if finding is None else [finding.in_file(reader.segment.path)]
            located = _located(reader.segment, batch, offset, insides, partition.limits)
            return located, [*reader.findings, *findings]
    return None, list(reader.findings)


def _located(segment: Segment, batch: RecordBatch, offset: int, insides: Insides, limits: Limits) -> Located:
    header = batch.header
    records = decode_batch(batch, limits=limits).records
    record_there = next((record for record in records if record.offset == offset), None)
    is_v2 = isinstance(header, BatchHeader)
    first = header.base_offset if isinstance(header, BatchHeader) else min(
        [record.offset for record in records], default=batch.last_offset
    )  # fmt: skip
    return Located(
        segment=segment.path,
        segment_base_offset=segment.base_offset,
        position=batch.position,
        size=batch.size,
        base_offset=first,
        last_offset=batch.last_offset,
        leader_epoch=header.partition_leader_epoch if is_v2 else -1,
        is_there=record_there is not None,
        is_control=header.is_control,
        record_timestamp=None if record_there is None else record_there.timestamp,
        insides=insides,
    )


def newest(partition: Partition, *, through_damage: bool = False) -> tuple[OffsetAndTimestamp | None, list[Finding]]:
    """Return the first record with the largest timestamp (`ListOffsetsRequest.MAX_TIMESTAMP`) from the log start offset
    on, and the findings. The record is None if the log has no timestamps or the record cannot be read. Damage ends the
    search, unless `through_damage`. Raises `StorageError` if a file cannot be read.
    """
    return run_slices(looking_for_newest(partition, through_damage=through_damage))


def looking_for_newest(
    partition: Partition, *, through_damage: bool = False, look: Look = first_since
) -> Sliced[tuple[OffsetAndTimestamp | None, list[Finding]]]:
    """Generator that yields None after each batch, so that the caller can pause. Its return value is a record and the
    findings. Records from the log start offset on that can be read are considered, control records too. The result is
    the first one with the largest timestamp; None if none of them has a timestamp.

    `look` searches a batch for the first record with at least a given timestamp. The log's headers are read first, and
    then the batch with the largest timestamp in its header is searched. If it has no such record, the log is read
    again. Every batch with a larger timestamp in its header than the best record so far is then searched; batches that
    cannot be decoded are reported in the findings. Damage ends the reading, or is skipped with `through_damage`. Raises
    `StorageError` if a file cannot be read.
    """
    start = partition.log_start_offset
    reader = partition.batches(start_offset=start, on_damage=SKIP if through_damage else STOP)
    newest_batch, largest = None, NO_TIMESTAMP
    for batch in reader:
        yield
        if batch.header.max_timestamp > largest:
            newest_batch, largest = batch, batch.header.max_timestamp
    findings = list(reader.findings)
    if newest_batch is None:
        return None, findings
    best = look(newest_batch, largest, start, partition.limits)
    if isinstance(best, OffsetAndTimestamp) and best.timestamp == largest:
        return best, findings
    best, reader = None, partition.batches(start_offset=start, on_damage=SKIP if through_damage else STOP)
    for batch in reader:
        yield
        largest = batch.header.max_timestamp
        if largest > (NO_TIMESTAMP if best is None else best.timestamp):
            result = look(batch, largest, start, partition.limits)
            if isinstance(result, Finding):
                findings.append(result if reader.segment is None else result.in_file(reader.segment.path))
            elif result is None:
                best = _newest_below(batch, largest, start, partition.limits, look, best)
            elif result.timestamp == largest:
                best = result
    return best, findings


def _newest_below(
    batch: RecordBatch, largest: int, start: int, limits: Limits, look: Look, best: OffsetAndTimestamp | None
) -> OffsetAndTimestamp | None:
    """Search a batch whose largest timestamp, `largest`, belongs to no record from offset `start` on: that record is
    below `start` or was removed. Of the records from `start` on, return the first one with their largest timestamp. If
    this is not above the timestamp of `best` (-1 for None), return `best`.
    """
    low, high = NO_TIMESTAMP if best is None else best.timestamp, largest
    while high - low > 1:
        middle = (low + high) // 2
        result = look(batch, middle, start, limits)
        if isinstance(result, OffsetAndTimestamp):
            best, low = result, result.timestamp
        else:
            high = middle
    return best


def _wrong(path: str, position: int, detail: str) -> Finding:
    return Finding(FindingCode.INDEX_ENTRY_MISMATCH, Severity.ERROR, position, None, detail, path)


def _last_at_most(
    index: FileSource, layout: FixedLayout, wanted: int, column: int
) -> tuple[int, tuple[int, ...]] | None:
    """Return slot number and fields of the last index entry whose first field is at most `wanted`; None if there is
    none. The entry is found by a broker's binary search. An entry in which field number `column` is not positive was
    never written: it counts as greater, except in slot 0. An entry that is no longer in the file is read as zeros.
    Raises `StorageError` if the index cannot be read.
    """

    def slot(number: int) -> tuple[int, ...]:
        data = index.read(number * layout.size, layout.size)
        return layout.struct.unpack(bytes(data).ljust(layout.size, b"\0"))

    low, high = -1, index.size // layout.size
    while high - low > 1:
        middle = (low + high) // 2
        fields = slot(middle)
        unwritten = middle > 0 and fields[column] <= 0
        if not unwritten and fields[0] <= wanted:
            low = middle
        else:
            high = middle
    return None if low < 0 else (low, slot(low))


def _opened(segment: Segment, kind: FileKind) -> Iterator[tuple[FileSource, FileSource, str]]:
    """Yield the opened index of this kind, the opened log and the index's path, once; both files are closed afterwards.
    Yield nothing if one of the files is missing or not a regular file. Raises `StorageError` for other errors.
    """
    path = segment.files.get(kind)
    if path is None:
        return
    try:
        with FileSource(path) as index, segment.open() as log:
            yield index, log, path
    except (MissingFileError, NotRegularFileError):
        return


def index_findings_of_offset(partition: Partition, offset: int) -> list[Finding]:
    """Return findings about the offset index of the segment in which `offset` is or would be. They are about entries
    that are out of order, and a size that is not a multiple of an entry's. Another is about the entry that a broker
    would use for `offset`. This entry is wrong if no valid batch begins at its position, or if the batch there begins
    after the entry's offset. An entry of zeros is accepted. Return an empty list if the index is sound or missing, or
    the log has no segments. Raises `StorageError` if a file cannot be read.
    """
    if not partition.segments:
        return []
    segment = partition.segments[index_of(partition.segments, offset)]
    findings = _disorder(segment, FileKind.OFFSET_INDEX)
    for index, log, path in _opened(segment, FileKind.OFFSET_INDEX):
        entry = _last_at_most(index, OFFSET_ENTRY, offset - segment.base_offset, 1)
        if entry is None:
            continue
        slot, (relative, position) = entry[0], OffsetEntry(*entry[1])
        if (relative, position) == (0, 0):
            continue
        key = segment.base_offset + relative
        batch = next(iter(Scanner(log, position=position)), None) if 0 <= position < log.size else None
        if batch is None:
            detail = f"an entry says that offset {key} is at position {position}, where no batch of the log begins"
            findings.append(_wrong(path, slot * OFFSET_ENTRY.size, detail))
        elif _first(batch) > key:  # several batches that were appended at once have one entry, of the last offset
            detail = (
                f"an entry says that offset {key} is at position {position}, where the log has offsets {_first(batch)} "
                f"to {batch.last_offset}"
            )
            findings.append(_wrong(path, slot * OFFSET_ENTRY.size, detail))
    return findings


def index_findings_of_time(partition: Partition, timestamp: int) -> list[Finding]:
    """Return findings about the time indexes that a broker would use to find `timestamp` (ms): entries that contradict
    the log, entries out of order, and a size that is not a multiple of an entry's. Return an empty list if nothing is
    wrong.

    A broker begins at the log start offset. It uses the first segment whose last entry has this timestamp or a later
    one, and otherwise the last segment. In its index, the entry that the broker finds and the last entry are checked.
    In earlier segments only the last entry is checked; later segments are not checked. A missing index and an entry of
    zeros are accepted. Raises `StorageError` if a file cannot be read.
    """
    findings: list[Finding] = []
    for segment in partition.segments[index_of(partition.segments, partition.log_start_offset) :]:
        reaches = segment is partition.segments[-1]
        for index, log, path in _opened(segment, FileKind.TIME_INDEX):
            entry = _last_at_most(index, TIME_ENTRY, timestamp, 0)
            last = _last_at_most(index, TIME_ENTRY, 1 << 62, 0)
            reaches = reaches or (last is not None and last[1][0] >= timestamp)
            asked = (entry, last) if reaches else (last,)
            for slot, fields in dict.fromkeys(used for used in asked if used is not None and any(used[1])):
                problem = _time_problem(segment, log, TimeEntry(*fields))
                if problem:
                    findings.append(_wrong(path, slot * TIME_ENTRY.size, problem))
        if reaches:
            return [*findings, *_disorder(segment, FileKind.TIME_INDEX)]
    return findings


def _time_problem(segment: Segment, log: FileSource, entry: TimeEntry) -> str:
    """Return a phrase that says how a time index entry contradicts the log: the log does not reach its offset, or the
    batch there begins after the offset or has another largest timestamp. Return an empty string if the entry agrees.
    Raises `StorageError` if the log cannot be read.
    """
    offset = segment.base_offset + entry.relative_offset
    start = segment.position_of(offset, log)
    batch = next((scanned for scanned in Scanner(log, position=start) if scanned.last_offset >= offset), None)
    says = f"an entry says that the newest timestamp up to offset {offset} is {entry.timestamp}"
    if batch is None:
        return f"{says}, and the log does not reach that offset"
    if batch.header.max_timestamp != entry.timestamp or _first(batch) > offset:
        return f"{says}; the batch with offsets {_first(batch)} to {batch.last_offset} has {batch.header.max_timestamp}"
    return ""


def _disorder(segment: Segment, kind: FileKind) -> list[Finding]:
    path = segment.files.get(kind)
    if path is None:
        return []
    content = read_side_file(path)
    for _ in content.entries:
        pass
    return content.findings


def _first(batch: RecordBatch) -> int:
    """Return the lowest offset that a batch can hold: its base offset, or 0 for magic 0 and 1, because a wrapper's
    header has only its last offset.
    """
    return batch.header.base_offset if isinstance(batch.header, BatchHeader) else 0
