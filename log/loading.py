"""Opening an existing partition for writing (`LogLoader`), without ever throwing anything away.

After an orderly close the indexes are believed, as a broker believes them.  After a crash the segments from the
recovery point on are read and their indexes rebuilt.  Damage is not repaired here: what to do about it is for
`kafkalog recover`, which keeps the bytes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from kafkalog.codec.errors import FormatError, UsageError
from kafkalog.codec.findings import FindingCode, Severity
from kafkalog.codec.index_files import (
    TIME_ENTRY,
    decode_offset_index,
    decode_time_index,
    used_offset_entries,
    used_time_entries,
)
from kafkalog.codec.model import NO_TIMESTAMP, BatchHeader, RecordBatch
from kafkalog.codec.names import (
    CLEANED,
    DELETED,
    INDEX_KINDS,
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    SWAP,
    TEMPORARY,
    FileKind,
    parse_segment_file,
    segment_file,
)
from kafkalog.codec.rules import Continuity
from kafkalog.codec.scan import Scanner
from kafkalog.log import fs
from kafkalog.log.config import LogConfig
from kafkalog.log.files import FileSource, scan_directory
from kafkalog.log.incoming import marker_in
from kafkalog.log.partition import Partition
from kafkalog.log.storage.disk import Disk
from kafkalog.log.storage.java import JavaError
from kafkalog.log.storage.leader_epochs import LeaderEpochFileCache
from kafkalog.log.storage.producer_appends import ProducerAppends
from kafkalog.log.storage.producers import ProducerStateManager
from kafkalog.log.storage.segment import LogSegment

__all__ = ["Loaded", "SealedSegment", "load", "open_segment", "remove_leftovers", "seal"]

_ADVICE = "; let `kafkalog recover` decide what to keep, then open it again"


@dataclass(frozen=True, slots=True)
class SealedSegment:
    """A segment that is written no more, until a truncation."""

    base_offset: int
    size: int
    largest_timestamp: int
    """ms; without timestamps the time of the last change, as Kafka's retention takes it"""


@dataclass(slots=True)
class Loaded:
    """A log that can be appended to."""

    sealed: list[SealedSegment]
    active: LogSegment
    end_offset: int
    log_start_offset: int


def open_segment(
    disk: Disk, directory: str, base_offset: int, config: LogConfig, now_ms: int, *, create: bool
) -> LogSegment:
    """A segment to be appended to; raises `FormatError` where appending would make things worse."""
    try:
        segment = LogSegment(disk, directory, base_offset, config, create=create, created_ms=now_ms, indexes_first=True)
    except JavaError as error:
        raise FormatError(f"{error}{_ADVICE}", source=directory) from error
    if segment.transaction_index.torn_bytes:
        segment.close_handlers()
        source = segment.path(FileKind.TRANSACTION_INDEX)
        raise FormatError("a transaction index with a torn entry", source=source, code="index_invalid")
    if create and config.preallocate:
        segment.reserve(config.segment_bytes)
    return segment


def seal(segment: LogSegment) -> SealedSegment:
    """What remains to be known of a segment that another one follows."""
    largest = segment.largest_timestamp
    if largest < 0:
        largest = os.stat(segment.path(FileKind.LOG)).st_mtime_ns // 1_000_000
    return SealedSegment(segment.base_offset, segment.log.size, largest)


def _indexes_make_sense(segment: LogSegment) -> bool:
    """The entries increase and point into the log."""
    offsets = decode_offset_index(segment.offset_index.content())
    times = decode_time_index(segment.time_index.content())
    return (
        used_offset_entries(offsets) == len(offsets)
        and used_time_entries(times) == len(times)
        and (not offsets or offsets[-1].position < segment.log.size)
    )


def remove_leftovers(directory: str) -> None:
    """Remove what a deletion, a replacement or a roll left unfinished; `LogLoader` removes an index without its log."""
    names = [entry.name for entry in scan_directory(directory)]
    for name in names:
        base = name.removesuffix(DELETED).removesuffix(TEMPORARY)
        ours = base in (LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA) or parse_segment_file(base) is not None
        if (base != name and ours) or _is_orphan(name, names):
            fs.remove(os.path.join(directory, name))


def _is_orphan(name: str, names: list[str]) -> bool:
    parsed = parse_segment_file(name)
    if parsed is None or parsed.pending or parsed.kind not in INDEX_KINDS:
        return False
    return segment_file(parsed.base_offset, FileKind.LOG) not in names


def _refuse_oddities(directory: str) -> None:
    for entry in scan_directory(directory):
        parsed = parse_segment_file(entry.name)
        if parsed is not None and parsed.pending in (SWAP, CLEANED):
            raise UsageError(f"{entry.path} is from a compaction that was interrupted{_ADVICE}")
        if parsed is not None and not parsed.pending and entry.name != segment_file(parsed.base_offset, parsed.kind):
            raise UsageError(f"{entry.path} is not named as Kafka names it{_ADVICE}")


