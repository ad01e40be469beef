"""Parse and make names in a log directory: the kind of a directory or file follows from its name alone. The rules are
those of `UnifiedLog.parseTopicPartitionName` and `LogFileUtils`. Names are never joined to a path here, and a topic
read from a file's content is not a name. The broker is assumed to read names as UTF-8. A broker with another character
set does not find files whose names are not ASCII.
"""

from __future__ import annotations

import enum
import re
from functools import lru_cache

from msgspec import Struct

__all__ = [
    "BOOTSTRAP_CHECKPOINT",
    "CLEANED",
    "CLEANER_OFFSET_CHECKPOINT",
    "CLEAN_SHUTDOWN_FILE",
    "CLUSTER_METADATA_DIRECTORY",
    "CLUSTER_METADATA_TOPIC",
    "CLUSTER_METADATA_TOPIC_ID",
    "CONSUMER_OFFSETS_TOPIC",
    "COORDINATOR_TOPICS",
    "DELETED",
    "INDEX_KINDS",
    "LEADER_EPOCH_CHECKPOINT",
    "LOCK_FILE",
    "LOG_START_OFFSET_CHECKPOINT",
    "META_PROPERTIES",
    "PARTITION_METADATA",
    "QUARANTINE_POINTER",
    "QUORUM_STATE",
    "READ_BY_A_BROKER",
    "RECOVERY_POINT_CHECKPOINT",
    "REMOTE_INDEX_CACHE",
    "REMOTE_LOG_METADATA_TOPIC",
    "REMOTE_LOG_SNAPSHOT",
    "REPLICATION_OFFSET_CHECKPOINT",
    "SHARE_GROUP_STATE_TOPIC",
    "SWAP",
    "TEMPORARY",
    "TRANSACTION_STATE_TOPIC",
    "UNFINISHED_SNAPSHOT",
    "ZOOKEEPER_DIRECTORY",
    "DirectoryState",
    "FileKind",
    "KRaftSnapshotName",
    "PartitionName",
    "SegmentFileName",
    "compressed_log",
    "is_of_confluent",
    "is_seen_by_java",
    "kraft_snapshot_file",
    "may_be_cut",
    "parse_java_long",
    "parse_kraft_snapshot_file",
    "parse_offset",
    "parse_partition_directory",
    "parse_segment_file",
    "segment_file",
    "without_surrogates",
]

RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
REPLICATION_OFFSET_CHECKPOINT = "replication-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT = "cleaner-offset-checkpoint"
LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
LOCK_FILE = ".lock"
LOST_AND_FOUND = "lost+found"
"""directory that fsck makes at the root of a file system"""
QUARANTINE_POINTER = ".kafkalog-quarantine"
"""file in a log directory with the path of its quarantine, if that is not beside the log directory"""
QUORUM_STATE = "quorum-state"
BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"
ZOOKEEPER_DIRECTORY = "version-2"
"""directory below ZooKeeper's dataDir and dataLogDir with its snapshots and logs"""
REMOTE_INDEX_CACHE = "remote-log-index-cache"
CLUSTER_METADATA_TOPIC = "__cluster_metadata"
CLUSTER_METADATA_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
"""its topic id in every cluster (`Uuid.METADATA_TOPIC_ID`)"""
CONSUMER_OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_GROUP_STATE_TOPIC = "__share_group_state"
REMOTE_LOG_METADATA_TOPIC = "__remote_log_metadata"
COORDINATOR_TOPICS = (CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC)
"""Internal topics that the brokers' coordinators write."""
CLUSTER_METADATA_DIRECTORY = f"{CLUSTER_METADATA_TOPIC}-0"

REMOTE_LOG_SNAPSHOT = "remote_log_snapshot"
READ_BY_A_BROKER = (
    META_PROPERTIES,
    CLEAN_SHUTDOWN_FILE,
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)
"""Files of a log directory that a broker reads to decide what to do at its next start."""

TEMPORARY = ".tmp"
"""Suffix of a new checkpoint file until it is renamed."""
UNFINISHED_SNAPSHOT = ".part"
"""Suffix of a KRaft snapshot that is still being written."""
DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"

