"""Decoding and encoding of one message of known layout and version, and conversion to Kafka's JSON.

The JSON has the form of Kafka's generated `…JsonConverter` classes, which its tools print: camel case, bytes as base64,
tagged fields only if they differ from their default.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from construct import ConstructError
from msgspec import Struct

from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.layout.primitives import LayoutError
from kafkalog.codec.messages.field import Field
from kafkalog.codec.messages.leaves import ELEMENTS, Input
from kafkalog.codec.messages.message import UNKNOWN_TAGS, Message

__all__ = ["Decoded", "camel", "choose", "decode", "encode", "json_of", "read"]

MAX_MESSAGE_BYTES = 1 << 27


class Decoded(Struct, frozen=True):
    """A decoded message: its layout, its fields by name, and its size in bytes."""

    message: Message
    version: int
    fields: dict[str, Any]
    size: int


def decode(message: Message, version: int, data: bytes, *, position: int = 0) -> Decoded:
    """Decode one message that begins at `position`; bytes after it are ignored. The result's `size` is the number of
    bytes read.

    Raises `FormatError` for invalid bytes or data above the size limit, `ValueError` if the message has no such
    version.
    """
    if len(data) > MAX_MESSAGE_BYTES:
        raise FormatError(f"a message of {len(data)} bytes", code="limit_exceeded")
    stream = Input(data)
    stream.seek(position)
    fields = read(message, version, stream)
    return Decoded(message, version, fields, stream.tell() - position)


def read(message: Message, version: int, stream: Input) -> dict[str, Any]:
    """Read one message from the position of `stream`; afterwards `stream` is at the end of the message. Return the
    fields of this version by their declared names, and undeclared tags under `UNKNOWN_TAGS`, if there are any.

    Resets `stream.elements_left`, the limit of array elements. Raises `FormatError` for invalid bytes or an exceeded
    limit, with position and field name if they are known. Raises `ValueError` if the message has no such version.
    """
    stream.elements_left = ELEMENTS
    try:
        fields: dict[str, Any] = message.construct(version).parse_stream(stream)
    except LayoutError as error:
        text = str(error).splitlines()[-1]
        path = error.path.removeprefix("(parsing)").lstrip(" ->.") if error.path else None
        raise FormatError(
            f"{message.name} version {version}: {text}", position=error.position, field=path, code=error.code
        ) from None
    except ConstructError as error:  # no leaf of ours; kept so that nothing else can escape
        raise FormatError(f"{message.name} version {version}: {error}", code="typed_record_invalid") from None
    return fields


def encode(message: Message, version: int, fields: Mapping[str, Any]) -> bytes:
    """Encode one message; missing fields get their defaults. Raises `FormatError` if a value does not fit its field,
    `ValueError` if the message has no such version.
    """
    stream, layout = Input(), message.construct(version)
    try:
        layout.build_stream(fields, stream)
    except (LayoutError, ConstructError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise FormatError(f"{message.name} version {version}: {str(error).splitlines()[-1]}") from None
    return stream.getvalue()


def choose(messages: Sequence[Message], version: int, data: bytes, *, position: int = 0) -> tuple[Decoded, bool]:
    """Decode data with each layout in `messages` that has this version; return the best decoding, and whether the
    choice is ambiguous. The best one is the first that consumes all bytes, or else the first that succeeds. The choice
    is ambiguous if two or more layouts consume all bytes.

    `messages` are the layouts of one type, newest first. Raises `FormatError` if none has the version. If none
    succeeds, raises the `FormatError` of the newest layout with this version.
    """
    whole: list[Decoded] = []
    partly: list[Decoded] = []
    problem: FormatError | None = None
    for message in messages:
        if version not in message.versions:
            continue
        try:
            decoded = decode(message, version, data, position=position)
        except FormatError as error:
            problem = problem or error
            continue
        (whole if position + decoded.size == len(data) else partly).append(decoded)
    if whole or partly:
        return (whole or partly)[0], len(whole) > 1
    raise problem or FormatError(f"{messages[0].name} has no version {version}", code="record_version_unknown")


def camel(name: str) -> str:
    """`leader_epoch` -> `leaderEpoch`."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


Hook = Callable[[Field, Any], Any]
"""Replaces a value for display: takes its field and the value, returns the value or a replacement."""


def json_of(decoded: Decoded, hook: Hook | None = None) -> dict[str, Any]:
    """Convert a message to JSON as Kafka's tools print it. `hook` may replace a field's value."""
    return _json(decoded.message.fields, decoded.version, decoded.fields, hook)


def _json(fields: Iterable[Field], version: int, values: Mapping[str, Any], hook: Hook | None) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for field in fields:
        if field.name not in values:
            continue
        value = values[field.name]
        if version in field.tagged and value == field.default(version):
            continue
        if hook is not None:
            replaced = hook(field, value)
            if replaced is not value:
                result[camel(field.name)] = replaced
                continue
        result[camel(field.name)] = _value(field, version, value, hook)
    if values.get(UNKNOWN_TAGS):
        result["unknownTags"] = {str(tag): _base64(data) for tag, data in values[UNKNOWN_TAGS]}
    return result


def _value(field: Field, version: int, value: Any, hook: Hook | None) -> Any:
    if value is None:
        return None
    if field.array:
        return [_one(field, version, each, hook) for each in value]
    return _one(field, version, value, hook)


def _one(field: Field, version: int, value: Any, hook: Hook | None) -> Any:
    if field.type == "struct":
        return _json(field.fields, version, value, hook)
    return _base64(value) if isinstance(value, bytes) else value


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