class _Loader:
    def __init__(self, partition: Partition, config: LogConfig, now_ms: int) -> None:
        self.directory = partition.path
        self.bases = [segment.base_offset for segment in partition.segments]
        self.config = config
        self.now_ms = now_ms
        self.rebuilt: set[int] = set()
        self.end = self.bases[0]

    def walk(self, segment: LogSegment, epochs: LeaderEpochFileCache, next_base: int | None, *, rebuild: bool) -> None:
        """Read one segment, rebuilding its indexes; raises `FormatError` where it is damaged."""
        path = segment.path(FileKind.LOG)
        continuity = Continuity(segment.base_offset, next_segment=next_base)
        if rebuild:
            segment.begin_rebuild()
            self.rebuilt.add(segment.base_offset)
        with FileSource(path) as source:
            scanner = Scanner(source)
            for batch in scanner:
                for finding in continuity.check(batch):
                    if finding.severity is Severity.ERROR or finding.code is FindingCode.OFFSET_NOT_INCREASING:
                        raise FormatError(
                            finding.detail + _ADVICE, position=batch.position, source=path, code=finding.code
                        )
                if rebuild:
                    segment.index_batch(batch, batch.position, while_there_is_room=True)
                    self.epoch(batch, epochs)
                self.end = batch.header.next_offset
            for finding in scanner.findings:
                raise FormatError(finding.detail + _ADVICE, position=finding.position, source=path, code=finding.code)
        if rebuild:
            segment.end_rebuild()

    @staticmethod
    def epoch(batch: RecordBatch, epochs: LeaderEpochFileCache) -> None:
        header = batch.header
        latest = epochs.latest_epoch
        if isinstance(header, BatchHeader) and header.partition_leader_epoch > (-1 if latest is None else latest):
            epochs.assign(header.partition_leader_epoch, header.base_offset)

    def sealed(self, base_offset: int) -> SealedSegment:
        """A segment that is not looked into."""
        log = os.path.join(self.directory, segment_file(base_offset, FileKind.LOG))
        times = os.path.join(self.directory, segment_file(base_offset, FileKind.TIME_INDEX))
        status = os.stat(log)
        timestamp = NO_TIMESTAMP
        with FileSource(times) as source:
            if source.size >= TIME_ENTRY.size:
                at = (source.size // TIME_ENTRY.size - 1) * TIME_ENTRY.size
                timestamp = TIME_ENTRY.struct.unpack(source.read(at, TIME_ENTRY.size))[0]
        return SealedSegment(
            base_offset, status.st_size, timestamp if timestamp >= 0 else status.st_mtime_ns // 1_000_000
        )

    def replay(self, producers: ProducerStateManager, segment: LogSegment | None, base: int, start: int) -> None:
        """Feed the batches from offset `start` on to the producers; `segment` if its transaction index is rebuilt."""
        path = os.path.join(self.directory, segment_file(base, FileKind.LOG))
        with FileSource(path) as source:
            for batch in Scanner(source, check_crc=False):
                header = batch.header
                if not isinstance(header, BatchHeader) or not header.has_producer_id or header.base_offset < start:
                    continue
                append = ProducerAppends(producers)
                marker = marker_in(batch) if header.is_control else None
                try:
                    append.add(header, lambda marker=marker: marker)  # type: ignore[misc]
                    append.take_over(None if segment is None else segment.transaction_index)
                except JavaError as error:
                    raise FormatError(f"{error}{_ADVICE}", position=batch.position, source=path) from error
        if segment is not None:
            segment.transaction_index.store()


def load(
    disk: Disk,
    partition: Partition,
    config: LogConfig,
    epochs: LeaderEpochFileCache,
    producers: ProducerStateManager,
    *,
    clean: bool,
    recovery_point: int,
    log_start_checkpoint: int,
    now_ms: int,
) -> Loaded:
    """The log of a directory with a segment; raises `FormatError` or `UsageError` where it needs recovery."""
    _refuse_oddities(partition.path)
    loader = _Loader(partition, config, now_ms)
    bases = loader.bases
    log_start = max(bases[0], log_start_checkpoint)
    unflushed = bases[max((n for n, base in enumerate(bases) if base <= recovery_point), default=0)]
    sealed: list[SealedSegment] = []
    writers: dict[int, LogSegment] = {}
    try:
        for number, base in enumerate(bases):
            is_last = number == len(bases) - 1
            kinds = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)
            indexed = all(os.path.lexists(os.path.join(partition.path, segment_file(base, kind))) for kind in kinds)
            if indexed and not is_last and (clean or base < unflushed):
                sealed.append(loader.sealed(base))
                continue
            segment = writers[base] = open_segment(disk, partition.path, base, config, now_ms, create=False)
            loader.end = max(loader.end, base)
            rebuild = not (clean and indexed and _indexes_make_sense(segment))
            loader.walk(segment, epochs, None if is_last else bases[number + 1], rebuild=rebuild)
            if not is_last:
                sealed.append(seal(segment))
        end = max(loader.end, bases[-1])
        if log_start > end:
            raise UsageError(f"the log start offset {log_start} lies after the log's end {end}{_ADVICE}")
        epochs.truncate_from_end(end)
        epochs.truncate_from_start(log_start_checkpoint)
        _load_producers(loader, producers, writers, log_start, end)
        active = writers.pop(bases[-1])
        for segment in writers.values():
            segment.flush()
            segment.close_handlers()
        return Loaded(sealed, active, end, log_start)
    except BaseException as error:
        for segment in writers.values():
            segment.close_handlers()
        if isinstance(error, JavaError):
            raise FormatError(f"{error}{_ADVICE}", source=partition.path) from error
        raise


def _load_producers(
    loader: _Loader, producers: ProducerStateManager, writers: dict[int, LogSegment], log_start: int, end: int
) -> None:
    producers.truncate_and_reload(log_start, min(loader.rebuilt, default=end))
    start = producers.map_end_offset
    for number, base in enumerate(loader.bases):
        following = loader.bases[number + 1] if number + 1 < len(loader.bases) else end
        if following <= start and base not in loader.rebuilt:
            continue
        if base in loader.rebuilt and base > start:
            producers.set_map_end(base)
            producers.take_snapshot()
        if base in loader.rebuilt:
            loader.replay(producers, writers[base], base, min(start, base))
        else:
            loader.replay(producers, None, base, start)
    producers.set_map_end(end)
    producers.on_high_watermark_updated(end)
    producers.take_snapshot()
