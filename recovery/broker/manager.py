"""Simulate how a broker loads and closes a whole log directory (`LogManager`). The result is the outcome and the tree
(the directory's files in memory) that the broker leaves.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from msgspec import Struct, field

from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.files.text import decode_meta_properties
from kafkalog.codec.layout.text_values import url_base64_bytes, url_base64_problem
from kafkalog.codec.names import (
    CLEAN_SHUTDOWN_FILE,
    CLUSTER_METADATA_DIRECTORY,
    CLUSTER_METADATA_TOPIC,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    REMOTE_INDEX_CACHE,
    TEMPORARY,
    DirectoryState,
    PartitionName,
    parse_partition_directory,
)
from kafkalog.log.directories.log_settings import LogSettings
from kafkalog.log.storage.checkpoint_file import by_content, java_lines, malformed_line, read_offset_checkpoint
from kafkalog.log.storage.java import (
    AlreadyOfflineError,
    IllegalArgumentError,
    IllegalStateError,
    JavaError,
    JavaIOError,
    KafkaError,
    KafkaStorageError,
    NullPointerError,
    NumberFormatError,
    TooLargeError,
    parse_int,
    split_on,
)
from kafkalog.log.storage.loader import LoadedLog, LoadRequest, LogLoader
from kafkalog.log.storage.tree import Tree

__all__ = [
    "BrokerResult",
    "LoadedPartition",
    "Offsets",
    "StartResult",
    "is_kraft",
    "load_log_directory",
    "read_checkpoints",
    "read_topic_id",
    "topic_id_or_none",
]

Offsets = dict[tuple[str, int], int]

_COLON = re.compile(r":[ \t\n\x0b\f\r]+")
_MAX_UUID_TEXT = 24
_LONGEST_NAME = 255
_SMALL_BYTES = 1024
"""Files up to this size in bytes are parsed only once."""
_UUID_LENGTH = 32


class StartResult:
    """Outcome of a broker's start for one directory."""

    LOADED = "loaded"
    START_FAILS = "start_fails"
    DIR_OFFLINE = "dir_offline"


class LoadedPartition(Struct, frozen=True, kw_only=True):
    """One partition directory after a broker's start; `stray` is its new name if the broker renames it, else None."""

    name: str
    log_start_offset: int
    log_end_offset: int
    cut_at: int | None = None
    """base offset of the segment in which the loader cut the log; None if it cut nothing"""
    emptied: tuple[str, int] | None = None
    """log file and position of the batch that made the loader empty its segment; None if it emptied none"""
    stray: str | None = None
    refuses_appends: bool = False
    """whether an index of the active segment has an entry above the log end, so that appends fail when they add an
    entry; appends before that are acknowledged, up to `index.interval.bytes` and one more"""


class BrokerResult(Struct, kw_only=True):
    """Result of a broker's start on a directory. `tree` is the state after a clean stop, if the broker starts."""

    outcome: str
    tree: Tree
    clean: bool
    exception: str | None = None
    message: str | None = None
    partitions: dict[str, LoadedPartition] = field(default_factory=dict)
    """partitions by directory, in the order in which they are loaded"""
    error: JavaError | None = None
    """the exception itself, which may name the batch that caused it; None if there is none"""
    is_before_logs: bool = False
    """whether it ended before any log was opened, so that its end does not depend on the logs"""

    def message_in(self, root: str) -> str:
        """Message with absolute paths, for the log directory `root`; empty if there is none."""
        return self.message or "" if self.error is None else self.error.in_full(root)

    @property
    def is_loaded(self) -> bool:
        """Whether the broker starts."""
        return self.outcome == StartResult.LOADED


def read_topic_id(tree: Tree, directory: str) -> str | None:
    """Return the topic id in the `partition.metadata` of a partition directory, as `PartitionMetadataFile.read` does;
    None if the file is missing. Raises the same `JavaError` as the broker. It is `KafkaStorageError` if the file is a
    directory or malformed, or has an invalid version or the id of zeros. It is `NullPointerError` if a line is missing.
    It is `IllegalArgumentError` if the id is not a UUID, and `TooLargeError` if the file exceeds a broker's memory.
    Raises `StorageError` if a file cannot be read.
    """
    path = f"{directory}/{PARTITION_METADATA}"
    if path in tree.directories:
        raise KafkaStorageError(f"Error while reading partition metadata file {path}", file=path)
    if path not in tree.files:
        return None
    try:
        data = tree.read(path)
        return _topic_id(path, data) if len(data) <= _SMALL_BYTES else _parse_metadata(path, java_lines(data))
    except JavaIOError as error:
        message = f"Error while reading partition metadata file {path}: {error}"
        raise KafkaStorageError(message, file=path) from error


