"""The table of findings: sentence, severity and family of each code, and traits that readers and commands use. To add a
finding, add it here and in the check that reports it. Code that treats several findings alike asks the table for a
trait.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import cache

from msgspec import Struct

__all__ = ["SPECS", "Family", "FindingCode", "FindingSpec", "Severity", "Trait", "advice_for", "codes_with"]


class Severity(enum.StrEnum):
    """Severity of a finding."""

    INFO = "info"
    """worth knowing; normal after a crash or in compacted data"""
    WARNING = "warning"
    """a reader copes, but something disagrees"""
    ERROR = "error"
    """data is damaged or lost, or the broker would not accept it"""


class FindingCode(enum.StrEnum):
    """The stable name of each kind of finding; a comment describes its meaning."""

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
    """a batch whose base offset does not continue the log, although the next batch continues it"""
    OFFSET_GAP = "offset_gap"
    """offsets are missing; normal in compacted topics"""
    SEGMENT_MISSING = "segment_missing"
    """offsets that compaction cannot have removed are missing: between two segments (a segment or the end of one is
    missing), or the first batches of a segment of a topic that is known not to be compacted. Information for batches
    between others of such a segment, as salvage leaves it
    """
    SEGMENT_OVERLAP = "segment_overlap"
    """a segment reaches into the next one's offsets"""
    LEADER_EPOCH_DECREASES = "leader_epoch_decreases"
    """a leader epoch below that of the batch before"""
    LEADER_EPOCH_MISMATCH = "leader_epoch_mismatch"
    """a batch's leader epoch is not the one in leader-epoch-checkpoint; or an epoch there begins beyond the log's end,
    and the metadata does not know it or a later line contradicts it, so that it proves no loss
    """
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
    SNAPSHOT_MISMATCH = "snapshot_mismatch"
    """a producer snapshot lists producers or transactions that contradict the log, or was written beyond its end; or
    there is none, or an open transaction is not in it, after a clean stop"""
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
    """logs that end below the offset up to which the broker had flushed them: they were copied while it ran, or cut off
    """
    OWNER_MISMATCH = "owner_mismatch"
    """files of a log directory that the user of the others may not open: a broker takes the directory offline"""
    BATCHES_OUTSIDE = "batches_outside"
    """a file in lost+found, or one that no Kafka version writes, holds sound batches"""
    SEGMENT_MISNAMED = "segment_misnamed"
    """segments of a partition whose names do not fit their batches"""
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
    LOG_END_BEYOND_CHECKPOINT = "log_end_beyond_checkpoint"
    """the log ends beyond the offset at which its broker closed it, or its last batch has an offset with a flipped bit
    """
    LOG_END_BELOW_HIGH_WATERMARK = "log_end_below_high_watermark"
    """the log ends below the last known high watermark"""
    DELETED_BEYOND_END = "deleted_beyond_end"
    """.deleted segments hold records beyond the end of the log: a truncation removed them"""
    UNREADABLE = "unreadable"
    """the operating system could not read a file or a directory; the others were read anyway"""
    BROKER_REFUSES = "broker_refuses"
    """a broker would not start on this, would take the directory offline, or would not serve a part of it"""
    START_LOSES = "start_loses"
    """a broker would start on this, and lose partitions or records, begin its metadata from nothing, or hand out
    producer ids again that logs have
    """
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
    SHARE_STATE_MISSING = "share_state_missing"
    """a share group has initialized partitions of which no delivery state is left: its members get no record of them"""
    GROUP_KINDS_MIXED = "group_kinds_mixed"
    """records of a group after records of another kind of group with its name: brokers from 4.0 on do not load the
    partition
    """
    PARTITION_OWNED_TWICE = "partition_owned_twice"
    """a partition that two members of a group have at the same time"""
    PAST_REMOVED = "past_removed"
    """records of an earlier moment have been removed since, so that its state is not fully known"""
    OFFSET_BEYOND_LOG_END = "offset_beyond_log_end"
    """a group has committed, or a table has, an offset that its partition's log here does not reach"""
    TRANSACTION_HANGING = "transaction_hanging"
    """an open transaction in a partition that its coordinator does not know about"""
    METADATA_INCONSISTENT = "metadata_inconsistent"
    """cluster metadata that contradicts itself, or the files beside it"""
    METADATA_GAP = "metadata_gap"
    """a part of the cluster metadata is missing"""
    REMOTE_EVENT_INVALID = "remote_event_invalid"
    """an event about a remote segment that a broker ignores: it is out of order, or about an unknown segment"""
    REMOTE_OBJECT_MISSING = "remote_object_missing"
    """an object of a remote segment that a broker would read is not there"""
    REMOTE_OBJECT_LEAKED = "remote_object_leaked"
    """an object that belongs to no known remote segment, or to a deleted one: no broker will ever delete it"""
    REMOTE_OBJECT_DAMAGED = "remote_object_damaged"
    """an object of a remote segment that has another size than was copied"""
    REMOTE_INDEX_DAMAGED = "remote_index_damaged"
    """an index of a remote segment, or a broker's cached copy of it, that is not a valid index"""
    REMOTE_COPY_STUCK = "remote_copy_stuck"
    """a copy of a segment to the remote tier that was begun and never finished"""
    REMOTE_DELETE_STUCK = "remote_delete_stuck"
    """the deletion of a remote segment that was begun and never finished"""
    REMOTE_COPY_BEHIND = "remote_copy_behind"
    """closed local segments of a tiered log that were not copied"""
    LOCAL_RETENTION_PASSED = "local_retention_passed"
    """local segments that were copied and are still there, although retention of the local part has passed"""
    REMOTE_LINEAGES_OVERLAP = "remote_lineages_overlap"
    """a remote segment with a leader epoch that the log has at other offsets or not at all: no broker reads or deletes
    it
    """
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


