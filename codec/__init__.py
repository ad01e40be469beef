"""Bytes to meaning and back: every file of a Kafka log directory, every message format, every compression.

Nothing in this package opens a file, knows a path or reads a clock.
"""

if __name__ != "kafkalog.codec":
    raise ImportError("this folder is kafkalog.codec; import that name")

from typing import TYPE_CHECKING

from kafkalog.codec.errors import (
    FormatError,
    KafkaLogError,
    LimitExceeded,
    RecoveryRefused,
    StorageError,
    UsageError,
)
from kafkalog.codec.findings import Finding, FindingCode, Severity, StopReason
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
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
from kafkalog.codec.scan import Scanner, ScanResult, scan
from kafkalog.codec.source import BufferSource, Source
from kafkalog.lazily import lazily

if TYPE_CHECKING:
    from kafkalog.codec.door import LAYOUTS, build, parse, with_timestamps

__all__ = [
    "DEFAULT_LIMITS",
    "LAYOUTS",
    "AbortedTransaction",
    "BatchHeader",
    "BufferSource",
    "Codec",
    "ControlType",
    "DecodedBatch",
    "EndTransactionMarker",
    "Finding",
    "FindingCode",
    "FormatError",
    "Header",
    "KafkaLogError",
    "LegacyHeader",
    "LimitExceeded",
    "Limits",
    "ProducerEntry",
    "Record",
    "RecordBatch",
    "RecoveryRefused",
    "ScanResult",
    "Scanner",
    "Severity",
    "Source",
    "StopReason",
    "StorageError",
    "TimestampType",
    "UsageError",
    "build",
    "decode_batch",
    "iter_records",
    "parse",
    "scan",
    "with_timestamps",
]

__getattr__ = lazily(__name__, dict.fromkeys(("LAYOUTS", "build", "parse", "with_timestamps"), "kafkalog.codec.door"))
