"""Open an existing partition for writing with `LogLoader`, without losing a byte of the log. All segments that a broker
would recover, and the active one, are read first. If one is damaged, nothing is changed: `kafkalog recover` must decide
which bytes to keep. Otherwise the log is loaded as a broker loads it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.common.advice import Advice, Ask, Sentence
from kafkalog.codec.common.errors import FormatError, UsageError
from kafkalog.codec.common.findings import Severity
from kafkalog.codec.files.index_files import (
    ABORTED_TRANSACTION,
    OFFSET_ENTRY,
    TIME_ENTRY,
    decode_offset_index,
    decode_time_index,
    used_offset_entries,
    used_time_entries,
)
from kafkalog.codec.model import NO_TIMESTAMP
from kafkalog.codec.names import (
    CLEANED,
    DELETED,
    INDEX_KINDS,
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    SWAP,
    TEMPORARY,
    FileKind,
    parse_offset,
    parse_segment_file,
    segment_file,
)
from kafkalog.codec.rules.framing import SMALLEST_MESSAGE
from kafkalog.log.directories.partition import Partition
from kafkalog.log.disk import fs
from kafkalog.log.disk.files import FileSource, scan_directory, status_of
from kafkalog.log.disk.remote_file import MissingFileError
from kafkalog.log.storage.disk import Disk
from kafkalog.log.storage.java import JavaError
from kafkalog.log.storage.leader_epochs import LeaderEpochFileCache
from kafkalog.log.storage.loader import LoadRequest, LogLoader
from kafkalog.log.storage.producers.known_producers import ProducerStateManager
from kafkalog.log.storage.segment import LogLossError, LogSegment
from kafkalog.log.walk.first_damage import first_damage
from kafkalog.log.writing.config import LogConfig
from kafkalog.log.writing.rehearsal import rehearse

__all__ = [
    "Loaded",
    "SealedSegment",
    "load",
    "open_segment",
    "refuse_damage",
    "refuse_findings",
    "refuse_tiered",
    "refuse_unfit",
    "remove_leftovers",
    "seal",
    "sealed",
]

_BEGIN_WITH_AN_OFFSET = (FileKind.LOG, *INDEX_KINDS, CLEANED, SWAP)


class SealedSegment(Struct, frozen=True):
    """Facts about a segment that is not written any more, unless a truncation makes it the last."""

    base_offset: int
    size: int
    largest_timestamp: int
    """in ms; without timestamps the modification time, as in Kafka's retention"""


class Loaded(Struct, frozen=True, kw_only=True):
    """State of a log that was loaded for appending."""

    sealed: list[SealedSegment]
    active: LogSegment
    end_offset: int
    log_start_offset: int
    producers: ProducerStateManager


def _advice(directory: str) -> Sentence:
    return Sentence("; ", Advice("let {} decide what to keep, then open it again", Ask.RECOVER, {"root": directory}))


def open_segment(
    disk: Disk, directory: str, base_offset: int, config: LogConfig, now_ms: int, *, create: bool
) -> LogSegment:
    """Open the active segment, and create missing indexes. With `create`, create its log too, and reserve space for a
    full log if `preallocate` is set; `now_ms` is its creation time. Raises `FormatError` if a broker could not open the
    segment, or if its transaction index ends in an incomplete entry. Raises `StorageError` if the log is missing, or
    with `create`, if it exists.
    """
    try:
        segment = LogSegment(disk, directory, base_offset, config, create=create, created_ms=now_ms, indexes_first=True)
    except JavaError as error:
        raise FormatError(Sentence(str(error), _advice(directory)), source=directory) from error
    if segment.transaction_index.torn_bytes:
        segment.close_handlers()
        raise _torn(segment.path(FileKind.TRANSACTION_INDEX))
    if create and config.preallocate:
        segment.reserve(config.segment_bytes)
    return segment


def _torn(path: str) -> FormatError:
    return FormatError("a transaction index with a torn entry", source=path, code="index_invalid")


def _status(log: str) -> os.stat_result:
    status = status_of(log)
    if status is None:
        raise MissingFileError(errno.ENOENT, "there is no such file", log)
    return status


def seal(segment: LogSegment) -> SealedSegment:
    """Return base offset, size and largest timestamp of an open segment. Without timestamps, the timestamp is the
    modification time of the log (ms). Raises `StorageError` if that is needed and the file is missing.
    """
    largest = segment.largest_timestamp
    if largest < 0:
        largest = _status(segment.path(FileKind.LOG)).st_mtime_ns // 1_000_000
    return SealedSegment(segment.base_offset, segment.log.size, largest)


