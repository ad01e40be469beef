"""List a partition directory entry by entry: its segments, and the small files about them."""

from __future__ import annotations

import errno
import os
import stat
from functools import lru_cache

from kafkalog.codec.common.errors import FormatError, StorageError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.limits import Limits
from kafkalog.codec.files.text import LeaderEpoch, PartitionMetadata, decode_leader_epochs, decode_partition_metadata
from kafkalog.codec.model import NO_END
from kafkalog.codec.names import (
    CLEANED,
    DELETED,
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    QUORUM_STATE,
    REMOTE_LOG_SNAPSHOT,
    SWAP,
    TEMPORARY,
    UNFINISHED_SNAPSHOT,
    FileKind,
    SegmentFileName,
    compressed_log,
    is_of_confluent,
    parse_segment_file,
    segment_file,
)
from kafkalog.log.directories.left_out import linked_logs
from kafkalog.log.disk.files import Entry, NotRegularFileError, read_small, status_of_entry, unreadable, what_it_is
from kafkalog.log.disk.remote_file import RemoteEntry
from kafkalog.log.walk.segment import Segment

__all__ = ["OF_CONFLUENT", "PartitionListing", "reason_of"]

_KNOWN_FILES = frozenset({LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, QUORUM_STATE, REMOTE_LOG_SNAPSHOT})
OF_CONFLUENT = "of the tiered storage of Confluent's server: not read and not changed"
_UNFINISHED = (TEMPORARY, UNFINISHED_SNAPSHOT, DELETED, CLEANED, SWAP)
_SHORT = 256
"""Largest small file whose decoded content is cached: partitions of a topic often have identical ones."""


@lru_cache(maxsize=1024)
def _epochs_of(data: bytes) -> tuple[LeaderEpoch, ...]:
    return tuple(decode_leader_epochs(data))


@lru_cache(maxsize=1024)
def _metadata_of(data: bytes) -> PartitionMetadata:
    return decode_partition_metadata(data)