def topic_id_or_none(tree: Tree, directory: str) -> str | None:
    """Return the topic id of a partition directory; None if `partition.metadata` is missing or cannot be parsed. Raises
    `StorageError` if it cannot be read.
    """
    try:
        return read_topic_id(tree, directory)
    except JavaError:
        return None


@by_content(maxsize=64)
def _topic_id(path: str, data: bytes) -> str:
    """Parse the content of `partition.metadata` and return the topic id. Cached, because every simulated start needs it
    again. Raises a `JavaError` if it is malformed.
    """
    return _parse_metadata(path, java_lines(data))


_NO_LINE = 'Cannot invoke "java.lang.CharSequence.length()" because "this.text" is null'
"""Java's words where `PartitionMetadataReadBuffer` splits a line that is not there"""


def _parse_metadata(path: str, lines: list[str]) -> str:
    def value(number: int) -> str:
        if number >= len(lines):
            raise NullPointerError(_NO_LINE)
        words = split_on(_COLON, lines[number])
        if len(words) != 2:
            raise malformed_line(path, lines[number])
        return words[1]

    try:
        version = parse_int(value(0))
    except NumberFormatError:
        raise malformed_line(path, lines[0]) from None
    if version < 0:
        raise JavaIOError(f"Unrecognized version of partition metadata file + ({path}): {version}", file=path)
    text = value(1)
    if len(text) > _MAX_UUID_TEXT:
        raise IllegalArgumentError(f"Input string with prefix `{text[:24]}` is too long to be decoded as a base64 UUID")
    try:
        raw = url_base64_bytes(text)
    except ValueError:
        raise IllegalArgumentError(url_base64_problem(text)) from None
    if len(raw) != 16:
        raise IllegalArgumentError(
            f"Input string `{text}` decoded as {len(raw)} bytes, which is not equal to the expected 16 bytes of a "
            "base64-encoded UUID"
        )
    if raw == bytes(16):
        raise JavaIOError(f"Invalid topic ID in partition metadata file ({path})", file=path)
    return text


def is_kraft(tree: Tree, *, has_metadata: bool = False) -> bool:
    """Whether the log directory belongs to a KRaft node. True if `meta.properties` has version 1, False if it has
    another version and a node id (a ZooKeeper node). If the file has neither, is missing, too large or malformed, the
    metadata log decides: True if one is in the tree, or, with `has_metadata`, in another log directory. Raises
    `StorageError` if `meta.properties` cannot be read.
    """
    try:
        known = _is_kraft_by_file(tree.read(META_PROPERTIES)) if META_PROPERTIES in tree.files else None
    except TooLargeError:
        known = None
    return has_metadata or CLUSTER_METADATA_DIRECTORY in tree.directories if known is None else known


@lru_cache(maxsize=1)
def _is_kraft_by_file(data: bytes) -> bool | None:
    """Whether the content of `meta.properties` is from a KRaft node, which writes version 1. False for any other
    version with a node id. None if the content cannot be parsed, or if it has another version and no node id. Results
    are cached, because they are needed for every partition.
    """
    try:
        meta = decode_meta_properties(data)
    except FormatError:
        return None
    return meta.version == 1 or (None if meta.node_id is None else False)


def _stray_name(name: PartitionName, unique: str) -> str:
    suffix = f"-{name.partition}.{unique}-stray"
    return name.topic[: _LONGEST_NAME - len(suffix)] + suffix


