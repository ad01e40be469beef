"""Decode and encode every file of a Kafka log directory, every message format and every compression. Nothing in this
package opens a file, knows a path or reads a clock. Names are imported when first used; `tests/support/lazy_names.py`
writes their table from the stub beside this file.
"""

if __name__ != "kafkalog.codec":
    raise ImportError("this folder is kafkalog.codec; import that name")

from kafkalog.codec.common.lazily import lazily

_NAMES = {
    ".common.errors": ["FormatError", "KafkaLogError", "LimitExceeded", "RecoveryRefused", "StorageError",
        "UsageError"],
    ".common.findings": ["Finding", "FindingCode", "Severity", "StopReason", "Unread"],
    ".common.limits": ["DEFAULT_LIMITS", "Limits"],
    ".common.source": ["BufferSource", "Source"],
    ".encode.batch": ["ProducerState", "build_batch", "build_control_batch", "build_end_transaction_marker",
        "build_raw_batch", "empty_batch"],
    ".encode.columns": ["build_batches", "record_columns"],
    ".encode.convert": ["down_convert", "up_convert"],
    ".encode.message": ["build_messages"],
    ".encode.reencode": ["RawBatch", "RawMessage", "encode_raw_batch", "encode_raw_message", "read_raw_batch",
        "read_raw_message"],
    ".files.fetch_result": ["ErrorCode", "MessageSetSend", "decode_message_set_send", "decode_multi_message_set_send",
        "encode_message_set_send", "encode_multi_message_set_send"],
    ".files.index_files": ["OffsetEntry", "TimeEntry", "decode_offset_index", "decode_producer_snapshot",
        "decode_time_index", "decode_transaction_index", "encode_offset_index", "encode_producer_snapshot",
        "encode_time_index", "encode_transaction_index", "read_producer_snapshot", "used_offset_entries",
        "used_time_entries"],
    ".files.kraft": ["KRaftRecord", "KRaftVersion", "KRaftVoters", "LeaderChange", "SnapshotFooter", "SnapshotHeader",
        "Voter", "VoterEndpoint", "VoterNode", "encode_kraft_value", "kraft_record", "parse_kraft_value"],
    ".files.kraft_snapshot": ["KRaftSnapshot", "build_kraft_snapshot", "read_kraft_snapshot"],
    ".files.quorum_state": ["QuorumState", "decode_quorum_state", "encode_quorum_state"],
    ".files.text": ["NEW_CLEAN_SHUTDOWN", "CleanShutdown", "LeaderEpoch", "MetaProperties", "OffsetCheckpointEntry",
        "PartitionMetadata", "decode_clean_shutdown", "decode_leader_epochs", "decode_meta_properties",
        "decode_offset_checkpoint", "decode_partition_metadata", "decode_uuid", "encode_clean_shutdown",
        "encode_leader_epochs", "encode_meta_properties", "encode_offset_checkpoint", "encode_partition_metadata",
        "encode_uuid"],
    ".model": ["AbortedTransaction", "BatchHeader", "Codec", "ControlType", "EndTransactionMarker", "Header",
        "LegacyHeader", "ProducerEntry", "Record", "RecordBatch", "TimestampType"],
    ".parsing.door": ["LAYOUTS", "build", "parse", "with_timestamps"],
    ".plain.control": ["end_transaction_marker", "parse_control_key", "parse_end_transaction_marker"],
    ".plain.records": ["DecodedBatch", "decode_batch", "iter_records"],
    ".plain.scanner": ["Scanner", "ScanResult", "scan"],
}

__all__, __getattr__ = lazily(__name__, _NAMES)