class PartitionListing:
    """Collector of the entries of a partition directory. Pass each entry to `look_at` once; then `segments` returns the
    segments. Other results are attributes.
    """

    def __init__(self, path: str, limits: Limits) -> None:
        self.path = path
        self.limits = limits
        self.files: dict[int, dict[FileKind, str]] = {}
        self._swaps: dict[int, dict[FileKind, str]] = {}
        self._smallest_cleaned = NO_END
        self.status: dict[str, os.stat_result] = {}
        self.remote: dict[str, RemoteEntry] = {}
        self.snapshots: list[str] = []
        self.kraft_snapshots: list[str] = []
        self.unfinished: list[str] = []
        self.findings: list[Finding] = []
        self.leader_epochs: tuple[LeaderEpoch, ...] = ()
        self.metadata: PartitionMetadata | None = None

    def found(self, code: FindingCode, path: str, detail: str, severity: Severity = Severity.WARNING) -> None:
        """Record a finding about a file."""
        self.findings.append(Finding(code, severity, None, None, detail, path))

    def look_at(self, entry: Entry) -> None:
        """Examine one entry and record it as a segment file, snapshot, checkpoint, unfinished file or finding. The
        leader epochs and `partition.metadata` are read and decoded; malformed ones make findings. An entry that no
        longer exists is ignored. Raises `StorageError` if the entry cannot be examined or a small file not read.
        """
        status = status_of_entry(entry)
        if status is None:
            return
        parsed = parse_segment_file(entry.name)
        if not stat.S_ISREG(status.st_mode):
            self._no_file(entry, status.st_mode, holds_records=parsed is not None and parsed.is_live_log)
            return
        self.status[entry.path] = status
        if isinstance(entry, RemoteEntry):
            self.remote[entry.path] = entry
        if is_of_confluent(entry.name):
            self.found(FindingCode.FOREIGN_FILE, entry.path, OF_CONFLUENT, Severity.INFO)
        elif entry.name.endswith(_UNFINISHED):
            self.unfinished.append(entry.path)
            if parsed is not None:
                self._pending(entry.path, parsed)
        elif parsed is not None:
            self._segment_file(entry, parsed.base_offset, parsed.kind)
        elif entry.name.endswith(FileKind.KRAFT_SNAPSHOT.value):
            self.kraft_snapshots.append(entry.path)
        elif entry.name == LEADER_EPOCH_CHECKPOINT:
            self._leader_epochs(entry.path)
        elif entry.name == PARTITION_METADATA:
            self._metadata(entry.path)
        elif entry.name not in _KNOWN_FILES:
            log = compressed_log(entry.name)
            detail = "a file that no Kafka version writes"
            if log is not None:
                detail = f"a compressed segment: if there is no {log}, decompress it before any start and any recovery"
            self.found(FindingCode.FOREIGN_FILE, entry.path, detail)

    def _pending(self, path: str, parsed: SegmentFileName) -> None:
        """Record the file of an unfinished operation if a broker's start acts on it: `.cleaned` or `.swap`."""
        if parsed.pending == CLEANED:
            self._smallest_cleaned = min(self._smallest_cleaned, parsed.base_offset)
        elif parsed.pending == SWAP:
            self._swaps.setdefault(parsed.base_offset, {})[parsed.kind] = path

    def put_swaps_in_place(self) -> None:
        """Complete an interrupted replacement of segments in this listing, as a broker's start would on disk; no file
        is renamed. Complete segments that the cleaner wrote have the suffix `.swap`. They replace all segments from the
        first one's base offset to the last one's end (`LogLoader.load`). A `.swap` segment is ignored if a segment with
        a lower or equal base offset is still `.cleaned`.

        Each one put in place makes a WARNING finding. If one cannot be read, nothing is replaced, and an UNREADABLE
        finding is made.
        """
        swaps = {base: files for base, files in self._swaps.items() if base < self._smallest_cleaned}
        complete = [(base, files) for base, files in sorted(swaps.items()) if FileKind.LOG in files]
        if not complete:
            return
        try:
            high = max(self._segment(base, files).next_offset(self.limits) for base, files in complete)
        except StorageError as error:
            self.findings.append(unreadable(error, self.path))
            return
        for base in [base for base in self.files if complete[0][0] <= base < high]:
            del self.files[base]
        for base, files in complete:
            self.files[base] = {kind: path for kind, path in files.items() if kind is not FileKind.PRODUCER_SNAPSHOT}
            detail = "a start puts this segment in place, and ends what was cut short; it is read as if that was done"
            self.found(FindingCode.TEMPORARY_FILE, files[FileKind.LOG], detail, Severity.WARNING)

    def _no_file(self, entry: Entry, mode: int, *, holds_records: bool) -> None:
        """Record a finding about an entry that is not a regular file; it is not read. A directory or a dangling link
        makes a FOREIGN_FILE finding (ERROR if it has the name of a log), because a broker ignores it. Anything else
        makes an UNREADABLE finding, which prevents recovery of the partition.
        """
        if stat.S_ISDIR(mode) or (stat.S_ISLNK(mode) and not os.path.exists(entry.path)):
            severity = Severity.ERROR if holds_records else Severity.WARNING
            self.found(FindingCode.FOREIGN_FILE, entry.path, f"{what_it_is(mode)}; left out", severity)
        else:
            error = NotRegularFileError(errno.EINVAL, what_it_is(mode), entry.path)
            self.findings.append(unreadable(error, entry.path))

    def _segment_file(self, entry: Entry, base_offset: int, kind: FileKind) -> None:
        if entry.name != segment_file(base_offset, kind):
            detail = "not Kafka's name for this file; a broker would not read it"
            self.found(FindingCode.FOREIGN_FILE, entry.path, detail)
        elif kind is FileKind.PRODUCER_SNAPSHOT:
            self.snapshots.append(entry.path)
        else:
            self.files.setdefault(base_offset, {})[kind] = entry.path

    def _leader_epochs(self, path: str) -> None:
        try:
            data = read_small(path, self.limits.checkpoint_bytes)
            decode = _epochs_of if len(data) <= _SHORT else _epochs_of.__wrapped__
            self.leader_epochs = decode(data)
        except (FormatError, NotRegularFileError) as error:
            self.found(FindingCode.CHECKPOINT_INVALID, path, reason_of(error), Severity.ERROR)

    def _metadata(self, path: str) -> None:
        try:
            data = read_small(path, self.limits.checkpoint_bytes)
            decode = _metadata_of if len(data) <= _SHORT else _metadata_of.__wrapped__
            self.metadata = decode(data)
        except (FormatError, NotRegularFileError) as error:
            self.found(FindingCode.PARTITION_METADATA_INVALID, path, reason_of(error), Severity.ERROR)

    def segments(self) -> tuple[Segment, ...]:
        """Return the segments with their index files, sorted by base offset. Must be called once, after all entries
        were examined. An index file without its log belongs to no segment and adds a FOREIGN_FILE finding, unless the
        log is a link to a file.
        """
        segments = []
        linked = linked_logs(self.findings)
        for base_offset in sorted(self.files):
            files = self.files[base_offset]
            log = files.get(FileKind.LOG)
            if log is None:
                for path in files.values() if base_offset not in linked else ():
                    self.found(FindingCode.FOREIGN_FILE, path, "an index without its log")
                continue
            segments.append(self._segment(base_offset, files))
        return tuple(segments)

    def _segment(self, base_offset: int, files: dict[FileKind, str]) -> Segment:
        log = files[FileKind.LOG]
        sizes = {kind: self.status[path].st_size for kind, path in files.items()}
        remote_entry = self.remote.get(log)
        newest, is_untold = (None, False) if remote_entry is None else (remote_entry.newest, remote_entry.is_untold)
        return Segment(
            base_offset=base_offset, path=log, size=sizes[FileKind.LOG], modified_ns=self.status[log].st_mtime_ns,
            files=files, sizes=sizes, newest=newest, is_untold=is_untold,
        )  # fmt: skip


def reason_of(error: FormatError | NotRegularFileError) -> str:
    """Return the reason why a small file cannot be used."""
    return error.message if isinstance(error, FormatError) else str(error.strerror)