class _Directory:
    """State of loading one log directory; `offline` is the first exception that takes it offline, or None."""

    def __init__(
        self,
        tree: Tree,
        settings: Callable[[str], LogSettings],
        now_ms: int,
        unique: Callable[[str], str],
        *,
        has_metadata: bool,
    ) -> None:
        self.tree = tree
        self.settings = settings
        self.now_ms = now_ms
        self.unique = unique
        self.kraft = is_kraft(tree, has_metadata=has_metadata)
        self.offline: JavaError | None = None
        self.clean = tree.exists(CLEAN_SHUTDOWN_FILE)
        self.live: dict[tuple[str, int, bool], str] = {}
        self.loaded: list[tuple[str, LogLoader, LoadedLog]] = []
        self.results: list[LoadedPartition] = []

    def checkpoint(self, name: str) -> dict[tuple[str, int], int]:
        """Read an offset checkpoint file of the log directory; return (topic, partition) -> offset. Empty if the file
        is missing or malformed, or if a broker cannot read it. For an `IOException`, or a directory or dangling link of
        that name, a broker takes the directory offline: the error is stored in `offline`, unless an earlier one is
        there. Other errors are ignored. Raises `TooLargeError` if the file exceeds a broker's memory. Raises
        `StorageError` if the original file cannot be read now.
        """
        if name in self.tree.directories or name in self.tree.links:
            self.offline = self.offline or KafkaStorageError(f"Error while reading checkpoint file {name}", file=name)
            return {}
        if name not in self.tree.files:
            return {}
        try:
            return read_offset_checkpoint(name, self.tree.read(name))
        except JavaIOError as error:
            message = f"Error while reading checkpoint file {name}: {error}"
            self.offline = self.offline or KafkaStorageError(message, file=name)
            return {}
        except TooLargeError:
            raise
        except JavaError:
            return {}

    def load(self, directory: str, name: PartitionName, points: Offsets, starts: Offsets) -> None:
        """Load one partition directory as `LogManager.loadLog` does: change the tree as recovery does, and append to
        `loaded` and `results`. A current log or future copy is also registered in `live`. `points` and `starts` are
        recovery points and log start offsets by (topic, partition); missing ones are 0, and so are those of the
        metadata log. In a KRaft directory, a current log or future copy without a topic id, except the metadata log, is
        not registered but gets a stray name; `close` renames the directory.

        Raises a `JavaError` if the broker would throw an exception, for example for two directories of one partition.
        Raises `StorageError` if a file cannot be read.
        """
        key = (name.topic, name.partition)
        is_metadata = name.topic == CLUSTER_METADATA_TOPIC
        if is_metadata:
            points, starts = {}, {}
        settings = self.settings(name.topic)
        request = LoadRequest(
            directory=directory,
            settings=settings,
            now_ms=self.now_ms,
            clean=self.clean and not is_metadata,
            recovery_point=points.get(key, 0),
            log_start_offset=starts.get(key, 0),
            has_remote_log=settings.has_remote_log,
            offline=lambda: self.offline is not None,
        )
        loader = LogLoader(self.tree, request)
        loaded = loader.load()
        topic_id = read_topic_id(self.tree, directory)
        stray: str | None = None
        if name.state in (DirectoryState.LIVE, DirectoryState.FUTURE):
            if self.kraft and topic_id is None and not is_metadata:
                if self.offline is not None:
                    raise AlreadyOfflineError("The log dir is already offline due to a previous IO exception.")
                stray = _stray_name(name, self.unique(directory))
            else:
                self._register(directory, name)
        self.loaded.append((directory, loader, loaded))
        self.results.append(
            LoadedPartition(
                name=directory,
                log_start_offset=loaded.log_start_offset,
                log_end_offset=loaded.log_end_offset,
                cut_at=loaded.cut_at,
                emptied=loaded.emptied,
                stray=stray,
                refuses_appends=name.state is DirectoryState.LIVE and _refuses_appends(loaded),
            )
        )

    def _register(self, directory: str, name: PartitionName) -> None:
        key = (name.topic, name.partition, name.state is DirectoryState.FUTURE)
        if key in self.live:
            raise IllegalStateError(f"Duplicate log directories found: {directory}, {self.live[key]}")
        self.live[key] = directory

    def close(self) -> None:
        """Stop cleanly, as a broker does after all partitions are loaded: write leader epochs, close logs, delete
        temporary checkpoint files (the target of a dangling link becomes an empty file instead), and rename stray
        directories. Writes neither checkpoints nor the clean-shutdown marker. Changes the tree.

        If a partition has a future copy, only that is closed, as in the broker. Stray and deleted directories are not
        closed. Raises a `JavaError` if the broker would throw an exception.
        """
        by_partition = {(topic, partition): name for (topic, partition, _future), name in sorted(self.live.items())}
        closing = frozenset(by_partition.values())
        for result, (name, loader, loaded) in zip(self.results, self.loaded, strict=True):
            if result.stray is None:
                loader.epochs.flush()
            if name in closing:
                loader.close(loaded)
        for name in (RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT):  # written beside and renamed
            if name + TEMPORARY in self.tree.links:
                self.tree.write(name + TEMPORARY, b"")
            else:
                self.tree.delete(name + TEMPORARY)
        for result in self.results:
            if result.stray is not None:
                self.tree.rename_directory(result.name, result.stray)


