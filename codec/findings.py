"""Findings: what is wrong with bytes under examination, with stable codes.

A reader never raises for bad data; it reports findings.  Codes are part of the public interface: scripts match on them.
"""

from __future__ import annotations

import enum
from dataclasses import asdict, replace
from typing import Protocol

from kafkalog.classes import dataclass
from kafkalog.codec.names import SWAP, FileKind
from kafkalog.codec.sentinels import NO_END
from kafkalog.codec.wording import counted, moment_text

__all__ = [
    "BatchOutline", "Finding", "FindingCode", "Severity", "StopReason", "Unread", "outline_of",
    "severity_of_unfinished",
]  # fmt: skip


class Severity(enum.StrEnum):
    """How bad a finding is."""

    INFO = "info"
    """worth knowing; normal after a crash or in compacted data"""
    WARNING = "warning"
    """a reader copes, but something disagrees"""
    ERROR = "error"
    """data is damaged or lost, or the broker would not accept it"""


class StopReason(enum.StrEnum):
    """Why a walk over a segment ended."""

    END = "end"
    """the last batch ends where the file ends"""
    TORN_TAIL = "torn_tail"
    """the file ends inside a batch"""
    ZERO_TAIL = "zero_tail"
    """nothing but zeros to the end of the file: space that was allocated and never written"""
    CORRUPT = "corrupt"
    """bytes that are not a valid batch, and are neither a torn nor a zero tail"""
    LIMIT = "limit"
    """a cap of `Limits` or the end that the caller set was reached"""


