"""Find fields of a batch that contradict other fields or the batch before it, because a wrong checksum alone does not
show which field is damaged.

The conditions between fields are guaranteed by `DefaultRecordBatch`, `DefaultRecord` and `MemoryRecordsBuilder`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from construct import Container

from kafkalog.codec.common.finding_codes import SPECS
from kafkalog.codec.common.findings import Finding
from kafkalog.codec.compression.specs import is_known_codec
from kafkalog.codec.layout.attributes import ATTRIBUTES_V0, ATTRIBUTES_V1, ATTRIBUTES_V2
from kafkalog.codec.layout.bits import UNNAMED
from kafkalog.codec.model import (
    BATCH,
    MESSAGE_V0,
    MESSAGE_V1,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    AnyHeader,
    Codec,
    codec_label,
)
from kafkalog.codec.parsing.trace import UNREAD, FieldSpan, read_spans
from kafkalog.codec.parsing.whole import ENTRY
from kafkalog.codec.plain.crc32c import crc32c
from kafkalog.codec.plain.decoding import PLAIN
from kafkalog.codec.rules.batches import header_findings
from kafkalog.codec.rules.framing import BATCH_CRC_START, BATCH_MAGIC

__all__ = ["blame_suspects"]

Suspect = tuple[str, str]
"""name of a field of the header, and what is wrong with its value"""
Values = dict[str, Any]
_FEW = 10_000
_LAYOUTS = {
    0: (MESSAGE_V0, ATTRIBUTES_V0),
    1: (MESSAGE_V1, ATTRIBUTES_V1),
    BATCH_MAGIC: (BATCH, ATTRIBUTES_V2),
}
_FIELDS = {code: spec.header_field for code, spec in SPECS.items() if spec.header_field is not None}
"""Finding -> header field that it is about; for messages, `offset` instead of `base_offset`."""


def blame_suspects(
    entry: FieldSpan, data: bytes | memoryview, before: AnyHeader | None, findings: Iterable[Finding] = ()
) -> None:
    """Mark each header field of a batch or message that must be wrong: set `problem` and `code` of its span in `entry`.
    A field that already has a problem is not changed. But the problems of the checksum, the record count and unread
    bytes are cleared if `batch_length` explains them (`_length`).

    * `data`: the bytes of the entry
    * `before`: header of the entry before it; None if there is none
    * `findings`: findings about this entry from reading the whole log
    """
    values = {child.name: child.value for child in entry.children}
    suspects = [(_FIELDS[finding.code], finding.detail) for finding in findings if finding.code in _FIELDS]
    suspects += [("offset", message) for name, message in suspects if name == "base_offset"]
    if values.get("magic") in _LAYOUTS and len(data) >= _LAYOUTS[values["magic"]][0].size:
        header = PLAIN.batch_header(data, 0) if values["magic"] == BATCH_MAGIC else PLAIN.legacy_header(data, 0)
        suspects += [(_FIELDS[finding.code], finding.detail) for finding in header_findings(header, 0)]
    suspects += [*_order(values, before), *_length(entry, values, data), *_codec(entry, values, data)]
    if values.get("magic") == BATCH_MAGIC:
        suspects += [*_batch(values, entry)]
    for name, message in suspects:
        for child in entry.children:
            if child.name == name and child.problem is None:
                child.problem, child.code = message, "contradiction"


def _length(entry: FieldSpan, values: Values, data: bytes | memoryview) -> Iterator[Suspect]:
    """Yield the field `batch_length` with a sentence if it explains a wrong checksum: the checksum matches if the batch
    ends at the end of its records. The problems of the checksum, the record count and the unread bytes are then removed
    from `entry`. Otherwise nothing is yielded. `values` are the values by field name, `data` the bytes of the entry.
    """
    unread = next((child for child in entry.children if child.name == UNREAD), None)
    if unread is None or values.get("magic") != BATCH_MAGIC or not _is_wrong(entry, "crc"):
        return
    end = unread.position - entry.position
    if crc32c(memoryview(data)[BATCH_CRC_START:end]) == values["crc"]:
        yield "batch_length", f"the records and the checksum end {len(unread.data)} bytes earlier"
        for child in entry.children:
            if child.name in ("crc", "records_count", UNREAD):
                child.problem = None


def _is_wrong(entry: FieldSpan, name: str) -> bool:
    return any(child.name == name and child.problem is not None for child in entry.children)


def _codec(entry: FieldSpan, values: Values, data: bytes | memoryview) -> Iterator[Suspect]:
    """If the entry has problems, try all other compression types. Yield the field `attributes` with a sentence for each
    type with which the whole entry, apart from its checksum, can be read. Yields nothing if `crc` of `entry` is already
    marked as wrong.
    """
    attributes, magic = values.get("attributes"), values.get("magic")
    if not isinstance(attributes, Container) or magic not in _LAYOUTS or _is_wrong(entry, "crc"):
        return
    layout, bits = _LAYOUTS[magic]
    if next(entry.problems(), None) is None:
        return
    for codec in (codec for codec in Codec if is_known_codec(codec, magic)):
        changed = bytearray(data)
        layout.writer("attributes")(changed, 0, bits.number({**attributes, "codec": codec}))
        span = read_spans(ENTRY, bytes(changed), most=_FEW)
        if codec != attributes.codec and {problem.name for problem in span.problems()} <= {"crc"}:
            yield "attributes", f"the bytes make sense as compression {codec}, {codec_label(codec)}"


def _order(values: Values, before: AnyHeader | None) -> Iterator[Suspect]:
    if before is None:
        return
    name = "base_offset" if "base_offset" in values else "offset"
    offset = values.get(name)
    if isinstance(offset, int) and offset <= before.last_offset:
        yield name, f"the entry before ends at offset {before.last_offset}: {before.next_offset} or more is needed"
    epoch = values.get("partition_leader_epoch")
    if isinstance(epoch, int) and NO_PARTITION_LEADER_EPOCH != epoch < before.partition_leader_epoch:
        yield "partition_leader_epoch", f"the batch before has epoch {before.partition_leader_epoch}, and epochs grow"


def _batch(values: Values, entry: FieldSpan) -> Iterator[Suspect]:
    attributes = values.get("attributes")
    if isinstance(attributes, Container):
        if UNNAMED in attributes:
            yield "attributes", "bits are set that mean nothing in any version of Kafka"
        if attributes.is_transactional and values.get("producer_id") == NO_PRODUCER_ID:
            yield "attributes", "a transactional batch has a producer, and this one has none"
    if values.get("producer_id") == NO_PRODUCER_ID and values.get("producer_epoch") != NO_PRODUCER_EPOCH:
        yield "producer_epoch", f"there is no producer, so {NO_PRODUCER_EPOCH} is needed"
    yield from _records(values, _records_of(entry))


def _records_of(entry: FieldSpan) -> list[Container]:
    unpacked = next((child for child in entry.children if child.is_unpacked), entry)
    return [
        child.value
        for child in unpacked.children
        if child.name.startswith("records[") and isinstance(child.value, Container) and "headers" in child.value
    ]


def _records(values: Values, records: list[Container]) -> Iterator[Suspect]:
    if not records or len(records) != values.get("records_count"):
        return
    last = max(record.offset_delta for record in records)
    delta = values.get("last_offset_delta")
    if isinstance(delta, int) and delta < last:
        yield "last_offset_delta", f"the records reach to {last}"
    attributes = values.get("attributes")
    if not isinstance(attributes, Container) or attributes.timestamp_type or attributes.has_delete_horizon:
        return
    newest = max(record.timestamp_delta for record in records) + int(values["base_timestamp"])
    if isinstance(delta, int) and len(records) == delta + 1 and newest != values.get("max_timestamp"):
        name = "max_timestamp" if records[0].timestamp_delta == 0 else "base_timestamp"
        yield name, f"the largest time of the records would be {newest}"
