"""Typed records as JSON in the form of Kafka's dump tool; secrets are hidden unless the caller asks for them."""

from __future__ import annotations

import base64
from typing import Any

from kafkalog.cluster.records.consumer_protocol import CONSUMER_PROTOCOL, decode_assignment, decode_subscription
from kafkalog.cluster.records.coordinator_records import CoordinatorRecord
from kafkalog.cluster.records.framed_records import FramedRecord, record_type_name
from kafkalog.cluster.records.messages import Hook, json_of
from kafkalog.cluster.rules.secrets import HIDDEN, hide_fields, is_secret_config
from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.messages.field import Field

__all__ = ["control_json", "coordinator_json", "framed_json"]

_GROUP_METADATA = "GroupMetadataValue"


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _consumer_payloads(field: Field, value: Any) -> Any:
    """Convert embedded subscriptions and assignments of consumers to JSON; other fields, empty bytes, and bytes that
    cannot be decoded are returned unchanged.

    Members of other protocols, such as Connect, must not be passed.
    """
    decoder = {"subscription": decode_subscription, "assignment": decode_assignment}.get(field.name)
    if decoder is None or not value:
        return value
    try:
        return json_of(decoder(value))
    except FormatError:
        return value


def coordinator_json(record: CoordinatorRecord) -> dict[str, Any]:
    """Convert a coordinator record to `{"key": …, "value": …}`. A decoded key is `{"type": …, "data": …}`, a decoded
    value `{"version": …, "data": …}`.

    Parts that were not decoded are base64 text; a missing key, and the value of a tombstone, are null. Embedded
    subscriptions and assignments of consumer groups are decoded too; those that cannot be decoded are base64 text.
    """
    key: object = _base64(record.raw_key)
    if record.key is not None:
        key = {"type": str(record.type), "data": json_of(record.key)}
    value: object = _base64(record.raw_value)
    if record.value is not None:
        hook: Hook | None = None
        decoded = record.value
        if decoded.message.name == _GROUP_METADATA and decoded.fields["protocol_type"] == CONSUMER_PROTOCOL:
            hook = _consumer_payloads
        value = {"version": str(decoded.version), "data": json_of(decoded, hook)}
    return {"key": key, "value": value}


def framed_json(record: FramedRecord, *, show_secrets: bool = False) -> dict[str, Any]:
    """Convert a metadata record to `{"type": …, "version": …, "data": …}`. A record that was not decoded has `raw`
    (base64, null without a value) instead of `data`. Instead of the name, it has the number of its type, or null.

    Unless `show_secrets` is set, secret fields and secret config values are hidden in `data`; `raw` is never changed.
    """
    if record.decoded is None:
        return {"type": record.type, "version": record.version, "raw": _base64(record.raw)}
    data = json_of(record.decoded, None if show_secrets else hide_fields)
    if not show_secrets and record.name == "ConfigRecord" and is_secret_config(str(data["name"])) and data["value"]:
        data["value"] = HIDDEN
    return {"type": record_type_name(record.decoded.message), "version": record.version, "data": data}


def control_json(record: FramedRecord) -> dict[str, Any]:
    """Convert a KRaft control record to a dict with one key, the name of its type (`UNKNOWN` if it was not decoded).
    The value is the fields, or the raw bytes as base64.
    """
    data: object = {"raw": _base64(record.raw)} if record.decoded is None else json_of(record.decoded)
    return {record.name: data}