class FindingCode(enum.StrEnum):
    """Stable names of everything that can be found; the comment describes the meaning."""

    # how a walk over a segment can end
    TORN_TAIL = "torn_tail"
    """the log ends inside a batch"""
    ZERO_TAIL = "zero_tail"
    """zeros from the last batch to the end of the log"""
    BATCH_SIZE_INVALID = "batch_size_invalid"
    """the size field is below the smallest message or batch, or beyond the end of a file although the log continues"""
    CRC_MISMATCH = "crc_mismatch"
    """the checksum does not match the bytes"""
    LIMIT_EXCEEDED = "limit_exceeded"
    """a cap of Limits was hit"""

    # batch headers: impossible values despite a valid checksum
    MAGIC_UNKNOWN = "magic_unknown"
    """a magic byte that no Kafka version writes"""
    CODEC_UNKNOWN = "codec_unknown"
    """a compression id that no Kafka version writes, or that is not allowed in this magic"""
    RECORDS_COUNT_INVALID = "records_count_invalid"
    """a negative or impossible record count"""
    LAST_OFFSET_DELTA_INVALID = "last_offset_delta_invalid"
    """a last offset below the base offset"""

    # continuity: batches that do not belong where they are
    OFFSET_BELOW_SEGMENT = "offset_below_segment"
    """an offset below the segment's base offset"""
    OFFSET_ABOVE_SEGMENT = "offset_above_segment"
    """an offset more than 2^31 - 1 above the segment's base offset"""
    OFFSET_NOT_INCREASING = "offset_not_increasing"
    """an offset at or below that of the batch before"""
    LOG_END_BELOW_OFFSET = "log_end_below_offset"
    """the last batch of a log ends below an earlier one, and a broker takes the log's end from it"""
    OFFSET_DISPLACED = "offset_displaced"
    """a base offset that does not continue the log, where the next batch does"""
    OFFSET_GAP = "offset_gap"
    """offsets are missing; normal in compacted topics"""
    SEGMENT_MISSING = "segment_missing"
    """offsets are missing between two segments of a log without other gaps: a segment or the end of one is missing"""
    SEGMENT_OVERLAP = "segment_overlap"
    """a segment reaches into the next one's offsets"""
    LEADER_EPOCH_DECREASES = "leader_epoch_decreases"
    """a leader epoch below that of the batch before"""
    LEADER_EPOCH_MISMATCH = "leader_epoch_mismatch"
    """a batch's leader epoch is not the one in leader-epoch-checkpoint"""
    MAX_TIMESTAMP_MISMATCH = "max_timestamp_mismatch"
    """the largest timestamp in the header is not that of the records"""

    # inside a batch
    DECOMPRESSION_FAILED = "decompression_failed"
    """the compressed stream cannot be read"""
    RECORD_TRUNCATED = "record_truncated"
    """a record runs past the end of its batch, or a field past the end of its record"""
    RECORD_LENGTH_MISMATCH = "record_length_mismatch"
    """a record's fields take fewer bytes than its length field says"""
    VARINT_TOO_LONG = "varint_too_long"
    """a variable-length integer longer than its type allows"""
    HEADER_COUNT_INVALID = "header_count_invalid"
    """a record header count that is negative or too large for the bytes left"""
    HEADER_KEY_INVALID = "header_key_invalid"
    """a record header without a key"""
    HEADER_KEY_NOT_TEXT = "header_key_not_text"
    """the name of a record header that is not UTF-8; tables have U+FFFD in place of its bytes"""
    TIMESTAMP_OUT_OF_RANGE = "timestamp_out_of_range"
    """a record's time that no table can hold, as of nanoseconds in place of milliseconds; it is null there"""
    TIMESTAMP_UNIT = "timestamp_unit"
    """record times that look like seconds, microseconds or nanoseconds in place of milliseconds"""
    RECORDS_TRAILING_BYTES = "records_trailing_bytes"
    """bytes after the last declared record of a batch"""
    TRANSACTION_UNDECIDED = "transaction_undecided"
    """a transaction whose end lies behind damage: nobody can tell whether it was committed"""
    CONTROL_RECORD_INVALID = "control_record_invalid"
    """a control record whose key or value cannot be read"""
    MESSAGE_INVALID = "message_invalid"
    """a v0 or v1 message whose inner structure cannot be read"""

    # indexes, snapshots, checkpoints
    INDEX_MISSING = "index_missing"
    """a segment without its offset or time index"""
    INDEX_SIZE_INVALID = "index_size_invalid"
    """an index whose size is not a multiple of its entry size"""
    INDEX_NOT_INCREASING = "index_not_increasing"
    """index entries that do not increase"""
    INDEX_ENTRY_MISMATCH = "index_entry_mismatch"
    """an index entry that does not describe a batch of the log"""
    INDEX_PREALLOCATED = "index_preallocated"
    """zeros after the entries: the broker did not close the index"""
    TXN_INDEX_MISMATCH = "txn_index_mismatch"
    """the listed aborted transactions are not those of the log"""
    SNAPSHOT_INVALID = "snapshot_invalid"
    """a producer snapshot that cannot be read"""
    CHECKPOINT_INVALID = "checkpoint_invalid"
    """a text checkpoint that cannot be read"""
    PARTITION_METADATA_INVALID = "partition_metadata_invalid"
    """partition.metadata is missing although it is needed, or cannot be read"""
    META_PROPERTIES_INVALID = "meta_properties_invalid"
    """meta.properties cannot be read, or holds an id that a broker does not accept"""

    # directories
    FOREIGN_FILE = "foreign_file"
    """a file that no Kafka version writes"""
    FOREIGN_DIRECTORY = "foreign_directory"
    """a directory that stops a broker from starting"""
    TEMPORARY_FILE = "temporary_file"
    """.deleted, .cleaned or .swap: an operation that was not finished"""
    PARTITION_MISSING = "partition_missing"
    """a checkpoint or the cluster metadata names a topic-partition that has no directory"""
    LOG_DIRECTORY_MISSING = "log_directory_missing"
    """one of a broker's log directories is not there, or is empty: perhaps its disk is not mounted"""
    LOG_DIRECTORY_READ_ONLY = "log_directory_read_only"
    """the file system of a log directory is mounted read-only"""
    MOVE_UNFINISHED = "move_unfinished"
    """a move of a replica between log directories that was never finished"""
    MOMENTS_DIFFER = "moments_differ"
    """logs that end before what the broker had flushed of them: a copy that was made while it ran"""
    OWNER_MISMATCH = "owner_mismatch"
    """files of a log directory that the user of the others may not open: a broker takes the directory offline"""
    BATCHES_OUTSIDE = "batches_outside"
    """a file in lost+found, or one that no Kafka version writes, holds sound batches"""
    DUPLICATE_PARTITION = "duplicate_partition"
    """a topic-partition that is in two directories"""
    IDENTITY_MISMATCH = "identity_mismatch"
    """log directories whose cluster ids, node ids or directory ids do not fit together in one broker"""
    NOT_REPLICAS = "not_replicas"
    """compared directories that belong to different clusters, or to different topics with the same name"""
    OFFSETS_BELOW_LOG_START = "offsets_below_log_start"
    """records below the log start offset: deleted for consumers, but still in the files"""
    LOG_END_BELOW_LOG_START = "log_end_below_log_start"
    """the log ends below its log start offset; a broker deletes all of it"""
    LOG_END_BELOW_HIGH_WATERMARK = "log_end_below_high_watermark"
    """the log ends below the last known high watermark"""
    UNREADABLE = "unreadable"
    """the operating system could not read a file or a directory; the others were read anyway"""
    BROKER_REFUSES = "broker_refuses"
    """a broker would not start on this, or take the directory offline"""
    START_LOSES = "start_loses"
    """a broker would start on this, and put partitions out of service or begin its metadata from nothing"""
    RUN_UNFINISHED = "run_unfinished"
    """a recovery, or the undo of one, was cut short: some of its changes are made and others not"""

    # cluster state
    RECORD_TYPE_UNKNOWN = "record_type_unknown"
    """a record of an internal topic of a type that no known release writes; shown as bytes"""
    RECORD_VERSION_UNKNOWN = "record_version_unknown"
    """a known record type in an unknown version; shown as bytes"""
    TYPED_RECORD_INVALID = "typed_record_invalid"
    """a record of an internal topic that does not fit its layout; shown as bytes"""
    TYPED_RECORD_TRAILING_BYTES = "typed_record_trailing_bytes"
    """bytes after the last field of a coordinator record, which Kafka does not examine"""
    TYPED_RECORD_AMBIGUOUS = "typed_record_ambiguous"
    """a record whose bytes fit the layouts of several releases; read as the newest writes it"""
    GROUP_MISPLACED = "group_misplaced"
    """a group or transactional id in another partition than its hash gives"""
    GROUP_KINDS_MIXED = "group_kinds_mixed"
    """records of a group behind one of its name and of another kind: brokers from 4.0 on do not load the partition"""
    PARTITION_OWNED_TWICE = "partition_owned_twice"
    """a partition that two members of a group have at the same time"""
    PAST_REMOVED = "past_removed"
    """what is not known of an earlier moment, because its records have been removed since"""
    OFFSET_BEYOND_LOG_END = "offset_beyond_log_end"
    """a group has committed, or a table has, an offset that its partition's log here does not reach"""
    TRANSACTION_HANGING = "transaction_hanging"
    """an open transaction in a partition that its coordinator does not know about"""
    METADATA_INCONSISTENT = "metadata_inconsistent"
    """cluster metadata that contradicts itself, or the files beside it"""
    METADATA_GAP = "metadata_gap"
    """a part of the cluster metadata is missing"""
    REMOTE_EVENT_INVALID = "remote_event_invalid"
    """an event about a remote segment that a broker passes over: out of order, or of a segment that is not known"""
    REMOTE_OBJECT_MISSING = "remote_object_missing"
    """an object of a remote segment that a broker would read is not there"""
    REMOTE_OBJECT_LEAKED = "remote_object_leaked"
    """an object of no remote segment that is known, or of one that was deleted: no broker will ever delete it"""
    REMOTE_OBJECT_DAMAGED = "remote_object_damaged"
    """an object of a remote segment that has another size than was copied"""
    REMOTE_INDEX_DAMAGED = "remote_index_damaged"
    """an index of a remote segment, or the copy of one that a broker keeps, that is not one"""
    REMOTE_COPY_STUCK = "remote_copy_stuck"
    """a copy of a segment to the remote tier that was begun and never finished"""
    REMOTE_DELETE_STUCK = "remote_delete_stuck"
    """the deletion of a remote segment that was begun and never finished"""
    REMOTE_COPY_BEHIND = "remote_copy_behind"
    """closed local segments of a tiered log that were not copied"""
    LOCAL_RETENTION_PASSED = "local_retention_passed"
    """local segments that were copied and are still there, although retention of the local part has passed"""
    REMOTE_LINEAGES_OVERLAP = "remote_lineages_overlap"
    """a remote segment of a leader epoch that the log has elsewhere or not at all: no broker reads or deletes it"""
    TIER_GAP = "tier_gap"
    """offsets of a tiered log that are in neither tier"""
    SCHEMA_RECORD_INVALID = "schema_record_invalid"
    """a record of `_schemas`, or an exported schema, that a schema registry cannot read"""
    SCHEMA_KEY_FORMS = "schema_key_forms"
    """a key of `_schemas` that is written in several forms, each of which the cleaner keeps"""
    SCHEMA_WOULD_RETURN = "schema_would_return"
    """a deleted schema that comes back when the cleaner has removed the record that deletes it"""
    SCHEMA_ID_CONFLICT = "schema_id_conflict"
    """a schema id that stands for two different schemas"""
    SCHEMA_REFERENCE_MISSING = "schema_reference_missing"
    """a schema that refers to a version that is not there"""
    SCHEMA_ID_UNKNOWN = "schema_id_unknown"
    """keys or values that begin with the id of a schema that nothing here has"""
    VALUE_UNDECODABLE = "value_undecodable"
    """keys or values that were to be decoded and could not be; shown as bytes"""
    ZK_LOG_TORN = "zk_log_torn"
    """a ZooKeeper log that ends inside an entry"""
    ZK_LOG_CORRUPT = "zk_log_corrupt"
    """a ZooKeeper log entry that cannot be read"""
    ZK_CHECKSUM_MISMATCH = "zk_checksum_mismatch"
    """a ZooKeeper log entry or snapshot whose checksum does not match"""
    ZK_SNAPSHOT_INVALID = "zk_snapshot_invalid"
    """a ZooKeeper snapshot that cannot be read completely"""
    ZK_GAP = "zk_gap"
    """transactions that are missing between two ZooKeeper files"""
    ZK_DIGEST_MISMATCH = "zk_digest_mismatch"
    """the rebuilt tree is not the one that ZooKeeper had"""
    ZK_NODE_INVALID = "zk_node_invalid"
    """a registration, an owner or an offset of old consumers in ZooKeeper that cannot be read"""
    ZK_PATH_MISSING = "zk_path_missing"
    """a ZooKeeper node that brokers create at start is missing"""


