"""Records and batches as lines: in the format of kafka-dump-log, or as JSON objects."""

from __future__ import annotations

import json
from binascii import b2a_base64
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import Struct

from kafkalog.cli.dump.decoders import Decoder, PlainDecoder, control_decoded
from kafkalog.cli.dump.redaction import Redaction
from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.model import BatchHeader, Record, RecordBatch
from kafkalog.codec.plain.control import end_transaction_marker, parse_control_key
from kafkalog.codec.rules.batch_fields import BATCH_FIELDS, OF_RECORDS, POSITION
from kafkalog.log.reading.batch_words import batch_words
from kafkalog.values.json_values import exact_json
from kafkalog.words.escapes import escape_controls

if TYPE_CHECKING:
    from kafkalog.cli.dump.decoded_values import ShownValues

__all__ = ["Checksum", "RecordText", "batch_line", "metadata_words", "record_object"]

Json = dict[str, object]


class Checksum(NamedTuple):
    """The checksum that is stored in a message of magic 0 or 1, and whether the message's bytes agree with it."""

    stored: int
    is_valid: bool


_dumps = exact_json(json.JSONEncoder(separators=(",", ":")).encode)
_texts = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def _base64(data: bytes | None) -> str | None:
    return None if data is None else b2a_base64(data, newline=False).decode("ascii")


def _optional(value: int | None) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


REDACTED = "redacted"
"""in place of a checksum: who guesses the data could tell by it that the guess is right"""


def batch_line(batch: RecordBatch, *, is_valid: bool = True, redacted: bool = False) -> str:
    """Return the line that kafka-dump-log prints for a batch, `baseOffset: 0 lastOffset: 4 …`. `is_valid` is the
    value of `isvalid`; with `redacted` the CRC is hidden.
    """
    words = []
    hidden = {"crc": REDACTED} if redacted else {}
    for name, value in {**batch_words(batch), "isvalid": is_valid, **hidden}.items():
        if name == "deleteHorizonMs":
            words.append(f"{name}: {_optional(batch.header.delete_horizon_ms)}")
        else:
            words.append(f"{name}: {_word(value)}")
    return " ".join(words)


def metadata_words(batch: RecordBatch, record: Record) -> Json:
    """Return fields of a record's batch under kafka-dump-log's names, for `--metadata`."""
    own: Json = {"sequence": record.sequence, POSITION: batch.position}
    return {name: own[name] if name in own else BATCH_FIELDS[name].of_header(batch.header) for name in OF_RECORDS}


def _control_words(record: Record) -> Json:
    try:
        kind = parse_control_key(record.key)
        marker = end_transaction_marker(record)
    except FormatError:
        return {"controlType": "UNKNOWN"}
    if marker is None:
        return {"controlType": f"{kind.label}({kind.type})"}
    return {"endTxnMarker": marker.type.name, "coordinatorEpoch": marker.coordinator_epoch}


def _control_text(record: Record, *, decode: bool) -> str:
    decoded = control_decoded(record) if decode else None
    if decoded is None:
        return "".join(f" {name}: {value}" for name, value in _control_words(record).items())
    ((name, fields),) = decoded.items()
    colon = ":" if name == "LeaderChange" else ""
    return escape_controls(f" {name}{colon} {_texts(fields)}")