_COMPRESSED = frozenset({".gz", ".bz2", ".xz", ".zst", ".lz4", ".zip"})
_CONFLUENT = re.compile(r"\d{20}\.tierstate(\.[a-z]+)?|.+_\d+\.tierlog|tier\.offsets(\.tmp)?", re.ASCII)
"""Files of the tiered storage of Confluent Server, in partitions and in log directories."""
_LONG_DIGITS = 19
_JAVA_INTEGER = re.compile(r"([+-]?)(\d+)\Z")
_LARGEST_CHARACTER = "\uffff"
"""Highest character of which Java examines digits: it looks at 16 bits at a time."""
_LONGEST_NAME = 255
"""Highest length of a directory's name. Topic names are ASCII, one byte for a character."""
_STATEFUL = re.compile(r"(\S+)-(\S+)\.(\S+)-(delete|future|stray)\Z", re.ASCII)
_OFFSET_DIGITS = 20
_EPOCH_DIGITS = 10
_NAMES_KEPT = 8192
"""Size of the caches for file names. Many partitions share the same file names."""
_DIRECTORIES_KEPT = 16_384
"""Size of the cache for names of partition directories, which every step of an examination parses."""


class DirectoryState(enum.StrEnum):
    """State of a partition directory, according to its suffix."""

    LIVE = ""
    DELETE = "delete"
    FUTURE = "future"
    STRAY = "stray"


_BLANK = re.compile(r"\s", re.ASCII)


class FileKind(enum.StrEnum):
    """Kinds of files in a partition directory, each with its suffix."""

    LOG = ".log"
    OFFSET_INDEX = ".index"
    TIME_INDEX = ".timeindex"
    TRANSACTION_INDEX = ".txnindex"
    PRODUCER_SNAPSHOT = ".snapshot"
    KRAFT_SNAPSHOT = ".checkpoint"


_OF_SEGMENTS = tuple((kind.value, kind) for kind in FileKind if kind is not FileKind.KRAFT_SNAPSHOT)
_BEHIND_DIGITS = dict(_OF_SEGMENTS)
"""Kind by the part of the name after the 20 digits."""
INDEX_KINDS = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX)


class PartitionName(Struct, frozen=True, order=True):
    """Topic, partition and state from the name of a partition directory."""

    topic: str
    partition: int
    state: DirectoryState = DirectoryState.LIVE

    @property
    def has_blanks(self) -> bool:
        """Whether the topic contains white space. Such a topic is cut when a broker renames the directory to `-stray`,
        and the broker then fails to start.
        """
        return _BLANK.search(self.topic) is not None

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class SegmentFileName(Struct, frozen=True):
    """Name of a file that belongs to a base offset. `pending` is `.deleted`, `.cleaned`, `.swap` or empty."""

    base_offset: int
    kind: FileKind
    pending: str = ""

    @property
    def is_live_log(self) -> bool:
        """Whether the file is a `.log` that consumers read: one without a pending suffix."""
        return self.kind is FileKind.LOG and not self.pending


class KRaftSnapshotName(Struct, frozen=True):
    """Name of a KRaft snapshot: the offset after its last record and that record's epoch. `pending` is `.part`,
    `.deleted` or empty.
    """

    end_offset: int
    epoch: int
    pending: str = ""


def without_surrogates(text: str | None) -> str | None:
    """Replace bytes that were not UTF-8 by visible escapes; return None for None. Python keeps such bytes as
    surrogates, which Arrow does not accept.
    """
    return None if text is None else text.encode("utf-8", "backslashreplace").decode()


def parse_java_long(text: str, bits: int = 64) -> int | None:
    """Parse text as Java's `Long.parseLong` does (or `Integer.parseInt` if `bits` is 32). Return None if Java would
    throw. Accepted are a leading `+` or `-`, any number of leading zeros, and decimal digits of any script up to
    U+FFFF, as by `Character.digit(char)`.
    """
    if len(text) <= _OFFSET_DIGITS and text.isdigit() and text.isascii():
        value = int(text)
        return value if value < 1 << bits - 1 else None
    match = _JAVA_INTEGER.match(text)
    if match is None or max(text) > _LARGEST_CHARACTER:
        return None
    digits = match[2]
    if len(digits) > _LONG_DIGITS:
        zeros = next((number for number, digit in enumerate(digits) if int(digit)), len(digits) - 1)
        digits = digits[zeros:]
        if len(digits) > _LONG_DIGITS:
            return None
    value = int(match[1] + digits)
    return value if -(1 << bits - 1) <= value < 1 << bits - 1 else None


def is_of_confluent(name: str) -> bool:
    """Whether only Confluent Server writes and reads a file of this name."""
    return "tier" in name and _CONFLUENT.fullmatch(name) is not None


def is_seen_by_java(name: str) -> bool:
    """Whether a JVM can open the file by the name that it lists: true if the name's bytes are valid UTF-8."""
    return name.isascii() or not any("\ud800" <= character <= "\udfff" for character in name)