class Family(enum.StrEnum):
    """What a finding is about."""

    WALK = "how a walk over a segment can end"
    HEADER = "batch headers: impossible values despite a valid checksum"
    CONTINUITY = "continuity: batches that do not belong where they are"
    INSIDE = "inside a batch"
    SIDE_FILE = "indexes, snapshots, checkpoints"
    DIRECTORY = "directories"
    CLUSTER = "cluster state"


class Trait(enum.Flag):
    """What readers and commands make of a finding."""

    TAIL = enum.auto()
    """the end of a log that was being written: nothing behind it was complete"""
    NO_BATCH = enum.auto()
    """bytes that are no batch: a consumer does not read past them"""
    ENDS_READING = enum.auto()
    """a batch with a valid checksum that no consumer reads past"""
    READ_PAST = enum.auto()
    """consumers read past it, so readers report it and go on"""
    LISTED = enum.auto()
    """consumers read past it, and only a list of findings has it, not a warning"""
    NORMAL = enum.auto()
    """healthy logs have it, as after compaction"""
    MISPLACED = enum.auto()
    """a whole batch that does not belong where it is"""
    REBUILT = enum.auto()
    """of a file that is derived from the log, which a start or `index rebuild` makes again"""
    INSIDE_BATCH = enum.auto()
    """records that cannot be read although the checksum of their batch is right"""
    HIDES_DIRECTORY = enum.auto()
    """it hides everything that is in a directory, and comes before all other findings"""
    UNREAD_STATE = enum.auto()
    """state of the cluster that could not be read, so what it was is not known"""
    OF_A_MOMENT = enum.auto()
    """compares files that a running broker writes at different times: not reported beside one"""
    HIDES_NAMES = enum.auto()
    """a warning after which a group or transactional id that was not found may have existed"""
    OF_LOSSES = enum.auto()
    """records that are lost, or that can be had again from elsewhere in the directory: a report of losses names it"""
    ENTRY_UNREAD = enum.auto()
    """a file or directory that is not what its name says, or that could not be read"""


_TAIL = (
    "An interrupted append leaves this behind. A broker removes it when it starts after a crash, and so does "
    "`kafkalog recover`. Kafka does not flush before it answers, so the removed records may have been acknowledged: "
    "then the other replicas have them."
)
_DAMAGE = (
    "A consumer stops here. A broker that recovers the log truncates it here and deletes all later segments. Compare "
    "the ways below before a broker starts on it: another copy, `--mode salvage` or `--repair-bits` may keep what "
    "comes after."
)
_HEADER = (
    "The checksum is right, so these bytes are as they were written, or were changed together with the checksum. Do "
    "not truncate for this alone: `kafkalog dump --all --batches` shows the batch."
)
_PLACE = (
    "The batch is whole, but it does not continue the log. Base offset and leader epoch lie outside the checksum, so a "
    "flipped bit can do this: `kafkalog recover --repair-bits structure` tries to prove that. Copied or exchanged "
    "files can cause this too."
)
_RECORDS = (
    "The checksum of the batch is right, but its records cannot be decoded: most likely its producer wrote them that "
    "way. A broker does not check; a consumer fails at this offset and has to seek past it."
)
_INDEX = (
    "Indexes are derived from the log and hold no data of their own: `kafkalog index rebuild` or the recovery below "
    "rebuilds them, and so does a broker."
)
_CHECKPOINT = (
    "A broker rewrites the file at start, if it can start; the recovery below repairs it without a broker. "
    "Do not delete log-start-offset-checkpoint by hand: deleted records would come back."
)
_CLUSTER = "See the page about clusters in the documentation: the cluster's data contradicts itself here."


