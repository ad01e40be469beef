"""Records and batches as lines: in kafka-dump-log's words, or as JSON objects."""

from __future__ import annotations

import json
from binascii import b2a_base64
from collections.abc import Callable

from kafkalog.cli.output import escape_controls, text_of
from kafkalog.codec.control import end_transaction_marker, parse_control_key
from kafkalog.codec.errors import FormatError
from kafkalog.codec.model import BatchHeader, Record, RecordBatch
from kafkalog.log.batch_words import batch_words

__all__ = ["batch_line", "record_line", "record_object"]

Json = dict[str, object]
_dumps = json.JSONEncoder(separators=(",", ":")).encode


def _base64(data: bytes | None) -> str | None:
    return None if data is None else b2a_base64(data, newline=False).decode("ascii")


def _optional(value: int | None) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def batch_line(batch: RecordBatch) -> str:
    """The line that kafka-dump-log prints for a batch."""
    words = []
    for name, value in batch_words(batch).items():
        if name == "deleteHorizonMs":
            words.append(f"{name}: {_optional(batch.header.delete_horizon_ms)}")
        else:
            words.append(f"{name}: {str(value).lower() if isinstance(value, bool) else value}")
    return " ".join(words)


def _control_words(record: Record) -> Json:
    try:
        kind = parse_control_key(record.key)
        marker = end_transaction_marker(record)
    except FormatError:
        return {"controlType": "UNKNOWN"}
    if marker is None:
        return {"controlType": f"{kind.label}({kind.type})"}
    return {"endTxnMarker": marker.type.name, "coordinatorEpoch": marker.coordinator_epoch}


def record_line(batch: RecordBatch, record: Record) -> str:
    """The line that kafka-dump-log prints for a record."""
    key_size = -1 if record.key is None else len(record.key)
    value_size = -1 if record.value is None else len(record.value)
    line = (
        f"| offset: {record.offset} {record.timestamp_type.label}: {record.timestamp}"
        f" keySize: {key_size} valueSize: {value_size}"
    )
    if isinstance(batch.header, BatchHeader):
        names = ",".join(escape_controls(header.key) for header in record.headers)
        line += f" sequence: {record.sequence} headerKeys: [{names}]"
    if batch.header.is_control:
        return line + "".join(f" {name}: {value}" for name, value in _control_words(record).items())
    if record.key is not None:
        line += f" key: {text_of(record.key)}"
    if record.value is not None:
        line += f" payload: {text_of(record.value)}"
    return line


def _put_text(target: Json, name: str, data: bytes | None) -> None:
    """Bytes as text, or null beside a `_b64` sibling where they are not UTF-8."""
    try:
        target[name] = None if data is None else data.decode("utf-8")
    except UnicodeDecodeError:
        target[name] = None
        target[f"{name}_b64"] = _base64(data)


def _text_values(target: Json, record: Record) -> None:
    _put_text(target, "key", record.key)
    _put_text(target, "value", record.value)
    try:
        target["headers"] = [
            [header.key, None if header.value is None else header.value.decode("utf-8")] for header in record.headers
        ]
    except UnicodeDecodeError:
        target["headers"] = None
        target["headers_b64"] = [[header.key, _base64(header.value)] for header in record.headers]


def _base64_values(target: Json, record: Record) -> None:
    target["key"] = _base64(record.key)
    target["value"] = _base64(record.value)
    target["headers"] = [[header.key, _base64(header.value)] for header in record.headers]


def record_object(topic: str | None, partition: int | None, encoding: str) -> Callable[[RecordBatch, Record], str]:
    """A function that makes a record's JSON line; `encoding` is `text` or `base64`."""
    put_values = _base64_values if encoding == "base64" else _text_values

    def line(batch: RecordBatch, record: Record) -> str:
        found: Json = {
            "topic": topic,
            "partition": partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "timestampType": record.timestamp_type.label,
        }
        put_values(found, record)
        found["leaderEpoch"] = None if record.leader_epoch < 0 else record.leader_epoch
        if batch.header.is_control:
            found.update(_control_words(record))
        return _dumps(found)

    return line
