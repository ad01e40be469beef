"""Read, write, check, repair and query Apache Kafka's log directories without a broker.

The public names.  Each is imported when it is first used, so that `import kafkalog` costs nothing.
`tests/support/lazy_names.py` writes their table from the stub beside this file, which type checkers read.
"""

from __future__ import annotations

from kafkalog.codec.common.lazily import lazily

__version__ = "0.1.0"

_NAMES = {
    ".cluster.groups.commit_offsets": ["GroupOffsets", "OffsetAndMetadata", "commit_offsets"],
    ".cluster.kraft.quorum": ["read_quorum"],
    ".cluster.questions.effective": ["effective_settings"],
    ".cluster.questions.elections": ["departures", "elections"],
    ".cluster.questions.groups": ["Rebalance", "groups"],
    ".cluster.questions.metadata": ["metadata", "metadata_history"],
    ".cluster.questions.moment": ["Moment"],
    ".cluster.questions.offsets": ["offset_history", "offsets"],
    ".cluster.questions.transactions": ["transactions"],
    ".codec.common.advice": ["Advice", "Sentence"],
    ".codec.common.errors": ["FormatError", "KafkaLogError", "LimitExceeded", "RecoveryRefused", "ReplicaError",
        "StorageError", "UnknownName", "UsageError"],
    ".codec.common.findings": ["Finding", "FindingCode", "Severity", "StopReason"],
    ".codec.common.limits": ["Limits"],
    ".codec.common.source": ["Source"],
    ".codec.encode.batch": ["ProducerState"],
    ".codec.files.fetch_result": ["ErrorCode"],
    ".codec.model": ["BatchHeader", "Codec", "ControlType", "EndTransactionMarker", "Header", "Record", "RecordBatch",
        "TimestampType"],
    ".codec.names": ["DirectoryState", "FileKind", "PartitionName"],
    ".codec.plain.records": ["decode_batch", "iter_records"],
    ".codec.plain.scanner": ["Scanner", "scan"],
    ".codec.rules.execution": ["Execution"],
    ".copies.compare": ["compare"],
    ".copies.comparison": ["CopyReport"],
    ".inspect.health": ["health"],
    ".inspect.remote": ["inspect_remote"],
    ".inspect.retention": ["retention"],
    ".inspect.top": ["top"],
    ".inspect.top_groups": ["TopBy", "TopQuestion"],
    ".jobs.compact.cleaning": ["CompactionPlan"],
    ".jobs.compact.request": ["Compaction"],
    ".jobs.compact.run": ["compact", "compact_into", "plan_compaction"],
    ".jobs.merge.merge": ["merge_directories", "merge_preview", "merge_replicas"],
    ".jobs.merge.request": ["Merge"],
    ".jobs.quorum.planned": ["QuorumPlan"],
    ".jobs.quorum.request": ["QuorumRecovery", "QuorumWay"],
    ".jobs.quorum.run": ["plan_quorum", "recover_quorum"],
    ".jobs.restore.events": ["RemoteMetadataRebuild", "rebuild_remote_metadata"],
    ".jobs.restore.remote_logs": ["RemoteLogs"],
    ".jobs.triage.run": ["triage"],
    ".jobs.undelete.listing": ["deleted"],
    ".jobs.undelete.remains": ["Remains"],
    ".jobs.undelete.request": ["Undelete"],
    ".jobs.undelete.results": ["UndeletePlan"],
    ".jobs.undelete.taking_out": ["undelete_into"],
    ".jobs.undelete.undeletion": ["plan_undelete", "undelete"],
    ".log.directories.directory": ["LogDir", "open_log_dir"],
    ".log.directories.inventory": ["open_all"],
    ".log.directories.log_settings": ["LogSettings"],
    ".log.directories.partition": ["Partition", "open_segment"],
    ".log.directories.selection": ["Selection"],
    ".log.directories.workers": ["ProgressState"],
    ".log.disk.files": ["FileSource"],
    ".log.reading.column_decoding": ["ColumnDecoding", "ReadColumns"],
    ".log.reading.fetch": ["OffsetOutOfRangeError"],
    ".log.reading.offsets": ["EARLIEST", "LATEST"],
    ".log.reading.readable": ["ReadablePartition"],
    ".log.reading.record_filter": ["RecordFilter"],
    ".log.reading.records": ["RecordReader"],
    ".log.storage.retention": ["DeletionPolicy", "by_file_time"],
    ".log.walk.batches": ["BatchReader"],
    ".log.walk.segment": ["Segment"],
    ".log.writing.config": ["LogConfig"],
    ".log.writing.incoming": ["NewRecord"],
    ".log.writing.partitioners": ["legacy_partition", "partition_for_key"],
    ".log.writing.writer": ["Log"],
    ".producer.batch": ["ReadyBatch"],
    ".producer.config": ["ProducerConfig"],
    ".producer.consumer": ["Consumer", "follow"],
    ".producer.hooks": ["CallbackHandler", "Outgoing"],
    ".producer.multifetch": ["multifetch"],
    ".producer.offset_store": ["OffsetStore"],
    ".producer.producer": ["Producer", "TransactionAbortedError"],
    ".producer.room": ["QueueFullError"],
    ".producer.streams": ["open_streams"],
    ".recovery.act.history": ["runs"],
    ".recovery.act.purging": ["purge"],
    ".recovery.broker.start_question": ["StartQuestion"],
    ".recovery.checks.remote": ["verify_remote"],
    ".recovery.checks.verify": ["verify"],
    ".recovery.damage.bit_repair": ["Proof"],
    ".recovery.decide.plan": ["Plan"],
    ".recovery.explain.explaining": ["explain"],
    ".recovery.facts.recovery_request": ["Recovery", "RemoteLogSource"],
    ".recovery.facts.run_requests": ["Purge", "Undo"],
    ".recovery.facts.survey": ["Survey"],
    ".recovery.facts.topic_facts": ["TopicFacts"],
    ".recovery.modes.table": ["Mode"],
    ".recovery.rebuilding": ["IndexRebuild", "rebuild_indexes"],
    ".recovery.results": ["RecoveryResult"],
    ".recovery.run": ["plan", "recover", "recover_into"],
    ".recovery.undoing": ["UndoResult", "undo"],
    ".reporting.making": ["report"],
    ".tables.exporting": ["ExportedPartition", "ExportResult", "export"],
    ".tables.request": ["Export"],
    ".tiers.layouts": ["open_tier"],
    ".tiers.metadata": ["read_remote_metadata"],
    ".tiers.opening": ["open_partition"],
    ".tiers.remote_tier": ["ListedSegment", "RemoteObject", "RemoteTier"],
    ".values.decoded_values": ["DecodedValues"],
    ".values.decoding": ["ValueDecoder"],
    ".values.registry": ["Schema", "SchemaRegistry"],
    ".values.sources": ["read_schemas"],
    ".values.table_scan": ["TableScan"],
    ".values.tables": ["KafkaTable"],
}

_names, _find = lazily(__name__, _NAMES)

__all__ = ["__version__", *_names]


def __getattr__(name: str) -> object:
    return _find("open_log_dir" if name == "open" else name)  # not in `__all__`: there, `open` is the builtin


def __dir__() -> list[str]:
    return sorted({*globals(), *_names, "open"})
