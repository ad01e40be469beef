"""Names in a log directory: what a directory or a file is, from its name alone.

Decided by `UnifiedLog.parseTopicPartitionName` and `LogFileUtils`.  Names are never joined to a path here, and a topic
read from a file's content is not a name.  A broker is taken to read names as UTF-8; one that was started with another
character set does not find files whose names are not ASCII.
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
"""what a file system's repair makes at its root"""
QUARANTINE_POINTER = ".kafkalog-quarantine"
"""where a log directory says that what recoveries removed from it is kept in another place than beside it"""
QUORUM_STATE = "quorum-state"
BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"
ZOOKEEPER_DIRECTORY = "version-2"
"""what ZooKeeper keeps its logs and snapshots in, below its dataDir and dataLogDir"""
REMOTE_INDEX_CACHE = "remote-log-index-cache"
CLUSTER_METADATA_TOPIC = "__cluster_metadata"
CLUSTER_METADATA_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
"""its topic id in every cluster (`Uuid.METADATA_TOPIC_ID`)"""
CONSUMER_OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_GROUP_STATE_TOPIC = "__share_group_state"
REMOTE_LOG_METADATA_TOPIC = "__remote_log_metadata"
COORDINATOR_TOPICS = (CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC)
"""Topics that a coordinator of the brokers writes."""
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
"""Files of a log directory by which a broker decides what to do at its next start."""

TEMPORARY = ".tmp"
"""Suffix of the file that a checkpoint is written to before it is renamed."""
UNFINISHED_SNAPSHOT = ".part"
"""Suffix of a KRaft snapshot that is being written."""
DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"

_CONFLUENT = re.compile(r"\d{20}\.tierstate(\.[a-z]+)?|.+_\d+\.tierlog|tier\.offsets(\.tmp)?", re.ASCII)
"""What the tiered storage of Confluent's own server keeps in partitions, and in log directories."""
_LONG_DIGITS = 19
_JAVA_INTEGER = re.compile(r"([+-]?)(\d+)\Z")
_LARGEST_CHARACTER = "\uffff"
"""Java examines a number 16 bits at a time, so that no digit of a later plane is one to it."""
_LONGEST_NAME = 255
"""Characters of a directory's name, in which Kafka's topics have one byte each."""
_STATEFUL = re.compile(r"(\S+)-(\S+)\.(\S+)-(delete|future|stray)\Z", re.ASCII)
_OFFSET_DIGITS = 20
_EPOCH_DIGITS = 10
_NAMES_KEPT = 8192
"""File names that are parsed only once: those of many partitions are the same."""
_DIRECTORIES_KEPT = 16_384
"""Names of partition directories that are parsed only once: each step of an examination asks for all of them."""


class DirectoryState(enum.StrEnum):
    """What the suffix of a partition directory says."""

    LIVE = ""
    DELETE = "delete"
    FUTURE = "future"
    STRAY = "stray"


_BLANK = re.compile(r"\s", re.ASCII)


class FileKind(enum.StrEnum):
    """Files of a partition directory, by the suffix of their name."""

    LOG = ".log"
    OFFSET_INDEX = ".index"
    TIME_INDEX = ".timeindex"
    TRANSACTION_INDEX = ".txnindex"
    PRODUCER_SNAPSHOT = ".snapshot"
    KRAFT_SNAPSHOT = ".checkpoint"


_OF_SEGMENTS = tuple((kind.value, kind) for kind in FileKind if kind is not FileKind.KRAFT_SNAPSHOT)
_BEHIND_DIGITS = dict(_OF_SEGMENTS)
"""The same by what follows the digits of an ordinary name."""
INDEX_KINDS = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX)


class PartitionName(Struct, frozen=True, order=True):
    """What a partition directory is called."""

    topic: str
    partition: int
    state: DirectoryState = DirectoryState.LIVE

    @property
    def has_blanks(self) -> bool:
        """Blanks in the topic are lost where a broker renames the directory (`-stray`), and then it does not start."""
        return _BLANK.search(self.topic) is not None

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class SegmentFileName(Struct, frozen=True):
    """A file that belongs to a base offset; `pending` is `.deleted`, `.cleaned`, `.swap` or empty."""

    base_offset: int
    kind: FileKind
    pending: str = ""

    @property
    def is_live_log(self) -> bool:
        """Whether it holds records that a consumer is given."""
        return self.kind is FileKind.LOG and not self.pending


