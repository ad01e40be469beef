"""The execution that runs the Construct trees themselves: slow, and the truth for the one that is derived."""

from __future__ import annotations

from typing import Any

from construct import Construct, ConstructError, Container

from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.common.limits import Limits
from kafkalog.codec.layout import legacy_message, record_batch
from kafkalog.codec.layout.attributes import ATTRIBUTES_V0, ATTRIBUTES_V1, ATTRIBUTES_V2
from kafkalog.codec.layout.primitives import LayoutError, Varint
from kafkalog.codec.model import BATCH, MESSAGE_V0, MESSAGE_V1, BatchHeader, LegacyHeader
from kafkalog.codec.parsing.reference import parse
from kafkalog.codec.rules.execution import FAULT_OF_LEAF, MessageContent, RawRecord, RecordFault

__all__ = ["REFERENCE", "ReferenceExecution"]

Bytes = bytes | memoryview


class ReferenceExecution:
    """Runs the Construct trees."""

    name = "reference"

    def batch_header(self, buffer: Bytes, position: int) -> BatchHeader:
        """The v2 header at `position`."""
        fields = parse(record_batch.BATCH_HEADER, buffer[position : position + BATCH.size])
        fields["attributes"] = ATTRIBUTES_V2.number(fields.attributes)
        return BatchHeader(**{name: fields[name] for name in BATCH.names})

    def legacy_header(self, buffer: Bytes, position: int) -> LegacyHeader:
        """The v0 or v1 header at `position`."""
        if buffer[position + MESSAGE_V0.position("magic")] == 0:
            fields = parse(legacy_message.MESSAGE_V0_HEADER, buffer[position : position + MESSAGE_V0.size])
            attributes = ATTRIBUTES_V0.number(fields.attributes)
            return LegacyHeader(fields.offset, fields["size"], fields.crc, fields.magic, attributes)
        fields = parse(legacy_message.MESSAGE_V1_HEADER, buffer[position : position + MESSAGE_V1.size])
        attributes = ATTRIBUTES_V1.number(fields.attributes)
        return LegacyHeader(fields.offset, fields["size"], fields.crc, fields.magic, attributes, fields.timestamp)

    def records(self, payload: Bytes, count: int, limits: Limits) -> tuple[list[RawRecord], RecordFault | None]:
        """The declared records, those before the first fault."""
        found: list[RawRecord] = []
        payload = bytes(payload)
        position = 0
        for _ in range(count):
            try:
                length = Varint.parse(payload[position : position + 5])
            except LayoutError as error:
                return found, RecordFault(FAULT_OF_LEAF[error.code], position)
            body = position + _varint_size(payload, position)
            if length < 0:
                return found, RecordFault(FindingCode.RECORD_LENGTH_MISMATCH, position)
            if length > len(payload) - body:
                return found, RecordFault(FindingCode.RECORD_TRUNCATED, position)
            whole = payload[position : body + length]
            try:
                record = _SIZED_RECORD.parse(whole, max_count=limits.headers_per_record)
            except LayoutError as error:
                return found, RecordFault(FAULT_OF_LEAF[error.code], position + error.position)
            except ConstructError:  # the only leaf that is not ours is the int8 at the start of the body
                return found, RecordFault(FindingCode.RECORD_TRUNCATED, body)
            if record.consumed != len(whole):
                return found, RecordFault(FindingCode.RECORD_LENGTH_MISMATCH, position + record.consumed)
            found.append(_raw(record.record))
            position += len(whole)
        if position != len(payload):
            return found, RecordFault(FindingCode.RECORDS_TRAILING_BYTES, position)
        return found, None

    def message_content(self, data: Bytes, position: int) -> MessageContent | RecordFault:
        """Key and value of the entry that is all of `data`."""
        try:
            fields = legacy_message.MESSAGE_CONTENT.parse(bytes(data[position:]))
        except LayoutError as error:
            return RecordFault(FAULT_OF_LEAF[error.code], position + error.position)
        return fields["key"], fields["value"]


def _varint_size(payload: bytes, position: int) -> int:
    size = 1
    while payload[position + size - 1] >= 0x80:
        size += 1
    return size


def _raw(record: Container) -> RawRecord:
    return RawRecord(
        record.attributes,
        record.timestamp_delta,
        record.offset_delta,
        record.key,
        record.value,
        tuple((header.key, header.value) for header in record.headers),
    )


class _Sized(Construct):  # type: ignore[misc]
    """A structure and how many bytes it took."""

    def __init__(self, inner: Construct) -> None:
        super().__init__()
        self.inner = inner

    def _parse(self, stream: Any, context: Container, path: str) -> Container:
        record = self.inner._parsereport(stream, context, path)
        return Container(record=record, consumed=stream.tell())


_SIZED_RECORD = _Sized(record_batch.RECORD)

REFERENCE = ReferenceExecution()
