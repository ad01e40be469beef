"""kcat's `-J`: a record as the JSON of `fmt_msg_output_json`, with a `_b64` field beside data that is not UTF-8."""

from __future__ import annotations

import json
from binascii import b2a_base64

from kafkalog.codec.model import Record, TimestampType

__all__ = ["envelope"]

_NOBODY = -1
"""`rd_kafka_message_broker_id` where no broker is known to have sent the message"""
_TYPES = {TimestampType.CREATE_TIME: "create", TimestampType.LOG_APPEND_TIME: "logappend"}


def _put(target: dict[str, object], name: str, data: bytes | None) -> None:
    try:
        target[name] = None if data is None else data.decode()
    except UnicodeDecodeError:
        target[name] = None
        target[f"{name}_b64"] = b2a_base64(data or b"", newline=False).decode()


def _header_key(key: str) -> str:
    return key.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def envelope(topic: str, partition: int, record: Record) -> str:
    """Return a record as the compact JSON object that kcat's `-J` prints: topic, partition, offset, tstype and ts (both
    omitted for magic 0, which has no timestamp type), broker (always -1), headers (omitted if empty; a flat list of
    names and values), key and payload. Data that is not UTF-8 is null, and a further field with the suffix `_b64` has
    it in base64 (`headers_b64`: the values of all headers). A header name that is not UTF-8 has U+FFFD in place of such
    bytes.
    """
    found: dict[str, object] = {"topic": topic, "partition": partition, "offset": record.offset}
    kind = _TYPES.get(record.timestamp_type)
    if kind is not None:
        found["tstype"] = kind
        found["ts"] = record.timestamp
    found["broker"] = _NOBODY
    if record.headers:
        pairs: dict[str, object] = {}
        names, values = [], []
        for number, (key, value) in enumerate(record.headers):
            _put(pairs, str(number), value)
            names.append(_header_key(key))
            values.append(pairs[str(number)])
        found["headers"] = [word for pair in zip(names, values, strict=True) for word in pair]
        if any(name.endswith("_b64") for name in pairs):
            found["headers_b64"] = [
                None if value is None else b2a_base64(value, newline=False).decode() for _, value in record.headers
            ]
    _put(found, "key", record.key)
    _put(found, "payload", record.value)
    return json.dumps(found, separators=(",", ":"))
