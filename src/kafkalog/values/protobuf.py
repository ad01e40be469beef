"""Decoding of Protobuf with its own library; descriptors are compiled from schemas at run time."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    field_mask_pb2,
    json_format,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from kafkalog.values.payloads import LARGEST_PAYLOAD, UndecodableError, check_levels
from kafkalog.values.protobuf_versions import check_later
from kafkalog.values.protoc import MAIN, compiled

__all__ = ["ProtobufDecoder"]

MOST_VALUES = 2_000_000
"""of one payload: a message of two bytes has all fields of its type at their defaults"""
_MOST_INDEXES = 64
_LONGEST_VARINT = 10
_LONGEST_PATH = (_MOST_INDEXES + 1) * _LONGEST_VARINT
_WELL_KNOWN = "google.protobuf."
_WRAPPERS = {f"{_WELL_KNOWN}{kind}Value" for kind in (
    "Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")}  # fmt: skip
_VALUE = f"{_WELL_KNOWN}Value"
_SPECIAL = {f"{_WELL_KNOWN}{name}" for name in ("Timestamp", "Duration", "FieldMask", "Struct", "Value", "ListValue")}

_GOOGLES = {
    f"{_WELL_KNOWN}{name}": descriptor
    for module in (duration_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)
    for name, descriptor in module.DESCRIPTOR.message_types_by_name.items()
}
_NOT_UTF8 = "its bytes do not fit its Protobuf schema"
_RESERVED = {
    "ByteSize", "DESCRIPTOR", "DiscardUnknownFields", "HasField", "IsInitialized", "ListFields", "ParseFromString",
}  # fmt: skip
"""attributes of Python's messages that are used here, which a field of that name hides"""