def sealed(segment: LogSegment) -> SealedSegment:
    """Return base offset, size and largest timestamp of an inactive segment. The timestamp comes from the last entry in
    the time index file. If there is no entry, or its timestamp is negative, it is the modification time of the log
    (ms). Raises `StorageError` if the time index cannot be read, or if the time of the log is needed and the log is
    missing.
    """
    timestamp = NO_TIMESTAMP
    with FileSource(segment.path(FileKind.TIME_INDEX)) as source:
        if source.size >= TIME_ENTRY.size:
            position = (source.size // TIME_ENTRY.size - 1) * TIME_ENTRY.size
            timestamp = TIME_ENTRY.struct.unpack(source.read(position, TIME_ENTRY.size))[0]
    if timestamp < 0:
        timestamp = _status(segment.path(FileKind.LOG)).st_mtime_ns // 1_000_000
    return SealedSegment(segment.base_offset, segment.log.size, timestamp)


def remove_leftovers(directory: str) -> None:
    """Remove files that an unfinished deletion or replacement left in a partition directory: segment files, leader
    epoch checkpoint and partition metadata with the suffix `.deleted` or `.tmp`. Other files stay. Raises
    `StorageError` if the directory cannot be listed or a file cannot be removed.
    """
    for entry in scan_directory(directory):
        base = entry.name.removesuffix(DELETED).removesuffix(TEMPORARY)
        ours = base in (LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA) or parse_segment_file(base) is not None
        if base != entry.name and ours:
            fs.remove(entry.path)


def _refuse_oddities(directory: str) -> None:
    for entry in scan_directory(directory):
        parsed = parse_segment_file(entry.name)
        is_ours = parsed is not None or entry.name == LEADER_EPOCH_CHECKPOINT
        if is_ours and not entry.is_file(follow_symlinks=False):
            raise UsageError(Sentence(f"{entry.path} is not a regular file", _advice(directory)))
        if parsed is not None and parsed.pending in (SWAP, CLEANED):
            raise UsageError(Sentence(f"{entry.path} is from a compaction that was interrupted", _advice(directory)))
        if parsed is not None and not parsed.pending and entry.name != segment_file(parsed.base_offset, parsed.kind):
            raise UsageError(Sentence(f"{entry.path} is not named as Kafka names it", _advice(directory)))
        if entry.name.endswith(_BEGIN_WITH_AN_OFFSET) and parse_offset(entry.name) is None:
            fault = "has a name that stops a broker: it does not begin with an offset"
            raise UsageError(Sentence(f"{entry.path} {fault}", _advice(directory)))


class _Check:
    """Check of a partition's segments before it is opened for writing: of all segments that a broker would recover, and
    of the active one. Changes nothing.
    """

    def __init__(self, partition: Partition) -> None:
        self._directory = partition.path
        self._bases = [segment.base_offset for segment in partition.segments]

    def _path(self, base: int, kind: FileKind) -> str:
        return os.path.join(self._directory, segment_file(base, kind))

    def __call__(self, *, clean: bool, recovery_point: int) -> int:
        """Read and verify segments, and return the log end offset. These are the active segment and every segment
        without an offset index. Unless `clean`, all segments from the one that contains `recovery_point` on are read
        too. Raises `FormatError` for the first damage, `StorageError` if a log cannot be read or opened for writing.
        """
        end = self._bases[-1]
        first_unflushed = max((n for n, base in enumerate(self._bases) if base <= recovery_point), default=0)
        for number, base in enumerate(self._bases):
            is_believed = clean or number < first_unflushed
            is_last = number == len(self._bases) - 1
            if is_last or not is_believed or not os.path.lexists(self._path(base, FileKind.OFFSET_INDEX)):
                end = max(end, self.log(base))
        return end

    def log(self, base: int) -> int:
        """Read and verify all batches of the segment with base offset `base`; return its end offset. Raises
        `FormatError` for damage in the log or an incomplete entry at the end of the transaction index. Raises
        `StorageError` if the log cannot be read or opened for writing.
        """
        path, transactions = self._path(base, FileKind.LOG), status_of(self._path(base, FileKind.TRANSACTION_INDEX))
        fs.AppendFile(path, create=False).close()
        if transactions is not None and transactions.st_size % ABORTED_TRANSACTION.size:
            raise _torn(self._path(base, FileKind.TRANSACTION_INDEX))
        with FileSource(path) as source:
            finding, end = first_damage(source, base, next((other for other in self._bases if other > base), None))
        if finding is not None:
            why = Sentence(finding.detail, _advice(self._directory))
            raise FormatError(why, position=finding.position, source=path, code=finding.code)
        return end

    def doubtful_index(self, end: int) -> str | None:
        """Return the path of the active segment's offset index if it or the time index does not fit a log that ends at
        offset `end` (exclusive). An index does not fit if it is too large, is out of order, or has entries after the
        log end. Return None if both fit, or if one is missing and no existing offset index is too large. A broker would
        rely on a wrong index and might start at another end offset. Raises `StorageError` if an index cannot be read.
        """
        base = self._bases[-1]
        path, size = self._path(base, FileKind.OFFSET_INDEX), _status(self._path(base, FileKind.LOG)).st_size
        entries = size // SMALLEST_MESSAGE + 1
        contents = []
        for kind, entry in ((FileKind.OFFSET_INDEX, OFFSET_ENTRY), (FileKind.TIME_INDEX, TIME_ENTRY)):
            if not os.path.lexists(self._path(base, kind)):
                return None
            with FileSource(self._path(base, kind)) as source:
                if source.size > entries * entry.size:
                    return path
                contents.append(source.read(0, source.size // entry.size * entry.size))
        offsets, times = decode_offset_index(contents[0]), decode_time_index(contents[1])
        makes_sense = (
            used_offset_entries(offsets) == len(offsets)
            and used_time_entries(times) == len(times)
            and (not offsets or offsets[-1].position < size)
            and all(base + entries[-1].relative_offset < end for entries in (offsets, times) if entries)
        )
        return None if makes_sense else path


def refuse_damage(partition: Partition, below: int) -> None:
    """Read the segments whose base offset is below `below`. Raises `FormatError` for the first damage, `StorageError`
    if a log cannot be read or opened for writing.
    """
    check = _Check(partition)
    for segment in partition.segments:
        if segment.base_offset < below:
            check.log(segment.base_offset)


def refuse_findings(partition: Partition) -> None:
    """Raise `FormatError` for the first finding of severity ERROR from the listing of a partition."""
    for finding in partition.findings:
        if finding.severity is Severity.ERROR:
            raise FormatError(finding.detail, source=finding.file, code=finding.code)


def refuse_tiered(partition: Partition) -> None:
    """Raise `UsageError` if the log probably begins in a remote tier (`Partition.begins_remotely`). Only a broker can
    record appended segments there.
    """
    if partition.begins_remotely:
        start, last = partition.checkpointed_log_start_offset, partition.segments[0].base_offset - 1
        raise UsageError(
            f"{partition.path} is the local part of a tiered log: offsets {start} to {last} are in the remote tier, "
            "and only a broker can go on with it"
        )


def refuse_unfit(partition: Partition, *, clean: bool, recovery_point: int) -> None:
    """Check a log as `load` does before it rehearses: raise `FormatError` for damage, and `UsageError` for files that
    stop a broker. Changes nothing; `load` may refuse the log for other reasons. `clean` says whether the broker stopped
    in order; otherwise the segments from `recovery_point` on are checked too. Raises `StorageError` for I/O errors.
    """
    refuse_findings(partition)
    if partition.segments:
        _refuse_oddities(partition.path)
        _Check(partition)(clean=clean, recovery_point=recovery_point)


def load(
    disk: Disk,
    partition: Partition,
    request: LoadRequest,
    epochs: LeaderEpochFileCache,
    changing: AbstractContextManager[None],
) -> Loaded:
    """Load the log of a directory that has at least one segment, for appending. First the log is checked, and loading
    is rehearsed on a virtual copy. Then `changing` is entered, and files are changed only inside it: leftover files and
    a wrong index are removed, and missing indexes and producer snapshots are rebuilt.

    Raises `FormatError` for damage that needs `kafkalog recover`. Raises `UsageError` for files that stop a broker, an
    interrupted compaction, or a log start offset after the log end. Raises `StorageError` for I/O errors.
    """
    directory, log_start = request.directory, request.log_start_offset
    _refuse_oddities(directory)
    check = _Check(partition)
    end = check(clean=request.clean, recovery_point=request.recovery_point)
    if log_start > end:
        raise UsageError(Sentence(f"the log start offset {log_start} is after the log end {end}", _advice(directory)))
    request = replace(request, recovery_point=min(request.recovery_point, end), keeps_log=True)
    try:
        loader = LogLoader(disk, replace(request, on_recovered=_put_away), epochs)
    except JavaError as error:
        raise UsageError(f"{directory} holds a snapshot that a broker cannot read: {error}") from error
    doubtful = check.doubtful_index(end) if request.clean else None
    with _refusals(directory):
        ended = rehearse(request, without=doubtful)
    if ended != end:
        why = Sentence(f"a broker would go on with offset {ended}, where the log ends at {end}", _advice(directory))
        raise FormatError(why, source=directory)
    with changing:
        remove_leftovers(directory)
        if doubtful is not None:
            disk.delete(doubtful)  # a missing index is rebuilt, a wrong one would be believed
        return _loaded(loader, directory)


@contextmanager
def _refusals(directory: str) -> Iterator[None]:
    """Context manager that converts the broker's exceptions in its block to `FormatError` with path and position: a
    `JavaError`, and `LogLossError` (a broker would truncate the log).
    """
    try:
        yield
    except JavaError as error:
        source = directory if error.segment_path is None else error.segment_path
        raise FormatError(Sentence(str(error), _advice(directory)), position=error.position, source=source) from error
    except LogLossError as error:
        detail = Sentence("a broker would truncate the log here", _advice(directory))
        raise FormatError(detail, position=error.position, source=error.path) from error


def _loaded(loader: LogLoader, directory: str) -> Loaded:
    with _refusals(directory):
        loaded = loader.load()
    loader.producers.on_high_watermark_updated(loaded.log_end_offset)
    *inactive, active = loaded.segments
    return Loaded(
        sealed=[sealed(segment) for segment in inactive],
        active=active,
        end_offset=loaded.log_end_offset,
        log_start_offset=loaded.log_start_offset,
        producers=loader.producers,
    )


def _put_away(segment: LogSegment) -> None:
    """Flush and close a recovered segment, so that the number of open files is bounded."""
    segment.flush()
    segment.close_handlers()
