"""What to do about a finding, in a sentence or two."""

from __future__ import annotations

from kafkalog.codec.findings import FindingCode

__all__ = ["advice_for"]

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

_ADVICE = {
    FindingCode.TORN_TAIL: _TAIL,
    FindingCode.ZERO_TAIL: _TAIL,
    FindingCode.BATCH_SIZE_INVALID: _DAMAGE,
    FindingCode.CRC_MISMATCH: _DAMAGE,
    FindingCode.LIMIT_EXCEEDED: (
        "The batch is larger than what is read at a time. If such batches are real, raise the limit in Python "
        "(`Limits(batch_bytes=…)`); otherwise the size field is damaged."
    ),
    FindingCode.MAGIC_UNKNOWN: _HEADER,
    FindingCode.CODEC_UNKNOWN: _HEADER,
    FindingCode.RECORDS_COUNT_INVALID: _HEADER,
    FindingCode.LAST_OFFSET_DELTA_INVALID: _HEADER,
    FindingCode.OFFSET_BELOW_SEGMENT: _PLACE,
    FindingCode.OFFSET_ABOVE_SEGMENT: _PLACE,
    FindingCode.OFFSET_NOT_INCREASING: _PLACE,
    FindingCode.OFFSET_DISPLACED: _PLACE,
    FindingCode.LOG_END_BELOW_OFFSET: _PLACE,
    FindingCode.SEGMENT_OVERLAP: _PLACE,
    FindingCode.LEADER_EPOCH_DECREASES: _PLACE,
    FindingCode.LEADER_EPOCH_MISMATCH: _PLACE,
    FindingCode.OFFSET_GAP: (
        "Bytes before the next segment are not a batch: the finding about those bytes says what to do. If nothing else "
        "was found, records are missing: look for another copy."
    ),
    FindingCode.SEGMENT_MISSING: (
        "Look for the file in lost+found, a snapshot, a `.deleted` name (`kafkalog undelete`) or another broker's "
        "volume; no recovery can create it again."
    ),
    FindingCode.MAX_TIMESTAMP_MISMATCH: (
        "Lookups by time and retention use the header; the records themselves are whole. Usually a producer's fault."
    ),
    FindingCode.HEADER_KEY_NOT_TEXT: "`dump` and Python's `records` have the bytes of the name; tables do not.",
    FindingCode.TIMESTAMP_OUT_OF_RANGE: (
        "A producer's fault: it wrote the time in too small a unit. `dump` and Python's `records` have the number."
    ),
    FindingCode.TIMESTAMP_UNIT: (
        "A producer's fault. Retention by time may delete such segments at once, or never: mend the producer, and set "
        "message.timestamp.type, or message.timestamp.after.max.ms."
    ),
    FindingCode.INDEX_MISSING: _INDEX,
    FindingCode.INDEX_SIZE_INVALID: _INDEX,
    FindingCode.INDEX_NOT_INCREASING: _INDEX,
    FindingCode.INDEX_ENTRY_MISMATCH: _INDEX,
    FindingCode.INDEX_PREALLOCATED: "Space that a running broker reserves; a clean shutdown releases it.",
    FindingCode.TXN_INDEX_MISMATCH: (
        "Consumers with isolation level read_committed may see aborted records, or miss committed ones. The recovery "
        "below rebuilds the index."
    ),
    FindingCode.SNAPSHOT_INVALID: "A broker uses an older one and reads the log from there; so does recovery.",
    FindingCode.CHECKPOINT_INVALID: _CHECKPOINT,
    FindingCode.PARTITION_METADATA_INVALID: (
        "A broker with KRaft takes the directory offline, or treats the partition as stray. The recovery below writes "
        "the file if the topic id is known; `--topic-id` gives one."
    ),
    FindingCode.META_PROPERTIES_INVALID: (
        "A broker does not start without it. `kafkalog recover --meta-properties` writes it, if the broker's other log "
        "directories are given too."
    ),
    FindingCode.FOREIGN_FILE: "No Kafka version writes it. Find out who put it there before you move it away.",
    FindingCode.FOREIGN_DIRECTORY: "It stops a broker from starting: move it out of the log directory.",
    FindingCode.TEMPORARY_FILE: "A broker that starts finishes or removes it; `kafkalog undelete` shows what is in it.",
    FindingCode.PARTITION_MISSING: (
        "It was deleted or moved since, or it is lost. Compare with other volumes and with the cluster's metadata."
    ),
    FindingCode.LOG_DIRECTORY_MISSING: (
        "Mount the disk before the broker starts. Do not format the directory: its partitions would be empty, and "
        "those without another replica lost."
    ),
    FindingCode.LOG_DIRECTORY_READ_ONLY: (
        "Fine for looking; a broker takes it offline. After a disk error the kernel remounts file systems read-only: "
        "look for it in the system's log before you mount it for writing."
    ),
    FindingCode.OWNER_MISMATCH: (
        "Usually a copy or restore as root: `chown -R` to the user that the broker runs as, before it starts."
    ),
    FindingCode.BATCHES_OUTSIDE: (
        "It may be a segment that a file system's repair has found. If it fits a partition, copy it there under the "
        "name that is given before anything else is done."
    ),
    FindingCode.DUPLICATE_PARTITION: (
        "Copies on several brokers are normal. In two volumes of one broker they stop it from starting: "
        "`kafkalog compare` shows which one to keep."
    ),
    FindingCode.IDENTITY_MISMATCH: "Volumes of several brokers or clusters are mixed up: mount each where it belongs.",
    FindingCode.NOT_REPLICAS: "These are not copies of one log: do not merge them.",
    FindingCode.OFFSETS_BELOW_LOG_START: "Records that were deleted; a broker removes their segments in time.",
    FindingCode.LOG_END_BELOW_LOG_START: (
        "A broker deletes the whole log when it starts. Keep a copy first; the log start offset, or the end of the "
        "log, is wrong."
    ),
    FindingCode.LOG_END_BELOW_HIGH_WATERMARK: (
        "Committed records are missing at the end: let a replica that has them become leader first, and compare the "
        "volumes."
    ),
    FindingCode.UNREADABLE: (
        "The operating system cannot read it: check the kernel log for disk errors, make an image (ddrescue) before "
        "anything else, and examine the image."
    ),
    FindingCode.MOVE_UNFINISHED: (
        "A broker goes on with the move when it starts, if the directory that the replica came from is there too. "
        "Mount all directories of the broker; delete neither copy by hand."
    ),
    FindingCode.MOMENTS_DIFFER: (
        "Records are missing here that the original has. Copy it again: from a stopped broker, or from one snapshot of "
        "all its file systems."
    ),
    FindingCode.RUN_UNFINISHED: "Complete the run or undo it before anything else, and before a broker starts.",
    FindingCode.START_LOSES: (
        "Do not start the node: partitions would leave service, or its metadata would begin from nothing. Mend the "
        "file that the sentence names; another voter's metadata, or an older snapshot, may have what is lost."
    ),
    FindingCode.BROKER_REFUSES: "The broker would not serve this directory as it is; the ways below say what would.",
}

_OF_RECORDS = frozenset(
    {
        FindingCode.DECOMPRESSION_FAILED,
        FindingCode.RECORD_TRUNCATED,
        FindingCode.RECORD_LENGTH_MISMATCH,
        FindingCode.VARINT_TOO_LONG,
        FindingCode.HEADER_COUNT_INVALID,
        FindingCode.HEADER_KEY_INVALID,
        FindingCode.RECORDS_TRAILING_BYTES,
        FindingCode.CONTROL_RECORD_INVALID,
        FindingCode.TRANSACTION_UNDECIDED,
        FindingCode.MESSAGE_INVALID,
    }
)


def advice_for(code: FindingCode) -> str:
    """What to do about findings of this code."""
    return _RECORDS if code in _OF_RECORDS else _ADVICE.get(code, _CLUSTER)
