"""Decode keys and values: records of Kafka's internal topics by the types in `cluster`, other records by a decoder
class.

Text is in the format of kafka-dump-log's `…MessageParser` classes; objects are the same data as JSON. Unlike in Kafka's
tool, secrets of metadata records are hidden unless an option shows them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from kafkalog.codec.common.errors import FormatError, UsageError
from kafkalog.codec.model import Record
from kafkalog.codec.names import (
    CLUSTER_METADATA_TOPIC,
    COORDINATOR_TOPICS,
    REMOTE_LOG_METADATA_TOPIC,
)
from kafkalog.codec.plain.control import parse_control_key
from kafkalog.words.escapes import escape_controls, text_of

__all__ = ["Decoder", "DecoderClasses", "PlainDecoder", "control_decoded", "data_decoder", "decoder_of", "decodes"]

Texts = tuple[str | None, str | None]
_DELETED = "<DELETE>"
_dumps = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class Decoder(Protocol):
    """The interface of decoders: keys and values of records that are not control records, as text or as objects."""

    def texts(self, record: Record) -> Texts:
        """Return key and payload as texts for a line; each is None if the line omits it."""

    def decoded(self, record: Record) -> dict[str, object] | None:
        """Return `{"key": …, "value": …}`; None if decoding adds nothing to the data itself."""


class PlainDecoder:
    """Kafka's `StringDecoder`: data as UTF-8 text. Bytes that are not UTF-8, and characters that would control a
    terminal, become escapes.
    """

    def texts(self, record: Record) -> Texts:
        """Key and payload as text."""
        return (
            None if record.key is None else text_of(record.key),
            None if record.value is None else text_of(record.value),
        )

    def decoded(self, record: Record) -> dict[str, object] | None:
        """Return None: the text is the data itself."""
        return None


def _number(layout: str, name: str) -> Callable[[bytes], str]:
    number = struct.Struct(layout)

    def text(data: bytes) -> str:
        if len(data) < number.size:
            return f"<{len(data)} bytes, too few for a {name}>"
        return str(number.unpack_from(data)[0])

    return text


_CLASSES: dict[str, Callable[[bytes], str]] = {
    "String": text_of,
    "Long": _number(">q", "Long"),
    "Integer": _number(">i", "Integer"),
    "Double": _number(">d", "Double"),
}
_PACKAGES = ("org.apache.kafka.tools.api.", "kafka.serializer.", "")


def _class(name: str) -> Callable[[bytes], str]:
    for package in _PACKAGES:
        short = name.removeprefix(package).removesuffix("Decoder")
        if name.startswith(package) and short in _CLASSES:
            return _CLASSES[short]
    raise UsageError(
        f"there is no decoder class {name[:200]!r} here, where no Java runs; there are "
        f"{', '.join(f'{each}Decoder' for each in _CLASSES)} of org.apache.kafka.tools.api"
    )


class DecoderClasses(Struct, frozen=True):
    """Decoders that were chosen by `--key-decoder-class` and `--value-decoder-class`."""

    key: Callable[[bytes], str]
    value: Callable[[bytes], str]

    @classmethod
    def of(cls, key: str | None, value: str | None) -> DecoderClasses:
        """Return the decoders with the names of Kafka's classes, or the first words of these names; raises `UsageError`
        for other names.
        """
        return cls(_class(key or "String"), _class(value or "String"))

    def texts(self, record: Record) -> Texts:
        """Return key and payload as decoded texts; None for null."""
        return (
            None if record.key is None else self.key(record.key),
            None if record.value is None else self.value(record.value),
        )

    def decoded(self, record: Record) -> dict[str, object] | None:
        """Return the two texts as `key` and `value`; never None."""
        key, value = self.texts(record)
        return {"key": key, "value": value}


class _Coordinator(Struct, frozen=True):
    """Decodes records like Kafka's `OffsetsMessageParser`, `TransactionLogMessageParser` and
    `ShareGroupStateMessageParser`.
    """

    topic: str

    def texts(self, record: Record) -> Texts:
        from kafkalog.cluster.records.coordinator_records import decode_record
        from kafkalog.cluster.records.record_json import coordinator_json

        found = decode_record(self.topic, record.key, record.value)
        if found.key is None or (found.value is None and found.raw_value is not None):
            unknown = found.type is not None and found.name == "UNKNOWN"
            if unknown:
                return f"Unknown record type {found.type} at offset {record.offset}, skipping.", None
            why = found.findings[0].detail if found.findings else "it is not understood"
            return escape_controls(f"Error at offset {record.offset}, skipping. {why}"), None
        shown = coordinator_json(found)
        value = _DELETED if shown["value"] is None else escape_controls(_dumps(shown["value"]))
        return escape_controls(_dumps(shown["key"])), value

    def decoded(self, record: Record) -> dict[str, object] | None:
        from kafkalog.cluster.records.coordinator_records import decode_record
        from kafkalog.cluster.records.record_json import coordinator_json

        coordinator_record = decode_record(self.topic, record.key, record.value)
        shown: dict[str, object] = coordinator_json(coordinator_record)
        return {"key": shown["key"] if coordinator_record.key is not None else None,
                "value": shown["value"] if coordinator_record.value is not None else None}  # fmt: skip


class _Framed(Struct, frozen=True):
    """Decodes records without keys like Kafka's `ClusterMetadataLogMessageParser` and
    `RemoteMetadataLogMessageParser`.
    """

    topic: str
    show_secrets: bool

    def _value(self, record: Record) -> tuple[dict[str, object] | None, str]:
        from kafkalog.cluster.records.framed_records import decode_metadata, decode_remote_log_metadata
        from kafkalog.cluster.records.record_json import framed_json

        decode = decode_metadata if self.topic == CLUSTER_METADATA_TOPIC else decode_remote_log_metadata
        framed_record = decode(record.value)
        if framed_record.decoded is None:
            return None, framed_record.findings[0].detail if framed_record.findings else "it is not understood"
        return framed_json(framed_record, show_secrets=self.show_secrets), ""

    def texts(self, record: Record) -> Texts:
        value, why = self._value(record)
        if value is None:
            at = f"{record.offset}" if self.topic == CLUSTER_METADATA_TOPIC else f"offset {record.offset}"
            return None, escape_controls(f"Error at {at}, skipping. {why}")
        return None, escape_controls(_dumps(value))

    def decoded(self, record: Record) -> dict[str, object] | None:
        return {"key": None, "value": self._value(record)[0]}


def data_decoder(topic: str, *, show_secrets: bool = False) -> Decoder:
    """Return the decoder of an internal topic's records, regardless of the directory that holds them."""
    return _Coordinator(topic) if topic in COORDINATOR_TOPICS else _Framed(topic, show_secrets)


def decodes(topic: str | None) -> bool:
    """Whether a topic is one of Kafka's own, whose records are understood."""
    return topic in COORDINATOR_TOPICS or topic in (CLUSTER_METADATA_TOPIC, REMOTE_LOG_METADATA_TOPIC)


def decoder_of(topic: str | None, *, show_secrets: bool = False) -> Decoder | None:
    """The decoder for a topic's name; None for a topic that is not one of Kafka's own."""
    return data_decoder(topic, show_secrets=show_secrets) if topic is not None and decodes(topic) else None


def control_decoded(record: Record) -> dict[str, object] | None:
    """Return the decoded fields of a KRaft control record (leader change, snapshot header or footer, voters, version),
    in an object under the name of its type. None if the key is invalid, the record is of another type, or its value
    cannot be decoded.
    """
    from kafkalog.cluster.layout.kraft_control import VALUES
    from kafkalog.cluster.records.framed_records import decode_control
    from kafkalog.cluster.records.record_json import control_json

    try:
        kind = parse_control_key(record.key).type
    except FormatError:
        return None
    framed_record = decode_control(kind, record.value) if VALUES.get(kind) is not None else None
    return None if framed_record is None or framed_record.decoded is None else control_json(framed_record)