class RecordText(Struct, frozen=True, kw_only=True):
    """Makes the lines that kafka-dump-log prints for records."""

    decoder: Decoder = msgspec.field(default_factory=PlainDecoder)
    """shows keys and values"""
    redaction: Redaction | None = None
    with_metadata: bool = False
    """`--metadata`: what the batch says, after what the record says"""
    skip_record_metadata: bool = False
    """`--skip-record-metadata`: nothing but key and payload"""
    skip_data: bool = False
    """`--deep-iteration` alone: no key and payload"""
    decode: bool = True
    """whether control records of KRaft are shown by their fields"""

    def line(self, batch: RecordBatch, record: Record, checksum: Checksum | None = None) -> str:
        """Return kafka-dump-log's line for a record, without a newline: its metadata, then key and payload unless they
        are null. A control record has its type in the metadata, and neither key nor payload. `skip_record_metadata` and
        `skip_data` of this object omit a part; the line is empty if nothing is left.

        `checksum` is the CRC of a message of magic 0 or 1, None for magic 2.
        """
        line = ""
        if not self.skip_record_metadata:
            line = self._about(batch, record)
            if checksum is not None:
                crc = checksum.stored if self.redaction is None else REDACTED
                line += f" isValid: {_word(checksum.is_valid)} crc: {crc}}}"  # the bracket is Kafka's
            if batch.header.is_control:
                line += _control_text(record, decode=self.decode and self.redaction is None)
            if self.with_metadata:
                words = metadata_words(batch, record)
                del words["sequence"]
                line += "".join(f" {name}: {_word(value)}" for name, value in words.items())
        if self.skip_data or batch.header.is_control:
            return line
        shown = record if self.redaction is None else self.redaction.record(record)
        key, payload = self.decoder.texts(shown)
        if key is not None:
            line += f"{' ' if line else '| '}key: {key}"
        return line if payload is None else f"{line} payload: {payload}"

    @staticmethod
    def _about(batch: RecordBatch, record: Record) -> str:
        line = (
            f"| offset: {record.offset} {record.timestamp_type.label}: {record.timestamp}"
            f" keySize: {-1 if record.key is None else len(record.key)}"
            f" valueSize: {-1 if record.value is None else len(record.value)}"
        )
        if isinstance(batch.header, BatchHeader):
            names = ",".join(escape_controls(header.key) for header in record.headers)
            line += f" sequence: {record.sequence} headerKeys: [{names}]"
        return line


def _put_text(target: Json, name: str, data: bytes | None) -> None:
    """Set `target[name]` to `data` decoded as UTF-8; None for None. If the bytes are not UTF-8, `target[name]` is None,
    and `target[name + "_b64"]` has them in base64.
    """
    try:
        target[name] = None if data is None else data.decode("utf-8")
    except UnicodeDecodeError:
        target[name] = None
        target[f"{name}_b64"] = _base64(data)


def _text_values(target: Json, record: Record) -> None:
    _put_text(target, "key", record.key)
    _put_text(target, "value", record.value)
    _text_headers(target, record)


def _text_headers(target: Json, record: Record) -> None:
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


def record_object(
    topic: str | None,
    partition: int | None,
    encoding: str,
    *,
    decoder: Decoder | None = None,
    with_metadata: bool = False,
    redaction: Redaction | None = None,
    values: ShownValues | None = None,
) -> Callable[[RecordBatch, Record], str]:
    """Return a function that takes a batch and a record and returns the record's JSON line, without a newline.
    `encoding` is the form of keys and values: `text` or `base64`. With `text`, bytes that are not UTF-8 become null,
    and a field with the suffix `_b64` has them.

    With `decoder`, the object has the field `decoded` if the record can be parsed: a record of Kafka's internal topics,
    or a control record. With `with_metadata`, it has fields of the record's batch. With `values`, key and value are
    decoded JSON values, except in control records. Control records get fields for their type. With `redaction`, data is
    replaced by its size and hash, and `decoder` is not used. `redaction` and `values` exclude each other.
    """
    put_values = _base64_values if encoding == "base64" else _text_values

    def line(batch: RecordBatch, record: Record) -> str:
        found: Json = {
            "topic": topic,
            "partition": partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "timestampType": record.timestamp_type.label,
        }
        if values is None or batch.header.is_control:
            put_values(found, record if redaction is None else redaction.record(record))
        else:
            values.put(found, record, topic)
            _text_headers(found, record)
        found["leaderEpoch"] = None if record.leader_epoch < 0 else record.leader_epoch
        if with_metadata:
            found.update(metadata_words(batch, record))
        if batch.header.is_control:
            found.update(_control_words(record))
        if decoder is not None and redaction is None:
            decoded = _decoded(decoder, batch, record)
            if decoded is not None:
                found["decoded"] = decoded
        return _dumps(found)

    return line


def _decoded(decoder: Decoder, batch: RecordBatch, record: Record) -> Json | None:
    if not batch.header.is_control:
        return decoder.decoded(record)
    fields = control_decoded(record)
    return None if fields is None else {"key": None, "value": fields}
