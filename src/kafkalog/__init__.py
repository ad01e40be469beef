"""Read, write, check, repair and query Apache Kafka's log directories without a broker.

The public names.  Each is imported when it is first used, so that `import kafkalog` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from kafkalog.cli.report.making import Report, report
    from kafkalog.cluster.groups.commit_offsets import GroupOffsets, OffsetAndMetadata, commit_offsets
    from kafkalog.cluster.kraft.quorum import Quorum, read_quorum
    from kafkalog.codec.encode import ProducerState
    from kafkalog.codec.errors import (
        FormatError,
        KafkaLogError,
        LimitExceeded,
        RecoveryRefused,
        StorageError,
        UsageError,
    )
    from kafkalog.codec.fetch_result import ErrorCode
    from kafkalog.codec.findings import Finding, FindingCode, Severity, StopReason
    from kafkalog.codec.limits import Limits
    from kafkalog.codec.model import (
        AbortedTransaction,
        BatchHeader,
        Codec,
        ControlType,
        EndTransactionMarker,
        Header,
        LegacyHeader,
        ProducerEntry,
        Record,
        RecordBatch,
        TimestampType,
    )
    from kafkalog.codec.records import DecodedBatch, decode_batch, iter_records
    from kafkalog.codec.scan import ScanResult, scan
    from kafkalog.log.consuming.consumer import Consumer, follow
    from kafkalog.log.consuming.multifetch import Fetched, multifetch
    from kafkalog.log.consuming.offset_store import OffsetsFile
    from kafkalog.log.consuming.stream import ConsumerStream
    from kafkalog.log.consuming.streams import Stream, open_streams
    from kafkalog.log.directories.directory import LogDir
    from kafkalog.log.directories.directory import open_log_dir as open
    from kafkalog.log.directories.inventory import Inventory, open_all
    from kafkalog.log.directories.partition import OffsetAndTimestamp, Partition, open_partition, open_segment
    from kafkalog.log.producing.batch import ReadyBatch, RecordMetadata
    from kafkalog.log.producing.config import ProducerConfig
    from kafkalog.log.producing.hooks import CallbackHandler, Outgoing
    from kafkalog.log.producing.producer import Producer, TransactionAbortedError
    from kafkalog.log.producing.room import QueueFullError
    from kafkalog.log.reading.fetch import Chunk, OffsetOutOfRangeError
    from kafkalog.log.reading.offsets import EARLIEST, LATEST
    from kafkalog.log.storage.retention import DeletableSegment, by_file_time
    from kafkalog.log.walk.segment import Segment
    from kafkalog.log.writing.config import LogConfig
    from kafkalog.log.writing.incoming import NewRecord
    from kafkalog.log.writing.partitioners import legacy_partition, partition_for_key
    from kafkalog.log.writing.writer import Log
    from kafkalog.recovery.act.history import RunInfo, RunState, runs
    from kafkalog.recovery.act.purging import PurgeResult, purge
    from kafkalog.recovery.checks.report import VerifyReport
    from kafkalog.recovery.checks.verify import verify
    from kafkalog.recovery.compaction.cleaning import CompactedPartition, Compaction
    from kafkalog.recovery.compaction.run import CompactionResult, compact, plan_compaction
    from kafkalog.recovery.copies.compare import compare
    from kafkalog.recovery.copies.comparison import Comparison
    from kafkalog.recovery.copies.merge_result import MergedDirectory, MergeResult
    from kafkalog.recovery.copies.preview import merge_preview
    from kafkalog.recovery.decide.plan import Plan
    from kafkalog.recovery.explain import ExplainedPart, Explanation, PartRole, explain
    from kafkalog.recovery.facts.modes import Mode
    from kafkalog.recovery.merging.merge import merge_directories, merge_replicas
    from kafkalog.recovery.quorum.plan import QuorumPlan
    from kafkalog.recovery.quorum.request import QuorumRequest, QuorumWay
    from kafkalog.recovery.quorum.run import QuorumResult, plan_quorum, recover_quorum
    from kafkalog.recovery.run import RecoveryResult, UndoResult, plan, recover, undo
    from kafkalog.recovery.triage.outcome import PartitionTriage
    from kafkalog.recovery.triage.run import Triage, triage
    from kafkalog.recovery.undeleting.remains import Remains, RemainsKind, deleted
    from kafkalog.recovery.undeleting.taking_out import TakenOut, undelete_into
    from kafkalog.recovery.undeleting.undeletion import UndeleteResult, Undeletion, plan_undelete, undelete

_HOMES = {
    "AbortedTransaction": "kafkalog.codec.model",
    "BatchHeader": "kafkalog.codec.model",
    "Codec": "kafkalog.codec.model",
    "ControlType": "kafkalog.codec.model",
    "DecodedBatch": "kafkalog.codec.records",
    "EndTransactionMarker": "kafkalog.codec.model",
    "Explanation": "kafkalog.recovery.explain",
    "ExplainedPart": "kafkalog.recovery.explain",
    "PartRole": "kafkalog.recovery.explain",
    "explain": "kafkalog.recovery.explain",
    "Finding": "kafkalog.codec.findings",
    "FindingCode": "kafkalog.codec.findings",
    "FormatError": "kafkalog.codec.errors",
    "Header": "kafkalog.codec.model",
    "Inventory": "kafkalog.log.directories.inventory",
    "KafkaLogError": "kafkalog.codec.errors",
    "LegacyHeader": "kafkalog.codec.model",
    "LimitExceeded": "kafkalog.codec.errors",
    "Limits": "kafkalog.codec.limits",
    "LogDir": "kafkalog.log.directories.directory",
    "OffsetAndTimestamp": "kafkalog.log.directories.partition",
    "Partition": "kafkalog.log.directories.partition",
    "ProducerEntry": "kafkalog.codec.model",
    "Record": "kafkalog.codec.model",
    "RecordBatch": "kafkalog.codec.model",
    "RecoveryRefused": "kafkalog.codec.errors",
    "ScanResult": "kafkalog.codec.scan",
    "Segment": "kafkalog.log.walk.segment",
    "Severity": "kafkalog.codec.findings",
    "StopReason": "kafkalog.codec.findings",
    "StorageError": "kafkalog.codec.errors",
    "TimestampType": "kafkalog.codec.model",
    "UsageError": "kafkalog.codec.errors",
    "Log": "kafkalog.log.writing.writer",
    "LogConfig": "kafkalog.log.writing.config",
    "NewRecord": "kafkalog.log.writing.incoming",
    "ProducerState": "kafkalog.codec.encode",
    "Chunk": "kafkalog.log.reading.fetch",
    "OffsetOutOfRangeError": "kafkalog.log.reading.fetch",
    "EARLIEST": "kafkalog.log.reading.offsets",
    "LATEST": "kafkalog.log.reading.offsets",
    "open_streams": "kafkalog.log.consuming.streams",
    "Stream": "kafkalog.log.consuming.streams",
    "partition_for_key": "kafkalog.log.writing.partitioners",
    "CallbackHandler": "kafkalog.log.producing.hooks",
    "Consumer": "kafkalog.log.consuming.consumer",
    "ConsumerStream": "kafkalog.log.consuming.stream",
    "OffsetsFile": "kafkalog.log.consuming.offset_store",
    "follow": "kafkalog.log.consuming.consumer",
    "DeletableSegment": "kafkalog.log.storage.retention",
    "ErrorCode": "kafkalog.codec.fetch_result",
    "Fetched": "kafkalog.log.consuming.multifetch",
    "GroupOffsets": "kafkalog.cluster.groups.commit_offsets",
    "OffsetAndMetadata": "kafkalog.cluster.groups.commit_offsets",
    "by_file_time": "kafkalog.log.storage.retention",
    "commit_offsets": "kafkalog.cluster.groups.commit_offsets",
    "multifetch": "kafkalog.log.consuming.multifetch",
    "Outgoing": "kafkalog.log.producing.hooks",
    "Producer": "kafkalog.log.producing.producer",
    "ProducerConfig": "kafkalog.log.producing.config",
    "QueueFullError": "kafkalog.log.producing.room",
    "ReadyBatch": "kafkalog.log.producing.batch",
    "RecordMetadata": "kafkalog.log.producing.batch",
    "TransactionAbortedError": "kafkalog.log.producing.producer",
    "legacy_partition": "kafkalog.log.writing.partitioners",
    "CompactedPartition": "kafkalog.recovery.compaction.cleaning",
    "Compaction": "kafkalog.recovery.compaction.cleaning",
    "CompactionResult": "kafkalog.recovery.compaction.run",
    "Comparison": "kafkalog.recovery.copies.comparison",
    "MergeResult": "kafkalog.recovery.copies.merge_result",
    "MergedDirectory": "kafkalog.recovery.copies.merge_result",
    "Mode": "kafkalog.recovery.facts.modes",
    "Plan": "kafkalog.recovery.decide.plan",
    "PurgeResult": "kafkalog.recovery.act.purging",
    "Quorum": "kafkalog.cluster.kraft.quorum",
    "QuorumPlan": "kafkalog.recovery.quorum.plan",
    "QuorumRequest": "kafkalog.recovery.quorum.request",
    "QuorumResult": "kafkalog.recovery.quorum.run",
    "QuorumWay": "kafkalog.recovery.quorum.request",
    "PartitionTriage": "kafkalog.recovery.triage.outcome",
    "Triage": "kafkalog.recovery.triage.run",
    "triage": "kafkalog.recovery.triage.run",
    "RecoveryResult": "kafkalog.recovery.run",
    "Remains": "kafkalog.recovery.undeleting.remains",
    "RemainsKind": "kafkalog.recovery.undeleting.remains",
    "Report": "kafkalog.cli.report.making",
    "RunInfo": "kafkalog.recovery.act.history",
    "RunState": "kafkalog.recovery.act.history",
    "TakenOut": "kafkalog.recovery.undeleting.taking_out",
    "UndeleteResult": "kafkalog.recovery.undeleting.undeletion",
    "Undeletion": "kafkalog.recovery.undeleting.undeletion",
    "UndoResult": "kafkalog.recovery.run",
    "VerifyReport": "kafkalog.recovery.checks.report",
    "compact": "kafkalog.recovery.compaction.run",
    "compare": "kafkalog.recovery.copies.compare",
    "decode_batch": "kafkalog.codec.records",
    "iter_records": "kafkalog.codec.records",
    "merge_directories": "kafkalog.recovery.merging.merge",
    "merge_preview": "kafkalog.recovery.copies.preview",
    "merge_replicas": "kafkalog.recovery.merging.merge",
    "open": "kafkalog.log.directories.directory:open_log_dir",
    "open_all": "kafkalog.log.directories.inventory",
    "open_partition": "kafkalog.log.directories.partition",
    "open_segment": "kafkalog.log.directories.partition",
    "deleted": "kafkalog.recovery.undeleting.remains",
    "report": "kafkalog.cli.report.making",
    "plan": "kafkalog.recovery.run",
    "plan_compaction": "kafkalog.recovery.compaction.run",
    "plan_quorum": "kafkalog.recovery.quorum.run",
    "plan_undelete": "kafkalog.recovery.undeleting.undeletion",
    "purge": "kafkalog.recovery.act.purging",
    "read_quorum": "kafkalog.cluster.kraft.quorum",
    "recover": "kafkalog.recovery.run",
    "recover_quorum": "kafkalog.recovery.quorum.run",
    "runs": "kafkalog.recovery.act.history",
    "scan": "kafkalog.codec.scan",
    "undelete": "kafkalog.recovery.undeleting.undeletion",
    "undelete_into": "kafkalog.recovery.undeleting.taking_out",
    "undo": "kafkalog.recovery.run",
    "verify": "kafkalog.recovery.checks.verify",
}
"""Public name -> module, with `:name` where it is called otherwise there."""

__all__ = [
    "EARLIEST",
    "LATEST",
    "AbortedTransaction",
    "BatchHeader",
    "CallbackHandler",
    "Chunk",
    "Codec",
    "CompactedPartition",
    "Compaction",
    "CompactionResult",
    "Comparison",
    "Consumer",
    "ConsumerStream",
    "ControlType",
    "DecodedBatch",
    "DeletableSegment",
    "EndTransactionMarker",
    "ErrorCode",
    "ExplainedPart",
    "Explanation",
    "Fetched",
    "Finding",
    "FindingCode",
    "FormatError",
    "GroupOffsets",
    "Header",
    "Inventory",
    "KafkaLogError",
    "LegacyHeader",
    "LimitExceeded",
    "Limits",
    "Log",
    "LogConfig",
    "LogDir",
    "MergeResult",
    "MergedDirectory",
    "Mode",
    "NewRecord",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetOutOfRangeError",
    "OffsetsFile",
    "Outgoing",
    "PartRole",
    "Partition",
    "PartitionTriage",
    "Plan",
    "Producer",
    "ProducerConfig",
    "ProducerEntry",
    "ProducerState",
    "PurgeResult",
    "QueueFullError",
    "Quorum",
    "QuorumPlan",
    "QuorumRequest",
    "QuorumResult",
    "QuorumWay",
    "ReadyBatch",
    "Record",
    "RecordBatch",
    "RecordMetadata",
    "RecoveryRefused",
    "RecoveryResult",
    "Remains",
    "RemainsKind",
    "Report",
    "RunInfo",
    "RunState",
    "ScanResult",
    "Segment",
    "Severity",
    "StopReason",
    "StorageError",
    "Stream",
    "TakenOut",
    "TimestampType",
    "TransactionAbortedError",
    "Triage",
    "UndeleteResult",
    "Undeletion",
    "UndoResult",
    "UsageError",
    "VerifyReport",
    "__version__",
    "by_file_time",
    "commit_offsets",
    "compact",
    "compare",
    "decode_batch",
    "deleted",
    "explain",
    "follow",
    "iter_records",
    "legacy_partition",
    "merge_directories",
    "merge_preview",
    "merge_replicas",
    "multifetch",
    "open",
    "open_all",
    "open_partition",
    "open_segment",
    "open_streams",
    "partition_for_key",
    "plan",
    "plan_compaction",
    "plan_quorum",
    "plan_undelete",
    "purge",
    "read_quorum",
    "recover",
    "recover_quorum",
    "report",
    "runs",
    "scan",
    "triage",
    "undelete",
    "undelete_into",
    "undo",
    "verify",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = home.partition(":")
    value: object = getattr(import_module(module), attribute or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
