"""Annotate the bytes around a finding with the field names of the layout's declaration."""

from __future__ import annotations

import struct

from msgspec import Struct

from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.common.findings import Finding
from kafkalog.codec.derive import FixedLayout
from kafkalog.codec.files.index_files import ABORTED_TRANSACTION, OFFSET_ENTRY, TIME_ENTRY
from kafkalog.codec.model import BATCH, MESSAGE_V0, MESSAGE_V1
from kafkalog.codec.names import FileKind
from kafkalog.codec.rules.framing import MAGIC_POSITION
from kafkalog.log.disk.files import FileSource

__all__ = ["AnnotatedBytes", "FieldBytes", "bytes_around"]

_BEFORE = 16
_AFTER = 32

_INDEXES = {
    FileKind.OFFSET_INDEX.value: OFFSET_ENTRY,
    FileKind.TIME_INDEX.value: TIME_ENTRY,
    FileKind.TRANSACTION_INDEX.value: ABORTED_TRANSACTION,
}


class FieldBytes(Struct, frozen=True):
    """One field of a layout: its position in the file, its bytes, value and meaning."""

    position: int
    data: bytes
    name: str
    value: int | None
    """None if the file ends inside it"""
    meaning: str


class AnnotatedBytes(Struct, frozen=True, kw_only=True):
    """Bytes at a position of a file; `layout` describes the structure that is assumed there."""

    layout: str
    before: bytes
    fields: tuple[FieldBytes, ...]
    after: bytes
    after_position: int


def bytes_around(finding: Finding) -> AnnotatedBytes | None:
    """Return the bytes around a finding in its file, with the fields of the entry at its position. None if the finding
    has no file or position, or if the file cannot be read or ends at or before the position.
    """
    path, position = finding.file, finding.position
    if path is None or position is None:
        return None
    begin = max(position - _BEFORE, 0)
    largest = max(BATCH.size, MESSAGE_V1.size, *(fixed_layout.size for fixed_layout in _INDEXES.values()))
    try:
        with FileSource(path) as source:
            data = source.read(begin, position - begin + largest + _AFTER)
    except StorageError:
        return None
    before, here = data[: position - begin], data[position - begin :]
    if not here:
        return None
    name, layout = _layout(path, here)
    fields = tuple(_fields(layout, here, position))
    end = min(layout.size, len(here))
    return AnnotatedBytes(
        layout=name, before=before, fields=fields, after=here[end : end + _AFTER], after_position=position + end
    )


def _layout(path: str, here: bytes) -> tuple[str, FixedLayout]:
    for suffix, layout in _INDEXES.items():
        if path.endswith(suffix):
            return f"an entry of a {suffix} file", layout
    magic = here[MAGIC_POSITION] if len(here) > MAGIC_POSITION else None
    if magic == 0:
        return "a message of format v0", MESSAGE_V0
    if magic == 1:
        return "a message of format v1", MESSAGE_V1
    return "a batch of format v2", BATCH


def _fields(layout: FixedLayout, here: bytes, position: int) -> list[FieldBytes]:
    explained_fields = []
    for field in layout.fields:
        data = here[field.position : field.position + field.size]
        if not data:
            break
        value = struct.unpack(">" + field.format, data)[0] if len(data) == field.size else None
        explained_fields.append(FieldBytes(position + field.position, data, field.name, value, field.doc))
    return explained_fields
