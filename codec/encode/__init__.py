"""Encode batches and messages as Kafka's own builders do, and convert between formats. The rules are those of
`MemoryRecordsBuilder`, `DefaultRecordBatch.writeHeader`, `LegacyRecord` and `RecordsUtil`.
"""

from kafkalog.codec.encode.batch import (
    ProducerState,
    build_batch,
    build_control_batch,
    build_end_transaction_marker,
    build_raw_batch,
    empty_batch,
)
from kafkalog.codec.encode.convert import down_convert, up_convert
from kafkalog.codec.encode.message import build_messages
from kafkalog.codec.encode.reencode import (
    RawBatch,
    RawMessage,
    encode_raw_batch,
    encode_raw_message,
    read_raw_batch,
    read_raw_message,
)

__all__ = [
    "ProducerState",
    "RawBatch",
    "RawMessage",
    "build_batch",
    "build_control_batch",
    "build_end_transaction_marker",
    "build_messages",
    "build_raw_batch",
    "down_convert",
    "empty_batch",
    "encode_raw_batch",
    "encode_raw_message",
    "read_raw_batch",
    "read_raw_message",
    "up_convert",
]
