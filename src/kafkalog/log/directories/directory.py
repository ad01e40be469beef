"""Open a log directory (one entry of `log.dirs`) for reading, with its partitions and the files about them, as Kafka's
`LogManager` does. Names are not trusted: unexpected files are reported and links are not followed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from msgspec import Struct

from kafkalog.codec.common.arguments import checked, shown
from kafkalog.codec.common.errors import FormatError, StorageError, UsageError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.files.text import (
    CleanShutdown,
    MetaProperties,
    decode_clean_shutdown,
    decode_meta_properties,
    decode_offset_checkpoint,
)
from kafkalog.codec.names import (
    BOOTSTRAP_CHECKPOINT,
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOCK_FILE,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    QUARANTINE_POINTER,
    READ_BY_A_BROKER,
    RECOVERY_POINT_CHECKPOINT,
    REMOTE_INDEX_CACHE,
    REPLICATION_OFFSET_CHECKPOINT,
    TEMPORARY,
    DirectoryState,
    PartitionName,
    is_of_confluent,
    parse_partition_directory,
    parse_segment_file,
)
from kafkalog.log.directories.partition import Partition, read_partition
from kafkalog.log.directories.partition_listing import OF_CONFLUENT
from kafkalog.log.disk.files import (
    Entry,
    NotRegularFileError,
    PathLike,
    exists,
    is_directory,
    read_small,
    scan_directory,
    status_of_entry,
    unreadable,
    what_it_is,
)
from kafkalog.log.disk.pointer import findings_of_half_done
from kafkalog.log.disk.remote_file import is_uri

__all__ = [
    "LogDir",
    "Wants",
    "every",
    "existing_log_directory",
    "is_log_dir",
    "is_partition_dir",
    "is_readable_partition",
    "log_dir_findings",
    "log_directory_around",
    "log_dirs_at",
    "new_directory",
    "of_topics_not_recreated",
    "open_log_dir",
    "refuse_inside",
]

OFFSET_CHECKPOINTS = (
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)
_SMALL_FILES = frozenset({LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA})
_TOLERATED = frozenset({*READ_BY_A_BROKER, LOCK_FILE, QUARANTINE_POINTER, BOOTSTRAP_CHECKPOINT, REMOTE_INDEX_CACHE})

Wants = Callable[[PartitionName], bool]
"""Function that returns whether a partition directory is to be read, by its name."""


def every(name: PartitionName) -> bool:
    """Return True for every name."""
    return True


Offsets = Mapping[tuple[str, int], int]
_T = TypeVar("_T")


@checked("__getitem__")
@dataclass(frozen=True)
class LogDir:
    """Content of one entry of `log.dirs`, listed once and never written to. Offsets are by (topic, partition). It is a
    mapping whose keys are the (topic, partition) of live directories.
    """

    path: str
    partitions: tuple[Partition, ...]
    """all partitions by topic, partition and state, also deleted, future and stray ones"""
    recovery_points: Offsets
    log_start_offsets: Offsets
    high_watermarks: Offsets
    """without those that may be of a deleted topic of the same name"""
    cleaner_offsets: Offsets
    meta_properties: MetaProperties | None
    clean_shutdown: CleanShutdown | None
    """None if the broker did not stop in order"""
    findings: tuple[Finding, ...] = field(repr=False)
    """findings about the directory itself; each partition has its own"""

    @property
    def closed_at(self) -> Offsets:
        """End offsets of the logs if the broker stopped in order: it then wrote them as recovery points. Otherwise
        empty.
        """
        return {} if self.clean_shutdown is None else self.recovery_points

    def live(self, topic: str, partition: int) -> list[Partition]:
        """Return the live directories of a topic-partition: usually one, none if it is missing, several if two
        directories claim it.
        """
        return self._live(topic, partition)

    def _live(self, topic: str, partition: int) -> list[Partition]:
        return list(self._by_name.get(PartitionName(topic, partition), ()))

    @cached_property
    def _by_name(self) -> dict[PartitionName | None, list[Partition]]:
        by_name: dict[PartitionName | None, list[Partition]] = {}
        for partition in self.partitions:
            by_name.setdefault(partition.name, []).append(partition)
        return by_name

    def __getitem__(self, key: tuple[str, int]) -> Partition:
        """Return the partition whose live directory belongs to the key (topic, partition number). Raises `KeyError` if
        there is none. Raises `UsageError` if there are several, or if the key is not a pair.
        """
        try:
            directories = self._live(*key)
        except TypeError:
            raise UsageError(f"key is {shown(key)}, not tuple[str, int]") from None
        if not directories:
            raise KeyError(key)
        if len(directories) > 1:
            paths = " and ".join(directory.path for directory in directories)
            raise UsageError(f"{key[0]}-{key[1]} is in two directories: {paths}")
        return directories[0]

    def __contains__(self, key: object) -> bool:
        try:
            return bool(self._live(*key))  # type: ignore[misc]
        except TypeError:  # the key cannot be a (topic, partition)
            return False

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """Yield the (topic, partition) of every live directory once: the possible keys."""
        names = (partition.name for partition in self.partitions if partition.state is DirectoryState.LIVE)
        yield from dict.fromkeys((name.topic, name.partition) for name in names if name is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return True  # a directory, even if no partition is in it


def is_partition_dir(path: PathLike) -> bool:
    """Whether a directory contains a file that only partition directories have. Its name alone proves nothing: a log
    directory may be called `broker-1`. False if it has a `meta.properties`: then it is a log directory, in which a
    broker ignores such a file. Raises `StorageError` if it cannot be listed.
    """
    names = {entry.name for entry in scan_directory(path)}
    return META_PROPERTIES not in names and any(
        name in (LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA) or parse_segment_file(name) is not None for name in names
    )


def _directories(path: PathLike) -> list[Entry]:
    return [entry for entry in scan_directory(path) if entry.is_dir(follow_symlinks=False)]


def existing_log_directory(path: PathLike) -> str:
    """Return the absolute path of an existing local log directory to write in; it may be empty. Raises `UsageError` if
    it is not an existing directory or is a partition directory, `StorageError` if it cannot be listed.
    """
    root = os.path.abspath(os.fspath(path))
    if not os.path.isdir(root):
        raise UsageError(f"there is no log directory {root}; create it first if the path is right")
    if is_partition_dir(root):
        raise UsageError(f"{root} is a partition directory; partitions cannot be in it")
    return root


def is_log_dir(path: PathLike) -> bool:
    """Return whether a directory is an entry of `log.dirs`. The result is True if it contains a file that a broker
    keeps there, such as `meta.properties` or a checkpoint. A partition directory with a partition's files makes it True
    too. A partition directory that is a link or cannot be listed does not count. Raises `StorageError` if the directory
    itself cannot be listed.
    """
    entries = scan_directory(path)
    if any(entry.name in READ_BY_A_BROKER and not entry.is_dir(follow_symlinks=False) for entry in entries):
        return True
    return any(
        parse_partition_directory(entry.name) is not None and is_readable_partition(entry.path)
        for entry in entries
        if entry.is_dir(follow_symlinks=False)
    )


def is_readable_partition(path: str) -> bool:
    """Whether a directory can be listed and contains a file that only partition directories have."""
    try:
        return is_partition_dir(path)
    except StorageError:
        return False


class _Reader:
    """Reader of one log directory, which collects findings. With `tolerant`, a file that cannot be read makes a finding
    instead of an error. Partitions whose names `wants` rejects are not read.
    """

    def __init__(self, path: str, limits: Limits, tolerant: bool, wants: Wants = every) -> None:
        self.path = path
        self.wants = wants
        self.limits = limits
        self.tolerant = tolerant
        self.findings: list[Finding] = []

    def found(self, code: FindingCode, path: str, detail: str, severity: Severity) -> None:
        self.findings.append(Finding(code, severity, None, None, detail, path))

    def small(self, name: str, code: FindingCode, decode: Callable[[bytes, str], _T]) -> _T | None:
        """Read a small file called `name` in the log directory; return the result of `decode` for its content and path.
        Return None if the file is missing, without a finding. If the file cannot be decoded, is too large or is not a
        regular file, record an ERROR finding with `code` and return None. If it cannot be read, raise `StorageError`; a
        tolerant reader records a finding and returns None instead.
        """
        path = os.path.join(self.path, name)
        try:
            return decode(read_small(path, self.limits.checkpoint_bytes), path)
        except FileNotFoundError:
            return None
        except NotRegularFileError as error:
            self.found(code, path, str(error.strerror), Severity.ERROR)
        except FormatError as error:
            self.found(code, path, error.message, Severity.ERROR)
        except StorageError as error:
            self.without(error, path)
        return None

    def without(self, error: StorageError, path: str) -> None:
        """Record a finding about a path that cannot be read. If the reader is not tolerant, raise the error instead."""
        if not self.tolerant:
            raise error
        self.findings.append(unreadable(error, path))

    def checkpoint(self, name: str) -> Offsets:
        def decode(data: bytes, path: str) -> Offsets:
            entries = decode_offset_checkpoint(data, source=path, limits=self.limits)
            return {(topic, partition): offset for topic, partition, offset in entries}

        return self.small(name, FindingCode.CHECKPOINT_INVALID, decode) or {}

    def beside(self) -> _Beside:
        """Read the four offset checkpoints, `meta.properties` and the clean shutdown file of the log directory; return
        their contents. A missing or invalid checkpoint is an empty dict; a missing or invalid `meta.properties` is
        None. The clean shutdown file is None if it is missing, too large or not a regular file; its content does not
        matter. Invalid files add findings to the reader. Raises `StorageError` if a file cannot be read; a tolerant
        reader adds a finding instead.
        """
        recovery, starts, replication, cleaner = [self.checkpoint(name) for name in OFFSET_CHECKPOINTS]
        meta = self.small(
            META_PROPERTIES,
            FindingCode.META_PROPERTIES_INVALID,
            lambda data, source: decode_meta_properties(data, source=source, limits=self.limits),
        )
        clean = self.small(
            CLEAN_SHUTDOWN_FILE, FindingCode.CHECKPOINT_INVALID, lambda data, _: decode_clean_shutdown(data)
        )
        return _Beside(
            recovery_points=recovery,
            log_starts=starts,
            high_watermarks=replication,
            cleaner_offsets=cleaner,
            meta_properties=meta,
            clean_shutdown=clean,
        )

    def partitions(self, starts: Offsets) -> list[Partition]:
        partitions = []
        directories = [directory for directory in self.directories() if self.wants(directory[1])]
        if is_uri(self.path):
            from kafkalog.log.disk.listing_ahead import list_ahead  # most directories are not in a store

            list_ahead(self.path, [path for path, _ in directories], _SMALL_FILES)
        for path, name in directories:
            start = starts.get((name.topic, name.partition)) if name.state is DirectoryState.LIVE else None
            try:
                partitions.append(read_partition(path, name, start, limits=self.limits))
            except StorageError as error:
                self.without(error, path)
        return partitions

    def directories(self) -> Iterator[tuple[str, PartitionName]]:
        """Yield path and name of each partition directory, live or not, in order of names. Foreign files and
        directories, links and special files are not yielded, but add findings to the reader; files that a broker or
        kafkalog keeps there do neither. Entries that no longer exist are skipped. Raises `StorageError` if the log
        directory cannot be listed, or an entry not examined.
        """
        for entry in scan_directory(self.path):
            status = status_of_entry(entry)
            if status is None:
                continue
            name = parse_partition_directory(entry.name)
            if stat.S_ISDIR(status.st_mode):
                if name is not None:
                    yield entry.path, name
                elif entry.name not in _TOLERATED:
                    detail = "not a partition directory; a broker refuses to start with it here"
                    self.found(FindingCode.FOREIGN_DIRECTORY, entry.path, detail, Severity.WARNING)
            elif stat.S_ISREG(status.st_mode):
                if is_of_confluent(entry.name):
                    self.found(FindingCode.FOREIGN_FILE, entry.path, OF_CONFLUENT, Severity.INFO)
                elif entry.name not in _TOLERATED and not entry.name.endswith(TEMPORARY):
                    detail = "a file that no Kafka version writes"
                    self.found(FindingCode.FOREIGN_FILE, entry.path, detail, Severity.WARNING)
            elif entry.name not in _TOLERATED:
                code = FindingCode.FOREIGN_FILE if name is None else FindingCode.FOREIGN_DIRECTORY
                detail = f"{what_it_is(status.st_mode)}; left out"
                self.found(code, entry.path, detail, Severity.WARNING if name is None else Severity.ERROR)


class _Beside(Struct, frozen=True, kw_only=True):
    recovery_points: Offsets
    log_starts: Offsets
    high_watermarks: Offsets
    cleaner_offsets: Offsets
    meta_properties: MetaProperties | None
    clean_shutdown: CleanShutdown | None


def _duplicates(directories: Iterable[tuple[str, PartitionName]]) -> list[Finding]:
    """Return a DUPLICATE_PARTITION finding for each live directory whose topic-partition an earlier directory in the
    list already has; the first one has none. `directories` are pairs of path and name.
    """
    first: dict[PartitionName, str] = {}
    findings = []
    for path, name in directories:
        if name.state is not DirectoryState.LIVE:
            continue
        other = first.setdefault(name, path)
        if other != path:
            detail = f"{name} is in {other} too"
            findings.append(Finding.of(FindingCode.DUPLICATE_PARTITION, None, None, detail, path))
    return findings


def of_topics_not_recreated(high_watermarks: Offsets, directories: Iterable[str]) -> Offsets:
    """Return the high watermarks, except for partitions that have both a live and a `-delete` directory. `directories`
    are the names of directories. A broker writes its high watermarks only every five seconds: for such a partition they
    may still belong to the deleted topic of the same name.
    """
    names = [name for name in map(parse_partition_directory, directories) if name is not None]
    live, deleted = (
        {(name.topic, name.partition) for name in names if name.state is state}
        for state in (DirectoryState.LIVE, DirectoryState.DELETE)
    )
    recreated = live & deleted
    return {key: offset for key, offset in high_watermarks.items() if key not in recreated}


def log_dir_findings(path: str) -> list[Finding]:
    """Return the findings about a log directory itself, as in `LogDir.findings`: unfinished recoveries, invalid or
    unreadable files, foreign entries, duplicate partitions. Partition directories are not read. Empty if `path` is a
    partition directory or otherwise not a log directory. Raises `StorageError` if it cannot be listed.
    """
    if is_partition_dir(path) or not is_log_dir(path):
        return []
    reader = _Reader(path, DEFAULT_LIMITS, tolerant=True)
    reader.beside()
    directories = sorted(reader.directories(), key=lambda directory: (directory[1], directory[0]))
    return [*findings_of_half_done(path), *reader.findings, *_duplicates(directories)]


def open_log_dir(
    path: PathLike, *, tolerant: bool = False, limits: Limits = DEFAULT_LIMITS, wants: Wants = every
) -> LogDir:
    """Return the log directory at `path`, with all its partitions listed and sorted by name. Malformed checkpoints and
    foreign files make findings. With `tolerant` a partition or checkpoint that cannot be read is left out, with a
    finding; otherwise it raises `StorageError`. Raises `StorageError` also if `path` itself cannot be listed. Raises
    `UsageError` if `path` does not exist or is not a log directory. Examples are a partition directory, and a directory
    that holds several log directories.

    * `limits`: upper bounds for a batch or file (`Limits`)
    * `wants`: function called with each partition's name; if it returns False, the partition is left out and not read
    """
    text = os.fspath(path)
    if not exists(text):
        raise UsageError(f"{text} does not exist")
    if not is_directory(text):
        raise UsageError(f"{text} is not a directory")
    if is_partition_dir(text):
        raise UsageError(f"{text} is a partition directory, not a log directory")
    if not is_log_dir(text):
        inside = [entry.name for entry in _directories(text) if _is_log_dir_inside(entry.path)]
        if inside:
            raise UsageError(f"{text} holds several log directories ({', '.join(inside[:3])}), and is not one itself")
        raise UsageError(f"{text} is not a Kafka log directory: it holds no partition and no segment")
    reader = _Reader(text, limits, tolerant, wants)
    beside = reader.beside()
    partitions = reader.partitions(beside.log_starts)
    partitions.sort(key=lambda partition: (partition.name or PartitionName("", 0), partition.path))
    duplicates = _duplicates((partition.path, partition.name) for partition in partitions if partition.name is not None)
    return LogDir(
        path=text,
        partitions=tuple(partitions),
        recovery_points=beside.recovery_points,
        log_start_offsets=beside.log_starts,
        high_watermarks=of_topics_not_recreated(
            beside.high_watermarks, (os.path.basename(partition.path) for partition in partitions)
        ),
        cleaner_offsets=beside.cleaner_offsets,
        meta_properties=beside.meta_properties,
        clean_shutdown=beside.clean_shutdown,
        findings=(*findings_of_half_done(text), *reader.findings, *duplicates),
    )


def _is_log_dir_inside(path: str) -> bool:
    try:
        return is_log_dir(path) and not is_partition_dir(path)
    except StorageError:
        return False


def log_dirs_inside(path: PathLike, on_error: Callable[[StorageError, str], None] | None = None) -> list[str]:
    """Return the paths of the direct sub-directories that are log directories, in order of names: the volumes or
    brokers below a root. Empty if there are none. A sub-directory that cannot be listed is left out; `on_error`, if
    given, is called with the error and its path. Raises `StorageError` if `path` itself cannot be listed.
    """
    directories = []
    for entry in _directories(path):
        try:
            if is_log_dir(entry.path) and not is_partition_dir(entry.path):
                directories.append(entry.path)
        except StorageError as error:
            if on_error is not None:
                on_error(error, entry.path)
    return directories


def log_dirs_at(path: PathLike, on_error: Callable[[StorageError, str], None] | None = None) -> list[str]:
    """Return `path` itself in a list if it is a log directory, otherwise the log directories directly inside it, in
    order of names, perhaps none. A sub-directory that cannot be listed is left out, and `on_error` is called with the
    error and its path. Raises `StorageError` if `path` cannot be listed.
    """
    return [os.fspath(path)] if is_log_dir(path) else log_dirs_inside(path, on_error)


def log_directory_around(place: str) -> str | None:
    """Return the nearest directory that has a file a broker keeps in a log directory, such as `meta.properties`:
    `place` itself or one of its parents. None if there is none. `place` is an absolute local path; it need not exist.
    """
    path = place
    while True:
        if any(os.path.isfile(os.path.join(path, name)) for name in READ_BY_A_BROKER):
            return path
        parent = os.path.dirname(path)
        if parent == path:
            return None
        path = parent


def new_directory(target: PathLike, *, beside: str) -> str:
    """Return the real path of a directory to write to, which must not exist or must be empty; nothing is created.
    `beside` is the real path of the directory from which the new content is read. Raises `UsageError` if the target is
    a file or a directory that is not empty. Raises it also if the target is inside `beside`, or inside another log
    directory, which is recognized by a file such as `meta.properties` (`log_directory_around`). Raises `StorageError`
    if the target cannot be listed.
    """
    destination = os.path.realpath(target)
    if os.path.lexists(destination) and (not os.path.isdir(destination) or scan_directory(destination)):
        raise UsageError(f"{os.fspath(target)} already exists and is not an empty directory")
    refuse_inside(destination, target)
    if destination.startswith(os.path.join(beside, "")):
        raise _inside(target, beside)
    return destination


def refuse_inside(place: str, target: PathLike) -> None:
    """Raise `UsageError` if a new directory at `place` would be inside a log directory, as far as
    `log_directory_around` finds it. `target` is the path as the caller wrote it, for the message.
    """
    around = log_directory_around(os.path.realpath(place))
    if around is not None:
        raise _inside(target, around)


def _inside(target: PathLike, around: str) -> UsageError:
    return UsageError(f"{os.fspath(target)} is inside the log directory {around}, where it would stop a broker")