@dataclass(frozen=True, slots=True)
class Unread:
    """The offsets that damage makes unreadable, by the sound batches before and after it in the log."""

    first_offset: int
    """after the sound batch before, or the segment's base offset"""
    last_offset: int | None
    """before the next sound batch; None if none comes"""
    newest_before: int | None = None
    """largest timestamp of the sound batch before, in ms; None if there is none in the segment, or it has no time"""
    oldest_after: int | None = None
    """timestamp with which the next sound batch begins, in ms; None if none comes, or it has no time"""

    def as_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {
            "first_offset": self.first_offset,
            "last_offset": self.last_offset,
            "newest_before": self.newest_before,
            "oldest_after": self.oldest_after,
        }

    @property
    def parts(self) -> list[str]:
        """Offsets and times, each in words."""
        offsets = _offsets(self.first_offset, self.last_offset)
        before = None if self.newest_before is None else moment_text(self.newest_before)
        after = None if self.oldest_after is None else moment_text(self.oldest_after)
        if before is not None and after is not None:
            return [offsets, f"between {before} and {after}"]
        if before is not None:
            return [offsets, f"after {before}"]
        return [offsets] if after is None else [offsets, f"before {after}"]


class OutlinedHeader(Protocol):
    """The header of a batch or message of any magic."""

    @property
    def first_offset(self) -> int:
        """The lowest offset that the header tells."""

    @property
    def last_offset(self) -> int:
        """The highest offset that the header tells."""

    @property
    def claimed_records(self) -> int | None:
        """Number of records by the header; None if it does not tell."""

    @property
    def first_timestamp(self) -> int:
        """Time of the first record in ms; -1 if there is none."""

    @property
    def max_timestamp(self) -> int:
        """Largest time of a record in ms; -1 if there is none."""