_dumps = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def _varints(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the zigzag varints from the start of the bytes on, each as (value, position after it).

    The iterator does not end: it raises `UndecodableError` at the end of the bytes, and for a varint that is too long.
    """
    position = 0
    while True:
        value = shift = 0
        for shift in range(0, 7 * _LONGEST_VARINT, 7):
            if position >= len(data):
                raise UndecodableError("it ends within the path to its message")
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        else:
            raise UndecodableError("a number in the path to its message has no end")
        yield (value >> 1) ^ -(value & 1), position


def _path(data: bytes) -> tuple[tuple[int, ...], int]:
    """Decode Confluent's message indexes at the start of a payload, which are the path to the message type in its
    schema. Return the indexes, and the number of bytes that they take. The number of indexes comes first; if it is 0,
    this means the first message, (0,).

    Raises `UndecodableError` if they are incomplete, or if their number is negative or above 64.
    """
    numbers = _varints(data)
    count, position = next(numbers)
    if not count:
        return (0,), position
    if not 0 < count <= _MOST_INDEXES:
        raise UndecodableError("the path to its message is impossible")
    indexes = []
    for _ in range(count):
        index, position = next(numbers)
        indexes.append(index)
    return tuple(indexes), position


class ProtobufDecoder:
    """Decoder of payloads of one Protobuf schema, with any of its message types."""

    def __init__(self, text: str, imports: Mapping[str, str]) -> None:
        """Compile a schema. `text` is its source; `imports` maps the file names that it imports to their sources.
        Raises `UndecodableError` if it does not compile, or has names that Python's Protobuf cannot read, `UsageError`
        if the compiler is not installed.

        Extensions are not compiled: they are not fields of a message, so a value with an extension has unknown fields.
        """
        files = descriptor_pb2.FileDescriptorSet.FromString(compiled({**imports, MAIN: text}))
        self._pool = descriptor_pool.DescriptorPool()
        try:
            for file in files.file:
                del file.extension[:]
                for message in file.message_type:
                    _prepare(message, f"{file.package}.{message.name}")
                self._pool.AddSerializedFile(file.SerializeToString())
        except TypeError:
            raise UndecodableError("its Protobuf schema does not compile") from None
        self._file = next(file for file in files.file if file.name == MAIN)
        self._classes: dict[tuple[int, ...], Any] = {}
        self._fits: dict[tuple[Any, Any], set[tuple[str, str]]] = {}
        self._shapes: dict[Any, list[tuple[Any, bool, Callable[[Any], object] | None]]] = {}
        self._left = 0
        self._values_as_text = False

    def decode(
        self, payload: bytes, path: bytes = b"", *, read_as: Any = None, values_as_text: bool = False
    ) -> object:
        """Decode a payload to a JSON value. `path` has Confluent's message indexes if a header contains them; if it is
        empty, the payload begins with them. `read_as` is the class of a later version of the message; the value then
        has the fields of that version.

        With `values_as_text` a google.protobuf.Value becomes JSON text. Then its null differs from a missing value, and
        a number in it from a text of digits. Raises `UndecodableError` if the payload is too large, is nested too
        deeply or has unknown fields. Raises it also if the indexes name no message, or if the payload does not fit the
        schema or the later version.
        """
        if len(payload) > LARGEST_PAYLOAD:
            raise UndecodableError(f"it is larger than {LARGEST_PAYLOAD} bytes")
        if path:
            indexes, _ = _path(path)
        else:
            indexes, begin = _path(payload)
            payload = payload[begin:]
        message = self._class(indexes)()
        _parse(message, payload, "its Protobuf schema")
        size = message.ByteSize()
        message.DiscardUnknownFields()
        if message.ByteSize() != size:
            raise UndecodableError("it has fields that its Protobuf message does not declare")
        self._values_as_text = values_as_text
        value = self._json(message)
        return value if read_as is None else self._json(self._as_later(payload, message, read_as))

    def _json(self, message: Any) -> object:
        self._left = MOST_VALUES
        try:
            value = self._object(message)
        except UnicodeDecodeError:  # a key of a map
            raise UndecodableError(_NOT_UTF8) from None
        check_levels(value)
        return value

    def _as_later(self, payload: bytes, message: Any, later: Any) -> Any:
        """Parse `payload`, the bytes of `message`, as a message of the class `later`, by field numbers; fields that
        this class lacks are dropped.

        Raises `UndecodableError` if the types of fields are not compatible or a required field is missing. Raises it
        also if the bytes or a value of a field do not fit. Pairs of classes that are compatible are cached.
        """
        if (message.DESCRIPTOR, later.DESCRIPTOR) not in self._fits:
            self._fits[message.DESCRIPTOR, later.DESCRIPTOR] = check_later(message.DESCRIPTOR, later.DESCRIPTOR)
        later_message = later()
        _parse(later_message, payload, "the schema of the result")
        _check_kept(message, later_message)
        return later_message

    def renamed(self, payload: bytes, path: bytes, later: Any, names: frozenset[str]) -> frozenset[str]:
        """Return the names that fields have in the class `later`, for fields of the payload's message with one of
        `names` whose name in `later` differs. The payload must have been decoded with `read_as=later` before.
        """
        fits = self._fits[self.message_of(path or payload[:_LONGEST_PATH]).DESCRIPTOR, later.DESCRIPTOR]
        return frozenset(read for written, read in fits if written in names)

    def message_of(self, path: bytes) -> Any:
        """Return the class of the message at a path, or of the first message if the path is empty. Raises
        `UndecodableError` if the path is invalid.
        """
        return self._class(_path(path)[0] if path else (0,))

    def name_in(self, payload: bytes, path: bytes) -> str:
        """Return the full name of a payload's message. Raises `UndecodableError` if its path is invalid."""
        name: str = self.message_of(path or payload[:_LONGEST_PATH] or b"\x80").DESCRIPTOR.full_name
        return name

    def _class(self, indexes: tuple[int, ...]) -> Any:
        message_class = self._classes.get(indexes)
        if message_class is None:
            within, names = self._file.message_type, [self._file.package] if self._file.package else []
            for index in indexes:
                own = [each for each in within if not each.options.map_entry]
                if not 0 <= index < len(own):
                    raise UndecodableError("the path to its message leads to none")
                names.append(own[index].name)
                within = own[index].nested_type
            descriptor = self._pool.FindMessageTypeByName(".".join(names))
            message_class = self._classes[indexes] = message_factory.GetMessageClass(descriptor)
        return message_class

    def _object(self, message: Any) -> object:
        kind = message.DESCRIPTOR
        if kind.full_name in _WRAPPERS:
            return self._scalar(kind.fields_by_name["value"])(message.value)
        if kind.full_name in _SPECIAL:
            try:
                special: object = json_format.MessageToDict(message)
                return _dumps(special) if self._values_as_text and kind.full_name == _VALUE else special
            except (ValueError, TypeError, RecursionError, json_format.Error):
                raise UndecodableError("a value of a type of Google's is out of its range") from None
        fields: dict[str, object] = {}
        for field, has_presence, scalar in self._shape(kind):
            self._left -= 1
            if has_presence:
                if message.HasField(field.name):
                    value = getattr(message, field.name)
                    fields[field.name] = self._object(value) if scalar is None else scalar(value)
                continue
            value = getattr(message, field.name)
            if not field.is_repeated:
                fields[field.name] = scalar(value) if scalar is not None else self._object(value)
            elif field.message_type is not None and field.message_type.GetOptions().map_entry:
                fields[field.name] = self._map(field.message_type.fields_by_name["value"], value)
            else:
                self._left -= len(value)
                fields[field.name] = [self._object(each) if scalar is None else scalar(each) for each in value]
            if self._left < 0:
                raise UndecodableError("it has too many values")
        return fields

    def _map(self, of: Any, value: Any) -> dict[str, object]:
        self._left -= len(value)
        scalar = None if of.message_type is not None else self._scalar(of)
        return {
            str(key).lower() if isinstance(key, bool) else str(key): self._object(value[key])
            if scalar is None
            else scalar(value[key])
            for key in value
        }

    def _shape(self, kind: Any) -> list[tuple[Any, bool, Callable[[Any], object] | None]]:
        shape = self._shapes.get(kind)
        if shape is None:
            shape = self._shapes[kind] = [
                (field, field.has_presence, None if field.message_type is not None else self._scalar(field))
                for field in kind.fields
            ]
        return shape

    @staticmethod
    def _scalar(field: Any) -> Callable[[Any], object]:
        if field.enum_type is not None:
            names: dict[int, str] = {}
            for each in field.enum_type.values:
                names.setdefault(each.number, each.name)  # with `allow_alias` the first name of a number counts
            return lambda number: names.get(number, number)
        if field.type == FieldDescriptor.TYPE_BYTES:
            return lambda data: b64encode(data).decode("ascii")
        if field.type in (FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE):
            return _number
        return _text if field.type == FieldDescriptor.TYPE_STRING else lambda value: value


def _prepare(message: Any, name: str) -> None:
    """Remove the extensions from the declaration of a message and of its nested messages, in place. `name` is its full
    name.

    Raises `UndecodableError` for field names that hide attributes of Python's messages. Raises it also for a message
    that has the name of one of Google's types but other fields.
    """
    del message.extension[:]
    if any(field.name in _RESERVED for field in message.field):
        raise UndecodableError("its Protobuf schema has a field with a name that Python's Protobuf uses itself")
    if name in _GOOGLES and _fields(message) != _fields(_declared(_GOOGLES[name])):
        raise UndecodableError("its Protobuf schema declares a type of Google's with other fields")
    for nested in message.nested_type:
        _prepare(nested, f"{name}.{nested.name}")


def _declared(descriptor: Any) -> Any:
    declaration = descriptor_pb2.DescriptorProto()
    descriptor.CopyToProto(declaration)
    return declaration


def _fields(message: Any) -> set[tuple[object, ...]]:
    return {(each.name, each.number, each.label, each.type, each.type_name) for each in message.field}


def _parse(message: Any, payload: bytes, schema: str) -> None:
    """Parse the payload into an empty message, in place. Raises `UndecodableError` if it does not fit, or if a required
    field is missing; `schema` names the schema in the error.
    """
    try:
        message.ParseFromString(payload)
    except (DecodeError, RecursionError, UnicodeDecodeError):
        raise UndecodableError(f"its bytes do not fit {schema}") from None
    if not message.IsInitialized():
        raise UndecodableError(f"it lacks a field that {schema} requires")


def _check_kept(written: Any, read: Any) -> None:
    """Compare a message as it was written with the same bytes read as a later version, at any depth. Raises
    `UndecodableError` if `read` declares a field of `written` but lacks its value, elements or entries. The reasons are
    that a closed enum does not know the value, or that another field of a oneof was set later. A field without presence
    counts as kept.
    """
    for field, value in written.ListFields():
        later = read.DESCRIPTOR.fields_by_number.get(field.number)
        if later is None:
            continue
        found = getattr(read, later.name)
        if not later.is_repeated:
            is_kept = not later.has_presence or read.HasField(later.name)
            inner = [(value, found)]
        elif field.message_type is not None and field.message_type.GetOptions().map_entry:
            is_kept = len(value) == len(found)
            inner = [(value[key], found[key]) for key in value] if is_kept else []
        else:
            values = value if field.is_repeated else [value]
            is_kept, inner = len(values) <= len(found), list(zip(values, found, strict=False))
        if not is_kept:
            raise UndecodableError(f"field {later.number} ({later.name}) does not take what it was written with")
        for one, other in inner:
            if isinstance(one, Message):
                _check_kept(one, other)


def _text(value: str | bytes) -> str:
    """Return the text of a string field. Raises `UndecodableError` for bytes, which the library returns for text of
    proto2 that is not UTF-8.
    """
    if isinstance(value, bytes):
        raise UndecodableError(_NOT_UTF8)
    return value


def _number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
