"""Read, write, check, repair and query Apache Kafka's log directories without a broker.

The public names.  Each is imported when it is first used, so that `import kafkalog` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from kafkalog.cli.report.making import Report, report
    from kafkalog.cluster.commit_offsets import GroupOffsets, OffsetAndMetadata, commit_offsets
    from kafkalog.cluster.quorum import Quorum, read_quorum
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
    from kafkalog.log.config import LogConfig
    from kafkalog.log.consuming.consumer import Consumer, follow
    from kafkalog.log.consuming.offset_store import OffsetsFile
    from kafkalog.log.consuming.stream import ConsumerStream
    from kafkalog.log.directory import LogDir
    from kafkalog.log.directory import open_log_dir as open
    from kafkalog.log.fetch import Chunk, OffsetOutOfRangeError
    from kafkalog.log.incoming import NewRecord
    from kafkalog.log.inventory import Inventory, open_all
    from kafkalog.log.multifetch import Fetched, multifetch
    from kafkalog.log.offsets import EARLIEST, LATEST
    from kafkalog.log.partition import OffsetAndTimestamp, Partition, open_partition, open_segment
    from kafkalog.log.partitioners import legacy_partition, partition_for_key
    from kafkalog.log.producing.batch import ReadyBatch, RecordMetadata
    from kafkalog.log.producing.config import ProducerConfig
    from kafkalog.log.producing.hooks import CallbackHandler, Outgoing
    from kafkalog.log.producing.producer import Producer, TransactionAbortedError
    from kafkalog.log.producing.room import QueueFullError
    from kafkalog.log.retention import DeletableSegment, by_file_time
    from kafkalog.log.segment import Segment
    from kafkalog.log.streams import Stream, open_streams
    from kafkalog.log.writer import Log
    from kafkalog.recovery.compaction import CompactedPartition, Compaction
    from kafkalog.recovery.compaction_run import CompactionResult, compact, plan_compaction
    from kafkalog.recovery.compare import compare
    from kafkalog.recovery.comparison import Comparison
    from kafkalog.recovery.explain import ExplainedPart, Explanation, PartRole, explain
    from kafkalog.recovery.history import RunInfo, RunState, runs
    from kafkalog.recovery.merge import merge_directories, merge_replicas
    from kafkalog.recovery.merge_result import MergedDirectory, MergeResult
    from kafkalog.recovery.modes import Mode
    from kafkalog.recovery.plan import Plan
    from kafkalog.recovery.preview import merge_preview
    from kafkalog.recovery.purging import PurgeResult, purge
    from kafkalog.recovery.quorum.plan import QuorumPlan
    from kafkalog.recovery.quorum.request import QuorumRequest, QuorumWay
    from kafkalog.recovery.quorum.run import QuorumResult, plan_quorum, recover_quorum
    from kafkalog.recovery.remains import Remains, RemainsKind, deleted
    from kafkalog.recovery.run import RecoveryResult, UndoResult, plan, recover, undo
    from kafkalog.recovery.taking_out import TakenOut, undelete_into
    from kafkalog.recovery.triage.outcome import PartitionTriage
    from kafkalog.recovery.triage.run import Triage, triage
    from kafkalog.recovery.undeletion import UndeleteResult, Undeletion, plan_undelete, undelete
    from kafkalog.recovery.verify import verify
    from kafkalog.recovery.verify_report import VerifyReport

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
    "Inventory": "kafkalog.log.inventory",
    "KafkaLogError": "kafkalog.codec.errors",
    "LegacyHeader": "kafkalog.codec.model",
    "LimitExceeded": "kafkalog.codec.errors",
    "Limits": "kafkalog.codec.limits",
    "LogDir": "kafkalog.log.directory",
    "OffsetAndTimestamp": "kafkalog.log.partition",
    "Partition": "kafkalog.log.partition",
    "ProducerEntry": "kafkalog.codec.model",
    "Record": "kafkalog.codec.model",
    "RecordBatch": "kafkalog.codec.model",
    "RecoveryRefused": "kafkalog.codec.errors",
    "ScanResult": "kafkalog.codec.scan",
    "Segment": "kafkalog.log.segment",
    "Severity": "kafkalog.codec.findings",
    "StopReason": "kafkalog.codec.findings",
    "StorageError": "kafkalog.codec.errors",
    "TimestampType": "kafkalog.codec.model",
    "UsageError": "kafkalog.codec.errors",
    "Log": "kafkalog.log.writer",
    "LogConfig": "kafkalog.log.config",
    "NewRecord": "kafkalog.log.incoming",
    "ProducerState": "kafkalog.codec.encode",
    "Chunk": "kafkalog.log.fetch",
    "OffsetOutOfRangeError": "kafkalog.log.fetch",
    "EARLIEST": "kafkalog.log.offsets",
    "LATEST": "kafkalog.log.offsets",
    "open_streams": "kafkalog.log.streams",
    "Stream": "kafkalog.log.streams",
    "partition_for_key": "kafkalog.log.partitioners",
    "CallbackHandler": "kafkalog.log.producing.hooks",
    "Consumer": "kafkalog.log.consuming.consumer",
    "ConsumerStream": "kafkalog.log.consuming.stream",
    "OffsetsFile": "kafkalog.log.consuming.offset_store",
    "follow": "kafkalog.log.consuming.consumer",
    "DeletableSegment": "kafkalog.log.retention",
    "ErrorCode": "kafkalog.codec.fetch_result",
    "Fetched": "kafkalog.log.multifetch",
    "GroupOffsets": "kafkalog.cluster.commit_offsets",
    "OffsetAndMetadata": "kafkalog.cluster.commit_offsets",
    "by_file_time": "kafkalog.log.retention",
    "commit_offsets": "kafkalog.cluster.commit_offsets",
    "multifetch": "kafkalog.log.multifetch",
    "Outgoing": "kafkalog.log.producing.hooks",
    "Producer": "kafkalog.log.producing.producer",
    "ProducerConfig": "kafkalog.log.producing.config",
    "QueueFullError": "kafkalog.log.producing.room",
    "ReadyBatch": "kafkalog.log.producing.batch",
    "RecordMetadata": "kafkalog.log.producing.batch",
    "TransactionAbortedError": "kafkalog.log.producing.producer",
    "legacy_partition": "kafkalog.log.partitioners",
    "CompactedPartition": "kafkalog.recovery.compaction",
    "Compaction": "kafkalog.recovery.compaction",
    "CompactionResult": "kafkalog.recovery.compaction_run",
    "Comparison": "kafkalog.recovery.comparison",
    "MergeResult": "kafkalog.recovery.merge_result",
    "MergedDirectory": "kafkalog.recovery.merge_result",
    "Mode": "kafkalog.recovery.modes",
    "Plan": "kafkalog.recovery.plan",
    "PurgeResult": "kafkalog.recovery.purging",
    "Quorum": "kafkalog.cluster.quorum",
    "QuorumPlan": "kafkalog.recovery.quorum.plan",
    "QuorumRequest": "kafkalog.recovery.quorum.request",
    "QuorumResult": "kafkalog.recovery.quorum.run",
    "QuorumWay": "kafkalog.recovery.quorum.request",
    "PartitionTriage": "kafkalog.recovery.triage.outcome",
    "Triage": "kafkalog.recovery.triage.run",
    "triage": "kafkalog.recovery.triage.run",
    "RecoveryResult": "kafkalog.recovery.run",
    "Remains": "kafkalog.recovery.remains",
    "RemainsKind": "kafkalog.recovery.remains",
    "Report": "kafkalog.cli.report.making",
    "RunInfo": "kafkalog.recovery.history",
    "RunState": "kafkalog.recovery.history",
    "TakenOut": "kafkalog.recovery.taking_out",
    "UndeleteResult": "kafkalog.recovery.undeletion",
    "Undeletion": "kafkalog.recovery.undeletion",
    "UndoResult": "kafkalog.recovery.run",
    "VerifyReport": "kafkalog.recovery.verify_report",
    "compact": "kafkalog.recovery.compaction_run",
    "compare": "kafkalog.recovery.compare",
    "decode_batch": "kafkalog.codec.records",
    "iter_records": "kafkalog.codec.records",
    "merge_directories": "kafkalog.recovery.merge",
    "merge_preview": "kafkalog.recovery.preview",
    "merge_replicas": "kafkalog.recovery.merge",
    "open": "kafkalog.log.directory:open_log_dir",
    "open_all": "kafkalog.log.inventory",
    "open_partition": "kafkalog.log.partition",
    "open_segment": "kafkalog.log.partition",
    "deleted": "kafkalog.recovery.remains",
    "report": "kafkalog.cli.report.making",
    "plan": "kafkalog.recovery.run",
    "plan_compaction": "kafkalog.recovery.compaction_run",
    "plan_quorum": "kafkalog.recovery.quorum.run",
    "plan_undelete": "kafkalog.recovery.undeletion",
    "purge": "kafkalog.recovery.purging",
    "read_quorum": "kafkalog.cluster.quorum",
    "recover": "kafkalog.recovery.run",
    "recover_quorum": "kafkalog.recovery.quorum.run",
    "runs": "kafkalog.recovery.history",
    "scan": "kafkalog.codec.scan",
    "undelete": "kafkalog.recovery.undeletion",
    "undelete_into": "kafkalog.recovery.taking_out",
    "undo": "kafkalog.recovery.run",
    "verify": "kafkalog.recovery.verify",
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