@lru_cache(maxsize=_DIRECTORIES_KEPT)
def parse_partition_directory(name: str) -> PartitionName | None:
    """Parse the name of a partition directory; return topic, partition and state. The state of `topic-N` is LIVE; N is
    what `parse_java_long` reads as 32 bits, so it may have leading zeros or a plus. In `topic-N.<id>-delete`, `-future`
    and `-stray` the suffix gives the state, and the id is dropped. Return None for any other name; a broker does not
    start with most of them. Results are cached.
    """
    state = DirectoryState.LIVE
    for suffix in (DirectoryState.DELETE, DirectoryState.FUTURE, DirectoryState.STRAY):
        if name.endswith("-" + suffix.value):
            if not _STATEFUL.match(name):
                return None
            state = suffix
            name = name[: name.rindex(".")]
            break
    if not name or "-" not in name:
        return None
    topic, _, number = name.rpartition("-")
    partition = parse_java_long(number, 32)
    if not topic or partition is None:
        return None
    return PartitionName(topic, partition, state)


def may_be_cut(directory: str) -> bool:
    """Whether the topic in a directory's name may be truncated. Names of deleted, stray and future directories have at
    most 255 bytes; a longer topic is truncated (`LocalLog.logDirNameWithSuffix`).
    """
    name = parse_partition_directory(directory)
    return name is not None and name.state is not DirectoryState.LIVE and len(directory) == _LONGEST_NAME


def parse_offset(name: str) -> int | None:
    """Return the number before the first dot of a file name (`LogFileUtils.offsetFromFileName`); None if Java cannot
    parse it.
    """
    return parse_java_long(name.split(".", 1)[0])


@lru_cache(maxsize=_NAMES_KEPT)
def segment_file(base_offset: int, kind: FileKind) -> str:
    """Return the name of a segment's file: the base offset with 20 digits, and the suffix of `kind`. A negative offset
    gets a minus sign before the 20 digits.
    """
    return f"{'-' if base_offset < 0 else ''}{abs(base_offset):0{_OFFSET_DIGITS}d}{kind.value}"


@lru_cache(maxsize=_NAMES_KEPT)
def parse_segment_file(name: str) -> SegmentFileName | None:
    """Parse the name of a segment's file to its base offset (`parse_offset`; may be negative), its kind (from the
    extension) and its suffix `.deleted`, `.cleaned` or `.swap` (empty if there is none). Return None for any other
    name, also for that of a KRaft snapshot. Results are cached.
    """
    digits, ordinary = name[:_OFFSET_DIGITS], _BEHIND_DIGITS.get(name[_OFFSET_DIGITS:])
    if ordinary is not None and digits.isdigit() and digits.isascii() and int(digits) < 1 << 63:
        return SegmentFileName(int(digits), ordinary)
    pending = ""
    for suffix in (DELETED, CLEANED, SWAP):
        if name.endswith(suffix):
            pending = suffix
            name = name[: -len(suffix)]
            break
    for ending, kind in _OF_SEGMENTS:
        if name.endswith(ending):
            base = parse_offset(name)
            return None if base is None else SegmentFileName(base, kind, pending)
    return None


def compressed_log(name: str) -> str | None:
    """Return the name of the log file of which the file `name` is a compressed copy, such as `gzip` makes: `name`
    without `.gz` or the like. None if that is not the name of a live log.
    """
    stem, dot, suffix = name.rpartition(".")
    parsed = parse_segment_file(stem) if dot + suffix in _COMPRESSED else None
    return stem if parsed is not None and parsed.is_live_log else None


def kraft_snapshot_file(end_offset: int, epoch: int) -> str:
    """Return the name of a finished KRaft snapshot, `<end offset>-<epoch>.checkpoint`."""
    return f"{end_offset:0{_OFFSET_DIGITS}d}-{epoch:0{_EPOCH_DIGITS}d}{FileKind.KRAFT_SNAPSHOT.value}"


def parse_kraft_snapshot_file(name: str) -> KRaftSnapshotName | None:
    """Return the end offset and epoch in the name of a KRaft snapshot, and the suffix of a deleted or unfinished one
    (empty for any other). Like `Snapshots.parse`, it reads the numbers at fixed positions. An unfinished snapshot is
    named `<end offset>-<epoch>-<random>.checkpoint.part`. Return None for any other name, such as
    `bootstrap.checkpoint`.
    """
    for pending in (UNFINISHED_SNAPSHOT, DELETED, ""):
        if name.endswith(FileKind.KRAFT_SNAPSHOT.value + pending):
            end_offset = parse_java_long(name[:_OFFSET_DIGITS])
            epoch = parse_java_long(name[_OFFSET_DIGITS + 1 : _OFFSET_DIGITS + 1 + _EPOCH_DIGITS], 32)
            return None if end_offset is None or epoch is None else KRaftSnapshotName(end_offset, epoch, pending)
    return None