class FindingSpec(Struct, frozen=True):
    """What is fixed about a code."""

    code: FindingCode
    severity: Severity
    """unless the place that finds it has one of the reasons in `also`"""
    family: Family
    traits: Trait = Trait(0)
    header_field: str | None = None
    """the field of a batch's header that it is about"""
    also: Mapping[Severity, str] | None = None
    """other severities that it can have, with the reason for each"""
    advice: str = ""
    """what to do about it; empty if that follows from its traits"""


SPECS: Mapping[FindingCode, FindingSpec] = {
    spec.code: spec
    for spec in (
        FindingSpec(
            FindingCode.TORN_TAIL,
            Severity.WARNING,
            Family.WALK,
            traits=Trait.TAIL,
            also={
                Severity.ERROR: "a slice of a log is cut where bytes are missing that were there when it was planned"
            },
            advice=_TAIL,
        ),
        FindingSpec(FindingCode.ZERO_TAIL, Severity.WARNING, Family.WALK, traits=Trait.TAIL, advice=_TAIL),
        FindingSpec(FindingCode.BATCH_SIZE_INVALID, Severity.ERROR, Family.WALK, traits=Trait.NO_BATCH, advice=_DAMAGE),
        FindingSpec(FindingCode.CRC_MISMATCH, Severity.ERROR, Family.WALK, traits=Trait.NO_BATCH, advice=_DAMAGE),
        FindingSpec(
            FindingCode.LIMIT_EXCEEDED,
            Severity.ERROR,
            Family.WALK,
            traits=Trait.NO_BATCH,
            advice="The batch is larger than what is read at a time. If such batches are real, raise the "
            "limit in Python (`Limits(batch_bytes=…)`); otherwise the size field is damaged.",
        ),
        FindingSpec(
            FindingCode.MAGIC_UNKNOWN,
            Severity.ERROR,
            Family.HEADER,
            traits=Trait.ENDS_READING,
            header_field="magic",
            advice=_HEADER,
        ),
        FindingSpec(
            FindingCode.CODEC_UNKNOWN, Severity.ERROR, Family.HEADER, header_field="attributes", advice=_HEADER
        ),
        FindingSpec(
            FindingCode.RECORDS_COUNT_INVALID,
            Severity.ERROR,
            Family.HEADER,
            traits=Trait.READ_PAST,
            header_field="records_count",
            advice=_HEADER,
        ),
        FindingSpec(
            FindingCode.LAST_OFFSET_DELTA_INVALID,
            Severity.ERROR,
            Family.HEADER,
            traits=Trait.LISTED,
            header_field="last_offset_delta",
            advice=_HEADER,
        ),
        FindingSpec(
            FindingCode.OFFSET_BELOW_SEGMENT,
            Severity.ERROR,
            Family.CONTINUITY,
            traits=Trait.READ_PAST | Trait.MISPLACED,
            header_field="base_offset",
            advice=_PLACE,
        ),
        FindingSpec(
            FindingCode.OFFSET_ABOVE_SEGMENT,
            Severity.ERROR,
            Family.CONTINUITY,
            traits=Trait.ENDS_READING | Trait.MISPLACED,
            header_field="base_offset",
            advice=_PLACE,
        ),
        FindingSpec(
            FindingCode.OFFSET_NOT_INCREASING,
            Severity.INFO,
            Family.CONTINUITY,
            traits=Trait.READ_PAST | Trait.NORMAL | Trait.MISPLACED,
            header_field="base_offset",
            advice=_PLACE,
        ),
        FindingSpec(FindingCode.LOG_END_BELOW_OFFSET, Severity.ERROR, Family.CONTINUITY, advice=_PLACE),
        FindingSpec(
            FindingCode.OFFSET_DISPLACED,
            Severity.ERROR,
            Family.CONTINUITY,
            traits=Trait.ENDS_READING | Trait.READ_PAST | Trait.MISPLACED,
            header_field="base_offset",
            also={Severity.WARNING: "either of two batches may be the wrong one, or a repeat equals no other batch"},
            advice=_PLACE,
        ),
        FindingSpec(
            FindingCode.OFFSET_GAP,
            Severity.INFO,
            Family.CONTINUITY,
            traits=Trait.NORMAL,
            also={Severity.ERROR: "bytes before the next segment are no batch"},
            advice="Bytes before the next segment are not a batch: the finding about those bytes says what "
            "to do. If nothing else was found, records are missing: look for another copy.",
        ),
        FindingSpec(
            FindingCode.SEGMENT_MISSING,
            Severity.WARNING,
            Family.CONTINUITY,
            traits=Trait.HIDES_NAMES,
            advice="Look for the file in lost+found, a snapshot, a `.deleted` name (`kafkalog undelete`) or "
            "another broker's volume; no recovery can create it again.",
        ),
        FindingSpec(
            FindingCode.SEGMENT_OVERLAP,
            Severity.ERROR,
            Family.CONTINUITY,
            traits=Trait.LISTED | Trait.MISPLACED,
            header_field="base_offset",
            advice=_PLACE,
        ),
        FindingSpec(
            FindingCode.LEADER_EPOCH_DECREASES,
            Severity.ERROR,
            Family.CONTINUITY,
            traits=Trait.LISTED | Trait.MISPLACED,
            header_field="partition_leader_epoch",
            advice=_PLACE,
        ),
        FindingSpec(
            FindingCode.LEADER_EPOCH_MISMATCH,
            Severity.WARNING,
            Family.CONTINUITY,
            traits=Trait.MISPLACED,
            advice=_PLACE,
        ),
        FindingSpec(
            FindingCode.MAX_TIMESTAMP_MISMATCH,
            Severity.WARNING,
            Family.CONTINUITY,
            advice="Lookups by time and retention use the header; the records themselves are whole. Usually "
            "a producer's fault.",
        ),
        FindingSpec(FindingCode.DECOMPRESSION_FAILED, Severity.ERROR, Family.INSIDE, traits=Trait.INSIDE_BATCH),
        FindingSpec(FindingCode.RECORD_TRUNCATED, Severity.ERROR, Family.INSIDE, traits=Trait.INSIDE_BATCH),
        FindingSpec(FindingCode.RECORD_LENGTH_MISMATCH, Severity.ERROR, Family.INSIDE, traits=Trait.INSIDE_BATCH),
        FindingSpec(FindingCode.VARINT_TOO_LONG, Severity.ERROR, Family.INSIDE, traits=Trait.INSIDE_BATCH),
        FindingSpec(FindingCode.HEADER_COUNT_INVALID, Severity.ERROR, Family.INSIDE, traits=Trait.INSIDE_BATCH),
        FindingSpec(FindingCode.HEADER_KEY_INVALID, Severity.ERROR, Family.INSIDE, traits=Trait.INSIDE_BATCH),
        FindingSpec(
            FindingCode.HEADER_KEY_NOT_TEXT,
            Severity.WARNING,
            Family.INSIDE,
            advice="`dump` and Python's `records` have the bytes of the name; tables do not.",
        ),
        FindingSpec(
            FindingCode.TIMESTAMP_OUT_OF_RANGE,
            Severity.ERROR,
            Family.INSIDE,
            advice="A producer's fault: it wrote the time in too small a unit. `dump` and Python's `records` "
            "have the number.",
        ),
        FindingSpec(
            FindingCode.TIMESTAMP_UNIT,
            Severity.INFO,
            Family.INSIDE,
            advice="A producer's fault. Retention by time may delete such segments at once, or never: mend "
            "the producer, and set message.timestamp.type, or message.timestamp.after.max.ms.",
        ),
        FindingSpec(FindingCode.RECORDS_TRAILING_BYTES, Severity.ERROR, Family.INSIDE, traits=Trait.INSIDE_BATCH),
        FindingSpec(FindingCode.TRANSACTION_UNDECIDED, Severity.ERROR, Family.INSIDE, traits=Trait.INSIDE_BATCH),
        FindingSpec(FindingCode.CONTROL_RECORD_INVALID, Severity.ERROR, Family.INSIDE, traits=Trait.INSIDE_BATCH),
        FindingSpec(FindingCode.MESSAGE_INVALID, Severity.ERROR, Family.INSIDE, traits=Trait.INSIDE_BATCH),
        FindingSpec(
            FindingCode.INDEX_MISSING,
            Severity.WARNING,
            Family.SIDE_FILE,
            traits=Trait.REBUILT,
            also={Severity.INFO: "no broker serves the partition"},
            advice=_INDEX,
        ),
        FindingSpec(
            FindingCode.INDEX_SIZE_INVALID, Severity.WARNING, Family.SIDE_FILE, traits=Trait.REBUILT, advice=_INDEX
        ),
        FindingSpec(
            FindingCode.INDEX_NOT_INCREASING, Severity.WARNING, Family.SIDE_FILE, traits=Trait.REBUILT, advice=_INDEX
        ),
        FindingSpec(
            FindingCode.INDEX_ENTRY_MISMATCH,
            Severity.WARNING,
            Family.SIDE_FILE,
            traits=Trait.REBUILT,
            also={Severity.ERROR: "a look-up through the entry ends at the wrong place"},
            advice=_INDEX,
        ),
        FindingSpec(
            FindingCode.INDEX_PREALLOCATED,
            Severity.INFO,
            Family.SIDE_FILE,
            advice="Space that a running broker reserves; a clean shutdown releases it.",
        ),
        FindingSpec(
            FindingCode.TXN_INDEX_MISMATCH,
            Severity.ERROR,
            Family.SIDE_FILE,
            traits=Trait.REBUILT,
            advice="Consumers with isolation level read_committed may see aborted records, or miss committed "
            "ones. The recovery below rebuilds the index.",
        ),
        FindingSpec(
            FindingCode.SNAPSHOT_INVALID,
            Severity.ERROR,
            Family.SIDE_FILE,
            also={Severity.WARNING: "an older snapshot, or none, is enough for the question"},
            advice="A broker uses an older one and reads the log from there; so does recovery.",
        ),
        FindingSpec(
            FindingCode.SNAPSHOT_MISMATCH,
            Severity.ERROR,
            Family.SIDE_FILE,
            traits=Trait.REBUILT,
            also={Severity.WARNING: "it was written beyond the end of the log, so that the log's end is lost, or there "
                  "is none after a clean stop and no transaction is open"},
            advice="A broker trusts it, or its absence after a clean stop: readers of committed data may stop early, "
            "or get records of open transactions. The recovery below rebuilds it.",
        ),
        FindingSpec(
            FindingCode.CHECKPOINT_INVALID,
            Severity.ERROR,
            Family.SIDE_FILE,
            also={Severity.WARNING: "it is `quorum-state`"},
            advice=_CHECKPOINT,
        ),
        FindingSpec(
            FindingCode.PARTITION_METADATA_INVALID,
            Severity.ERROR,
            Family.SIDE_FILE,
            advice="A broker with KRaft takes the directory offline, or treats the partition as stray. The "
            "recovery below writes the file if the topic id is known; `--topic-id` gives one.",
        ),
        FindingSpec(
            FindingCode.META_PROPERTIES_INVALID,
            Severity.ERROR,
            Family.SIDE_FILE,
            also={Severity.WARNING: "only `directory.id` is missing, or `cluster.id` is unusual"},
            advice="A broker does not start without it. `kafkalog recover --meta-properties` writes it, if "
            "the broker's other log directories are given too, or the file still names cluster and node.",
        ),
        FindingSpec(
            FindingCode.FOREIGN_FILE,
            Severity.INFO,
            Family.DIRECTORY,
            traits=Trait.ENTRY_UNREAD,
            also={
                Severity.ERROR: "a link that leads to nothing has the name of a log",
                Severity.WARNING: "no version of Kafka writes such a file there, or it is another partition's too",
            },
            advice="No Kafka version writes it. Find out who put it there before you move it away.",
        ),
        FindingSpec(
            FindingCode.FOREIGN_DIRECTORY,
            Severity.WARNING,
            Family.DIRECTORY,
            traits=Trait.ENTRY_UNREAD,
            advice="It stops a broker from starting: move it out of the log directory.",
        ),
        FindingSpec(
            FindingCode.TEMPORARY_FILE,
            Severity.INFO,
            Family.DIRECTORY,
            also={Severity.WARNING: "it holds a segment that a start puts in place"},
            advice="A broker that starts finishes or removes it; `kafkalog undelete` shows what is in it.",
        ),
        FindingSpec(
            FindingCode.PARTITION_MISSING,
            Severity.WARNING,
            Family.DIRECTORY,
            advice="It was deleted or moved since, or it is lost. Compare with other volumes and with the "
            "cluster's metadata.",
        ),
        FindingSpec(
            FindingCode.LOG_DIRECTORY_MISSING,
            Severity.ERROR,
            Family.DIRECTORY,
            traits=Trait.HIDES_DIRECTORY,
            advice="Mount the disk before the broker starts. Do not format the directory: its partitions "
            "would be empty, and those without another replica lost.",
        ),
        FindingSpec(
            FindingCode.LOG_DIRECTORY_READ_ONLY,
            Severity.INFO,
            Family.DIRECTORY,
            advice="Fine for looking; a broker takes it offline. After a disk error the kernel remounts file "
            "systems read-only: look for it in the system's log before you mount it for writing.",
        ),
        FindingSpec(
            FindingCode.MOVE_UNFINISHED,
            Severity.WARNING,
            Family.DIRECTORY,
            traits=Trait.OF_A_MOMENT,
            advice="A broker goes on with the move when it starts, if the directory that the replica came "
            "from is there too. Mount all directories of the broker; delete neither copy by hand.",
        ),
        FindingSpec(
            FindingCode.MOMENTS_DIFFER,
            Severity.WARNING,
            Family.DIRECTORY,
            traits=Trait.OF_A_MOMENT,
            advice="Records are missing here that the original has. Copy it again: from a stopped broker, or "
            "from one snapshot of all its file systems.",
        ),
        FindingSpec(
            FindingCode.OWNER_MISMATCH,
            Severity.WARNING,
            Family.DIRECTORY,
            advice="Usually a copy or restore as root: `chown -R` to the user that the broker runs as, "
            "before it starts.",
        ),
        FindingSpec(
            FindingCode.BATCHES_OUTSIDE,
            Severity.WARNING,
            Family.DIRECTORY,
            traits=Trait.OF_LOSSES,
            advice="It may be a segment that a file system's repair has found. If it fits a partition, copy "
            "it there under the name that is given before anything else is done.",
        ),
        FindingSpec(
            FindingCode.SEGMENT_MISNAMED,
            Severity.ERROR,
            Family.DIRECTORY,
            traits=Trait.OF_LOSSES,
            advice="Once the broker is stopped, give each segment's .log alone the name that is said, before anything "
            "else is done. Then recover with --full, which rebuilds the indexes that do not fit.",
        ),
        FindingSpec(
            FindingCode.DUPLICATE_PARTITION,
            Severity.ERROR,
            Family.DIRECTORY,
            also={
                Severity.WARNING: "the copies lie in volumes of one broker, or no copy was chosen for a question",
                Severity.INFO: "the copies lie on several brokers, or in copies of one log directory",
            },
            advice="Copies on several brokers are normal. In two volumes of one broker they stop it from "
            "starting: `kafkalog compare` shows which one to keep.",
        ),
        FindingSpec(
            FindingCode.IDENTITY_MISMATCH,
            Severity.ERROR,
            Family.DIRECTORY,
            also={
                Severity.WARNING: "a topic has several ids, or node ids differ",
                Severity.INFO: "the directories are volumes of several brokers",
            },
            advice="Volumes of several brokers or clusters are mixed up: mount each where it belongs.",
        ),
        FindingSpec(
            FindingCode.NOT_REPLICAS,
            Severity.ERROR,
            Family.DIRECTORY,
            advice="These are not copies of one log: do not merge them.",
        ),
        FindingSpec(
            FindingCode.OFFSETS_BELOW_LOG_START,
            Severity.INFO,
            Family.DIRECTORY,
            also={
                Severity.WARNING: "the leader epochs, which move with the log start offset, begin below it, or above "
                "it, so that deleted records come back"
            },
            advice="Records that were deleted; a broker removes their segments in time.",
        ),
        FindingSpec(
            FindingCode.LOG_END_BELOW_LOG_START,
            Severity.ERROR,
            Family.DIRECTORY,
            traits=Trait.OF_LOSSES,
            advice="A broker deletes the whole log when it starts. Keep a copy first; the log start offset, "
            "or the end of the log, is wrong.",
        ),
        FindingSpec(
            FindingCode.LOG_END_BEYOND_CHECKPOINT,
            Severity.WARNING,
            Family.DIRECTORY,
            traits=Trait.OF_A_MOMENT,
            advice="A broker believes the last batch, and gives the next record an offset after it. Compare with "
            "another copy before a broker starts; recovery believes the batch too.",
        ),
        FindingSpec(
            FindingCode.LOG_END_BELOW_HIGH_WATERMARK,
            Severity.WARNING,
            Family.DIRECTORY,
            traits=Trait.HIDES_NAMES | Trait.OF_A_MOMENT,
            advice="Committed records are missing at the end: let a replica that has them become leader "
            "first, and compare the volumes.",
        ),
        FindingSpec(
            FindingCode.DELETED_BEYOND_END,
            Severity.WARNING,
            Family.DIRECTORY,
            traits=Trait.OF_A_MOMENT | Trait.OF_LOSSES,
            advice="A start removes them. Unless another replica has these records, extract them before a start, with "
            "`kafkalog undelete --into`. A follower also truncates in ordinary operation, to agree with its leader.",
        ),
        FindingSpec(
            FindingCode.UNREADABLE,
            Severity.ERROR,
            Family.DIRECTORY,
            traits=Trait.ENTRY_UNREAD | Trait.HIDES_DIRECTORY,
            advice="The operating system cannot read it: check the kernel log for disk errors, make an image "
            "(ddrescue) before anything else, and examine the image.",
        ),
        FindingSpec(
            FindingCode.BROKER_REFUSES,
            Severity.ERROR,
            Family.DIRECTORY,
            traits=Trait.OF_A_MOMENT,
            also={
                Severity.WARNING: "the start cannot be predicted (I/O error), or a part of the node does not serve",
                Severity.INFO: "only a release that the node would be upgraded to does not start",
            },
            advice="The broker would not serve this directory as it is; the ways below say what would.",
        ),
        FindingSpec(
            FindingCode.START_LOSES,
            Severity.ERROR,
            Family.DIRECTORY,
            traits=Trait.OF_A_MOMENT,
            advice="Do not start the node: partitions would leave service, or its metadata would begin from "
            "nothing. Mend the file that the sentence names; another voter's metadata, or an older "
            "snapshot, may have what is lost.",
        ),
        FindingSpec(
            FindingCode.RUN_UNFINISHED,
            Severity.WARNING,
            Family.DIRECTORY,
            advice="Complete the run or undo it before anything else, and before a broker starts.",
        ),
        FindingSpec(FindingCode.RECORD_TYPE_UNKNOWN, Severity.WARNING, Family.CLUSTER),
        FindingSpec(
            FindingCode.RECORD_VERSION_UNKNOWN,
            Severity.ERROR,
            Family.CLUSTER,
            traits=Trait.HIDES_NAMES | Trait.UNREAD_STATE,
        ),
        FindingSpec(FindingCode.TYPED_RECORD_INVALID, Severity.ERROR, Family.CLUSTER, traits=Trait.UNREAD_STATE),
        FindingSpec(FindingCode.TYPED_RECORD_TRAILING_BYTES, Severity.WARNING, Family.CLUSTER),
        FindingSpec(FindingCode.TYPED_RECORD_AMBIGUOUS, Severity.INFO, Family.CLUSTER),
        FindingSpec(FindingCode.GROUP_MISPLACED, Severity.WARNING, Family.CLUSTER),
        FindingSpec(FindingCode.SHARE_STATE_MISSING, Severity.WARNING, Family.CLUSTER),
        FindingSpec(FindingCode.GROUP_KINDS_MIXED, Severity.ERROR, Family.CLUSTER),
        FindingSpec(FindingCode.PARTITION_OWNED_TWICE, Severity.WARNING, Family.CLUSTER),
        FindingSpec(FindingCode.PAST_REMOVED, Severity.WARNING, Family.CLUSTER, traits=Trait.HIDES_NAMES),
        FindingSpec(FindingCode.OFFSET_BEYOND_LOG_END, Severity.WARNING, Family.CLUSTER),
        FindingSpec(
            FindingCode.TRANSACTION_HANGING,
            Severity.WARNING,
            Family.CLUSTER,
            advice="Keep its producer stopped, whose next commit may commit its records: `kafkalog transactions` tells "
            "how to end it.",
        ),
        FindingSpec(
            FindingCode.METADATA_INCONSISTENT,
            Severity.WARNING,
            Family.CLUSTER,
            also={
                Severity.ERROR: "records contradict each other, or directories are of different clusters or histories"
            },
        ),
        FindingSpec(FindingCode.METADATA_GAP, Severity.ERROR, Family.CLUSTER),
        FindingSpec(FindingCode.REMOTE_EVENT_INVALID, Severity.WARNING, Family.CLUSTER),
        FindingSpec(FindingCode.REMOTE_OBJECT_MISSING, Severity.WARNING, Family.CLUSTER),
        FindingSpec(FindingCode.REMOTE_OBJECT_LEAKED, Severity.WARNING, Family.CLUSTER),
        FindingSpec(FindingCode.REMOTE_OBJECT_DAMAGED, Severity.ERROR, Family.CLUSTER),
        FindingSpec(FindingCode.REMOTE_INDEX_DAMAGED, Severity.ERROR, Family.CLUSTER),
        FindingSpec(FindingCode.REMOTE_COPY_STUCK, Severity.WARNING, Family.CLUSTER),
        FindingSpec(FindingCode.REMOTE_DELETE_STUCK, Severity.WARNING, Family.CLUSTER),
        FindingSpec(FindingCode.REMOTE_COPY_BEHIND, Severity.INFO, Family.CLUSTER),
        FindingSpec(FindingCode.LOCAL_RETENTION_PASSED, Severity.INFO, Family.CLUSTER),
        FindingSpec(FindingCode.REMOTE_LINEAGES_OVERLAP, Severity.WARNING, Family.CLUSTER),
        FindingSpec(FindingCode.TIER_GAP, Severity.ERROR, Family.CLUSTER),
        FindingSpec(
            FindingCode.SCHEMA_RECORD_INVALID,
            Severity.WARNING,
            Family.CLUSTER,
            also={Severity.ERROR: "a registry cannot read the record"},
        ),
        FindingSpec(FindingCode.SCHEMA_KEY_FORMS, Severity.WARNING, Family.CLUSTER),
        FindingSpec(FindingCode.SCHEMA_WOULD_RETURN, Severity.WARNING, Family.CLUSTER),
        FindingSpec(FindingCode.SCHEMA_ID_CONFLICT, Severity.ERROR, Family.CLUSTER),
        FindingSpec(FindingCode.SCHEMA_REFERENCE_MISSING, Severity.WARNING, Family.CLUSTER),
        FindingSpec(FindingCode.SCHEMA_ID_UNKNOWN, Severity.WARNING, Family.CLUSTER),
        FindingSpec(FindingCode.VALUE_UNDECODABLE, Severity.WARNING, Family.CLUSTER),
        FindingSpec(FindingCode.ZK_LOG_TORN, Severity.WARNING, Family.CLUSTER),
        FindingSpec(FindingCode.ZK_LOG_CORRUPT, Severity.WARNING, Family.CLUSTER, traits=Trait.UNREAD_STATE),
        FindingSpec(FindingCode.ZK_CHECKSUM_MISMATCH, Severity.ERROR, Family.CLUSTER, traits=Trait.UNREAD_STATE),
        FindingSpec(FindingCode.ZK_SNAPSHOT_INVALID, Severity.ERROR, Family.CLUSTER, traits=Trait.UNREAD_STATE),
        FindingSpec(FindingCode.ZK_GAP, Severity.WARNING, Family.CLUSTER),
        FindingSpec(FindingCode.ZK_DIGEST_MISMATCH, Severity.ERROR, Family.CLUSTER),
        FindingSpec(
            FindingCode.ZK_NODE_INVALID, Severity.WARNING, Family.CLUSTER, also={Severity.ERROR: "brokers end at it"}
        ),
        FindingSpec(FindingCode.ZK_PATH_MISSING, Severity.WARNING, Family.CLUSTER),
    )
}


@cache
def codes_with(trait: Trait) -> frozenset[FindingCode]:
    """Return the codes that have at least one of the given traits. Results are cached."""
    return frozenset(code for code, spec in SPECS.items() if spec.traits & trait)


def advice_for(code: FindingCode) -> str:
    """Return what to do about findings of this code, in a sentence or two: the code's own advice, otherwise general
    advice for faults inside a batch or for cluster data.
    """
    spec = SPECS[code]
    return spec.advice or (_RECORDS if Trait.INSIDE_BATCH in spec.traits else _CLUSTER)