@dataclass(frozen=True, slots=True)
class BatchOutline:
    """What the header of a batch says: a claim where its checksum cannot be compared, because the batch is torn."""

    first_offset: int
    last_offset: int
    records: int | None
    """None of compressed messages before v2, whose header does not tell"""
    first_timestamp: int | None
    """in ms; None without one"""
    last_timestamp: int | None
    """the largest, in ms; None without one"""

    def as_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return asdict(self)

    @property
    def is_possible(self) -> bool:
        """Whether a broker could have written a batch with these offsets and so many records."""
        span = self.last_offset - self.first_offset + 1
        return 0 <= self.first_offset <= self.last_offset <= NO_END and 0 < (self.records or 1) <= span

    @property
    def claimed(self) -> str:
        """The end of a sentence about a batch that is torn."""
        return f"; its header claims {self}"

    @property
    def times(self) -> str:
        """From when to when, in words; empty where no time is known."""
        first, last = self.first_timestamp, self.last_timestamp
        if first is None or last is None:
            return ""
        from_, to = moment_text(first), moment_text(last)
        return from_ if from_ == to else f"{from_} to {to}"

    def __str__(self) -> str:
        records = "" if self.records is None else counted(self.records, "record")
        return ", ".join(filter(None, [_offsets(self.first_offset, self.last_offset), records, self.times]))


