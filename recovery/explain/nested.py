"""Explain the content of keys and values in records that Kafka writes itself, and compute offsets and times from
deltas.

These are control records (`ControlRecordType`), records of `__cluster_metadata` and its snapshots
(`AbstractApiMessageSerde`), and records of the coordinators' topics (`CoordinatorRecordSerde`).
"""

from __future__ import annotations

from collections.abc import Iterator

from construct import Construct, Container, Int16sb, Struct

from kafkalog.cluster.records.coordinator_records import TOPICS, decode_record
from kafkalog.cluster.records.framed_records import decode_metadata
from kafkalog.cluster.records.messages import Decoded
from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.limits import Limits
from kafkalog.codec.layout.primitives import UnsignedVarint
from kafkalog.codec.layout.record_batch import CONTROL_RECORD_KEY, END_TRANSACTION_MARKER
from kafkalog.codec.messages.control import CONTROL_SCHEMAS, control_layout, control_version
from kafkalog.codec.model import ControlType, Record, RecordBatch
from kafkalog.codec.names import CLUSTER_METADATA_TOPIC
from kafkalog.codec.parsing.published_spans import PublishedMessage
from kafkalog.codec.parsing.trace import FieldSpan, Reader, Traced, read_spans
from kafkalog.codec.plain.control import parse_control_key
from kafkalog.codec.plain.records import decode_batch

__all__ = ["read_contents"]

_FRAME = (
    ("frame_version", UnsignedVarint, "1"),
    ("type", UnsignedVarint, "number of the record's schema"),
    ("version", UnsignedVarint, "version of that schema"),
)
_KEY_TYPE = (("type", Int16sb, "which kind of record it is"),)
_VALUE_VERSION = (("version", Int16sb, "version of the value's schema"),)
Prefix = tuple[tuple[str, Construct, str], ...]


class _Typed(Traced):
    """Layout of one of Kafka's messages after the numbers that identify it."""

    def __init__(self, prefix: Prefix, decoded: Decoded) -> None:
        super().__init__()
        self.prefix = prefix
        self.message = PublishedMessage(decoded.message.construct(decoded.version))

    def read(self, reader: Reader) -> Container:
        """Read the numbers, then the message."""
        numbers = Container({name: reader.field(name, leaf, doc) for name, leaf, doc in self.prefix})
        return Container(numbers, **self.message.read(reader))


def read_contents(entry: FieldSpan, topic: str | None, batch: RecordBatch, limits: Limits) -> None:
    """Extend the spans of a batch (`entry`) in place. Add the absolute offset and time of each record to its deltas.
    For control batches and Kafka's own topics, add the fields inside keys and values. Records that cannot be decoded
    are left unchanged, and no exception is raised for them.
    """
    records = decode_batch(batch, limits=limits).records
    for span, record in zip(_record_spans(entry), records, strict=False):
        _resolve(span, record)
        for name, tree in _inside(record, topic, is_control=batch.header.is_control):
            _put_below(span, name, tree)


def _record_spans(entry: FieldSpan) -> list[FieldSpan]:
    unpacked = next((child for child in entry.children if child.is_unpacked), None)
    if unpacked is not None:
        return [child for child in unpacked.children if child.name.endswith("]")]
    records = [child for child in entry.children if child.name.startswith("records[")]
    return records or [entry]


def _resolve(span: FieldSpan, record: Record) -> None:
    for child in span.children:
        if child.name in ("offset_delta", "offset"):
            child.resolved = record.offset
        elif child.name in ("timestamp_delta", "timestamp"):
            child.resolved = record.timestamp


def _inside(record: Record, topic: str | None, *, is_control: bool) -> Iterator[tuple[str, Traced | Struct]]:
    if is_control:
        yield from _control(record)
    elif topic == CLUSTER_METADATA_TOPIC:
        decoded = decode_metadata(record.value).decoded
        if decoded is not None:
            yield "value", _Typed(_FRAME, decoded)
    elif topic in TOPICS:
        coordinator_record = decode_record(topic, record.key, record.value)
        if coordinator_record.key is not None:
            yield "key", _Typed(_KEY_TYPE, coordinator_record.key)
        if coordinator_record.value is not None:
            yield "value", _Typed(_VALUE_VERSION, coordinator_record.value)


def _control(record: Record) -> Iterator[tuple[str, Traced | Struct]]:
    yield "key", CONTROL_RECORD_KEY
    try:
        kind = parse_control_key(record.key).type
    except FormatError:
        return
    if kind in (ControlType.ABORT, ControlType.COMMIT):
        yield "value", END_TRANSACTION_MARKER
    elif kind in CONTROL_SCHEMAS and record.value is not None:
        layout, version = control_layout(ControlType(kind)), control_version(record.value)
        if version is not None and version in layout.versions:
            yield "value", PublishedMessage(layout.construct(version))


def _put_below(record: FieldSpan, name: str, tree: Traced | Struct) -> None:
    for child in record.children:
        if child.name == name and isinstance(child.value, bytes):
            start = child.end - len(child.value)
            length = FieldSpan("length", child.position, start, "length", len(child.value), "bytes that follow")
            length.data = child.data[: start - child.position]
            child.children = [length, *read_spans(tree, child.value, position=start).children]