def load_log_directory(
    tree: Tree,
    *,
    settings: Callable[[str], LogSettings],
    now_ms: int,
    unique: Callable[[str], str] = lambda directory: "0" * _UUID_LENGTH,
    cluster_metadata: bool = False,
    on_partition: Callable[[str], None] = lambda directory: None,
    checkpoints: tuple[Offsets, Offsets] | None = None,
    has_metadata: bool = False,
) -> BrokerResult:
    """Simulate a broker's start and clean stop on `tree`, which is changed to the state that the broker leaves. The
    result's `outcome` is `loaded`, `dir_offline` or `start_fails`; the last two have the Java exception's class and
    message. `partitions` has the directories that were loaded; with `start_fails` it is empty. No exception is raised
    for the content of the directory.

    * `settings`: returns the settings of a topic by its name
    * `now_ms`: time to treat as now, in ms since 1970
    * `unique`: returns the 32 hexadecimal digits for the name of a stray directory
    * `cluster_metadata`: also load the metadata log (`__cluster_metadata-0`), which is always recovered from its start,
      as by KRaft's own loader
    * `on_partition`: called with each partition directory after it was loaded, also if that took the log directory
      offline
    * `checkpoints`: recovery points and log start offsets, if they were read before; else they are read from the tree
    * `has_metadata`: whether the node has a metadata log that is not in the tree

    Raises `StorageError` if a file cannot be read.
    """
    directory = _Directory(tree, settings, now_ms, unique, has_metadata=has_metadata)
    result = BrokerResult(outcome=StartResult.LOADED, tree=tree, clean=directory.clean)
    try:
        _delete_marker(tree)
        if checkpoints is None:
            checkpoints = (
                directory.checkpoint(RECOVERY_POINT_CHECKPOINT),
                directory.checkpoint(LOG_START_OFFSET_CHECKPOINT),
            )
        points, starts = checkpoints
        result.is_before_logs = True  # `LogManager.loadLogs` takes in all names first
        partitions = _partitions(tree, cluster_metadata)
        result.is_before_logs = False
        for name, parsed in partitions:
            try:
                directory.load(name, parsed, points, starts)
            except (JavaIOError, KafkaStorageError) as error:
                directory.offline = directory.offline or error
            on_partition(name)
        if directory.offline is None:
            directory.close()
    except JavaIOError as error:
        directory.offline = directory.offline or error
    except JavaError as error:
        result.outcome = StartResult.START_FAILS
        result.exception, result.message, result.error = error.java_class, str(error), error
        return result
    result.partitions = {loaded_partition.name: loaded_partition for loaded_partition in directory.results}
    if directory.offline is not None:
        result.outcome = StartResult.DIR_OFFLINE
        result.exception, result.message = directory.offline.java_class, str(directory.offline)
        result.error = directory.offline
    return result


def read_checkpoints(tree: Tree) -> tuple[Offsets, Offsets] | None:
    """Return recovery points and log start offsets from the two checkpoint files, each as (topic, partition) -> offset.
    A missing file gives an empty dict. None if one of them is malformed, too large, a directory or a dangling link.
    Raises `StorageError` if a file cannot be read.
    """
    names = RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT
    if any(name in tree.directories or name in tree.links for name in names):
        return None
    try:
        points, starts = (
            read_offset_checkpoint(name, tree.read(name)) if name in tree.files else {} for name in names
        )
    except JavaError:
        return None
    return points, starts


def _refuses_appends(log: LoadedLog) -> bool:
    """Whether appends to a log fail once they add an entry to an index, because the last entry is higher. If an index
    is full, as one of zeros is that was never written to, the first append begins a new segment
    (`LogSegment.shouldRoll`). An empty segment with the same base offset is then made again (`LocalLog.roll`).
    """
    active, end = log.segments[-1], log.log_end_offset
    if active.offset_index.is_full or active.time_index.is_full:
        return active.log.size > 0 and active.base_offset == end
    by_offset = active.offset_index.entries > 0 and active.offset_index.last_offset > end
    by_time = active.time_index.entries > 0 and active.time_index.last_entry.offset > end
    return by_offset or by_time


def _delete_marker(tree: Tree) -> None:
    """Delete the clean-shutdown marker from the tree as `Files.deleteIfExists` does, which also removes an empty
    directory. Nothing happens if it is missing. Raises `JavaIOError` if it is a directory that is not empty.
    """
    tree.delete(CLEAN_SHUTDOWN_FILE)
    if CLEAN_SHUTDOWN_FILE in tree.directories:
        if any(path.startswith(CLEAN_SHUTDOWN_FILE + "/") for path in [*tree.files, *tree.directories]):
            raise JavaIOError(f"{CLEAN_SHUTDOWN_FILE} (Directory not empty)")
        tree.directories.discard(CLEAN_SHUTDOWN_FILE)


def _partitions(tree: Tree, cluster_metadata: bool) -> list[tuple[str, PartitionName]]:
    partitions: list[tuple[str, PartitionName]] = []
    for name in tree.subdirectories():
        if name == REMOTE_INDEX_CACHE:
            continue
        parsed = parse_partition_directory(name)
        if parsed is None:
            form = "topic-partition or topic-partition.uniqueId-delete (if marked for deletion)"
            raise KafkaError(f"Found directory {name}, '{name}' is not in the form of {form}", file=name)
        if parsed.topic != CLUSTER_METADATA_TOPIC or (cluster_metadata and parsed.state is DirectoryState.LIVE):
            partitions.append((name, parsed))
    return partitions