def outline_of(header: OutlinedHeader) -> BatchOutline:
    """Outline of a batch by its header; times that are not there, or below 0, are None."""
    first, last = (each if each >= 0 else None for each in (header.first_timestamp, header.max_timestamp))
    return BatchOutline(header.first_offset, header.last_offset, header.claimed_records, first, last)


def _offsets(first: int, last: int | None) -> str:
    if last is None:
        return f"from offset {first} on"
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: what it is, how bad, where, and a sentence about it.

    `position` is a byte position in `file` (from the start of the buffer if `file` is None); `offset` a Kafka offset.
    """

    code: FindingCode
    severity: Severity
    position: int | None = None
    offset: int | None = None
    detail: str = ""
    file: str | None = None
    last_offset: int | None = None
    """of a batch inside of which something is wrong, so that consumers stop at `offset` and read on behind this one"""
    unread: Unread | None = None
    """of damage between sound batches: which offsets nobody reads, and from when to when"""
    batch: BatchOutline | None = None
    """of a batch that is torn, or inside of which something is wrong: what its header says"""

    def in_file(self, file: str) -> Finding:
        """The same finding with its file named."""
        return replace(self, file=file)

    def as_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        last = {} if self.last_offset is None else {"last_offset": self.last_offset}
        return {
            "code": str(self.code),
            "severity": str(self.severity),
            "file": self.file,
            "position": self.position,
            "offset": self.offset,
            **last,
            **({} if self.unread is None else {"unread": self.unread.as_dict()}),
            **({} if self.batch is None else {"batch": self.batch.as_dict()}),
            "detail": self.detail,
        }

    def __str__(self) -> str:
        place = "" if self.position is None else f"byte {self.position}"
        where = [part for part in (self.file, place, *self.offsets_and_times) if part]
        at = f" ({', '.join(where)})" if where else ""
        return f"{self.severity}: {self.code}{at}: {self.detail}"

    @property
    def offsets_and_times(self) -> list[str]:
        """Which offsets it is about and, where that is known, between which times, each in words."""
        if self.unread is not None:
            return self.unread.parts
        if self.offset is None:
            return []
        times = "" if self.batch is None else self.batch.times
        offsets = _offsets(self.offset, self.offset if self.last_offset is None else self.last_offset)
        return [offsets, times] if times else [offsets]


def severity_of_unfinished(path: str) -> Severity:
    """How bad a file is that an unfinished operation left.

    Worse where it is a log, which a start puts in place of others.
    """
    return Severity.WARNING if path.endswith(FileKind.LOG.value + SWAP) else Severity.INFO
