"""Detection of the form of a key or value: framed with the id of a schema, JSON, or text.

Confluent's wire format is a zero byte and four bytes of id before the payload. Newer serializers put the id, or the
GUID of a schema, into a header instead (`SchemaId`). For Protobuf, the path to the message follows in the same place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol

from msgspec import Struct

from kafkalog.codec.model import Header

__all__ = ["FRAME", "HEADERS", "Framed", "PayloadDecoder", "UndecodableError", "check_levels", "framed", "plain_text"]

HEADERS = {"key": "__key_schema_id", "value": "__value_schema_id"}
LARGEST_PAYLOAD = 16 * 1024 * 1024
"""bytes; a decoded value takes up to a hundred times as much memory"""
MOST_LEVELS = 200
"""of what lies within each other in a decoded value"""
FRAME = 5
"""bytes before a payload: a zero and an id"""
_IN_PAYLOAD, _IN_HEADER = 0, 1
_GUID = 17
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


class UndecodableError(Exception):
    """Reason why bytes cannot be decoded; the message never contains a part of the bytes."""


class PayloadDecoder(Protocol):
    """Decoder of the payloads of one schema."""

    def decode(self, payload: bytes, path: bytes = b"") -> object:
        """Decode a payload to a JSON value; `path` has the path to the message if a header contains it. Raises
        `UndecodableError` if the payload does not fit the schema.
        """


class Framed(Struct, frozen=True, kw_only=True):
    """A payload, and the id or GUID of its schema."""

    payload: bytes
    id: int | None = None
    guid: bytes | None = None
    path: bytes = b""


def framed(data: bytes, headers: Iterable[Header], part: str) -> Framed | None:
    """Return the frame of a key or value (`part`): its payload, and the id or GUID of its schema. None if it has none.

    The first header that names the schema is used; without one, Confluent's wire format (byte 0, id of 4 bytes). Raises
    `UndecodableError` if the header is invalid. Without a header, raises it if the data begins with byte 0 but is
    shorter than a frame.
    """
    name = HEADERS[part]
    for header in headers:
        if header.key == name and header.value is not None:
            value = header.value
            if len(value) >= _GUID and value[0] == _IN_HEADER:
                return Framed(payload=data, guid=value[1:_GUID], path=value[_GUID:])
            if len(value) >= FRAME and value[0] == _IN_PAYLOAD:
                return Framed(payload=data, id=int.from_bytes(value[1:FRAME], "big"), path=value[FRAME:])
            raise UndecodableError(f"the header {name} is not the id of a schema")
    if not data or data[0] != _IN_PAYLOAD:
        return None
    if len(data) < FRAME:
        raise UndecodableError("it begins as with the id of a schema, and is too short for one")
    return Framed(payload=data[FRAME:], id=int.from_bytes(data[1:FRAME], "big"))


def plain_text(data: bytes) -> str:
    """Decode bytes from UTF-8 to text. Raises `UndecodableError` if they are not UTF-8 or have control characters other
    than tab, line feed and carriage return.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise UndecodableError("no schema, no JSON and no text: not UTF-8") from None
    if _CONTROLS.search(text):
        raise UndecodableError("no schema, no JSON and no text: it has control characters")
    return text


def check_levels(value: object) -> None:
    """Raise `UndecodableError` if dicts and lists are nested more than `MOST_LEVELS` levels deep, because other
    programs cannot read such JSON.
    """
    level: list[object] = [value]
    for _ in range(MOST_LEVELS):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise UndecodableError(f"it is nested more than {MOST_LEVELS} levels deep")