class KRaftSnapshotName(Struct, frozen=True):
    """A KRaft snapshot: offset after its last record, epoch of that; `pending` is `.part`, `.deleted` or empty."""

    end_offset: int
    epoch: int
    pending: str = ""


def without_surrogates(text: str | None) -> str | None:
    """A name with visible escapes for bytes that were no UTF-8, which Python keeps as surrogates and Arrow refuses."""
    return None if text is None else text.encode("utf-8", "backslashreplace").decode()


def parse_java_long(text: str, bits: int = 64) -> int | None:
    """What Java's `Long.parseLong` (or, with 32 bits, `Integer.parseInt`) makes of text; None if it refuses.

    Decimal digits of any script count, as for `Character.digit`, and any number of leading zeros.
    """
    if len(text) <= _OFFSET_DIGITS and text.isdigit() and text.isascii():
        value = int(text)
        return value if value < 1 << bits - 1 else None
    found = _JAVA_INTEGER.match(text)
    if found is None or max(text) > _LARGEST_CHARACTER:
        return None
    digits = found[2]
    if len(digits) > _LONG_DIGITS:
        zeros = next((number for number, digit in enumerate(digits) if int(digit)), len(digits) - 1)
        digits = digits[zeros:]
        if len(digits) > _LONG_DIGITS:
            return None
    value = int(found[1] + digits)
    return value if -(1 << bits - 1) <= value < 1 << bits - 1 else None


def is_of_confluent(name: str) -> bool:
    """Whether a file is one that Confluent's server writes beside Kafka's own, and that nobody else reads."""
    return "tier" in name and _CONFLUENT.fullmatch(name) is not None


def is_seen_by_java(name: str) -> bool:
    """A JVM finds the file again by the name that it lists: its bytes are UTF-8."""
    return name.isascii() or not any("\ud800" <= character <= "\udfff" for character in name)


@lru_cache(maxsize=_DIRECTORIES_KEPT)
def parse_partition_directory(name: str) -> PartitionName | None:
    """Topic, partition and state from a directory name; None where the broker would refuse to start."""
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
    """Whether the topic in a directory's name may be only the beginning of a longer one.

    Names of deleted, stray and future directories have at most 255 bytes, and a topic that is too long for that is cut
    (`LocalLog.logDirNameWithSuffix`).
    """
    name = parse_partition_directory(directory)
    return name is not None and name.state is not DirectoryState.LIVE and len(directory) == _LONGEST_NAME


def parse_offset(name: str) -> int | None:
    """The number before a file name's first dot (`LogFileUtils.offsetFromFileName`); None where Java finds none."""
    return parse_java_long(name.split(".", 1)[0])


@lru_cache(maxsize=_NAMES_KEPT)
def segment_file(base_offset: int, kind: FileKind) -> str:
    """The canonical name of a segment's file, `NNNNNNNNNNNNNNNNNNNN.log` and so on; a sign is not one of the digits."""
    return f"{'-' if base_offset < 0 else ''}{abs(base_offset):0{_OFFSET_DIGITS}d}{kind.value}"


@lru_cache(maxsize=_NAMES_KEPT)
def parse_segment_file(name: str) -> SegmentFileName | None:
    """Base offset and kind from a file name; None for files that do not belong to a base offset."""
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


def kraft_snapshot_file(end_offset: int, epoch: int) -> str:
    """The canonical name of a KRaft snapshot, `<end offset>-<epoch>.checkpoint`."""
    return f"{end_offset:0{_OFFSET_DIGITS}d}-{epoch:0{_EPOCH_DIGITS}d}{FileKind.KRAFT_SNAPSHOT.value}"


def parse_kraft_snapshot_file(name: str) -> KRaftSnapshotName | None:
    """End offset and epoch from the name of a snapshot, by their places (`Snapshots.parse`); None for other files.

    A snapshot that is being written is `<end offset>-<epoch>-<random>.checkpoint.part`; `bootstrap.checkpoint` is none.
    """
    for pending in (UNFINISHED_SNAPSHOT, DELETED, ""):
        if name.endswith(FileKind.KRAFT_SNAPSHOT.value + pending):
            end_offset = parse_java_long(name[:_OFFSET_DIGITS])
            epoch = parse_java_long(name[_OFFSET_DIGITS + 1 : _OFFSET_DIGITS + 1 + _EPOCH_DIGITS], 32)
            return None if end_offset is None or epoch is None else KRaftSnapshotName(end_offset, epoch, pending)
    return None
