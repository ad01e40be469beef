"""Decoding of Avro with fastavro, with logical types of our own that return JSON values."""

from __future__ import annotations

import math
import threading
from binascii import b2a_base64
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from typing import Any
from uuid import UUID

from fastavro import _read_py, parse_schema
from fastavro.read import LOGICAL_READERS, schemaless_reader
from fastavro.schema import SchemaParseException, UnknownType

from kafkalog.values.avro_schema import PREFIX, prepare
from kafkalog.values.payloads import LARGEST_PAYLOAD, UndecodableError, check_levels

__all__ = ["AvroDecoder", "exact_decimal", "int32"]

MOST_UNCOUNTED = 1_000_000
"""largest number of values in a payload that take no bytes, or hardly any"""
_SAFE_DEPTH = 1000
"""levels of nesting for which fastavro's compiled code certainly has enough stack; each level takes at least one byte
"""
_LONGEST_VARINT = 10
_LARGEST_DECIMAL = 1024
_DAY_MS, _DAY_US = 86_400_000, 86_400_000_000
_EPOCH, _EPOCH_DAY = datetime(1970, 1, 1, tzinfo=UTC), date(1970, 1, 1).toordinal()
_NAMED = "__named_schemas"
"""key under which fastavro stores the named types of a parsed schema"""
_left = threading.local()

Reader = Callable[[Any, Any, Any], Any]


def _counted(value: Any, schema: Mapping[str, Any], reader: Any = None) -> Any:
    _left.values -= schema.get("kafkalogValues", 1)
    if _left.values < 0:
        raise UndecodableError("it has too many values for its bytes")
    return value


def _bytes(value: bytes, schema: Mapping[str, Any], reader: Any = None) -> str:
    if not value:
        _counted(value, schema)
    return b2a_base64(value, newline=False).decode("ascii")


def _boolean(value: bytes, schema: Any, reader: Any = None) -> bool:
    return value == b"\x01"


def _number(value: float, schema: Any, reader: Any = None) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def int32(value: int, schema: Any = None, reader: Any = None) -> int:
    """Return a decoded Avro int. fastavro reads it as a long; raises `UndecodableError` for more than 32 bits."""
    if not -(2**31) <= value < 2**31:
        raise UndecodableError("an int has more than 32 bits")
    return value


def _enum(value: int, schema: Mapping[str, Any], reader: Any = None) -> str:
    if not 0 <= value < len(schema["kafkalogSymbols"]):
        raise UndecodableError("an enum has a number that no symbol has")
    symbol: str = schema["kafkalogSymbols"][value]
    return symbol


def _decimal(value: bytes, schema: Mapping[str, Any], reader: Any = None) -> str:
    if len(value) > _LARGEST_DECIMAL:
        raise UndecodableError("a decimal is too long")
    scale = schema["kafkalogScale"]
    unscaled = int.from_bytes(value, "big", signed=True)
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    text = f"{digits[: len(digits) - scale]}.{digits[len(digits) - scale :]}" if scale else digits
    return f"-{text}" if unscaled < 0 else text


def _exact(value: bytes, schema: Mapping[str, Any], reader: Any = None) -> Decimal:
    return Decimal(_decimal(value, schema))


def exact_decimal(value: bytes, scale: int) -> Decimal:
    """Convert big-endian two's complement bytes and a scale to a decimal. Raises `UndecodableError` for too
    many bytes.
    """
    return Decimal(_decimal(value, {"kafkalogScale": scale}))


def _uuid(value: bytes, schema: Any, reader: Any = None) -> str:
    return str(UUID(bytes=value))


def _date(value: int, schema: Any, reader: Any = None) -> str | int:
    try:
        return date.fromordinal(int32(value) + _EPOCH_DAY).isoformat()
    except (ValueError, OverflowError):
        return value  # no calendar reaches there


def _time_of(day: int, digits: int) -> Reader:
    second = 10**digits

    def text(value: int, schema: Any, reader: Any = None) -> str | int:
        if not 0 <= value < day:
            return int32(value) if day == _DAY_MS else value  # milliseconds are an int, microseconds a long
        minutes, seconds = divmod(value // second, 60)
        return f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}.{value % second:0{digits}}"

    return text


def _timestamp_of(digits: int, zone: str) -> Reader:
    second = 10**digits

    def text(value: int, schema: Any, reader: Any = None) -> str | int:
        try:
            moment = _EPOCH + timedelta(seconds=value // second)
        except OverflowError:
            return value
        return f"{moment.strftime('%Y').rjust(4, '0')}{moment:-%m-%dT%H:%M:%S}.{value % second:0{digits}}{zone}"

    return text


_READERS: dict[str, Reader] = {
    "null-counted": _counted, "record-counted": _counted, "bytes-bytes": _bytes, "fixed-bytes": _bytes,
    "float-number": _number, "double-number": _number, "int-int": int32, "int-enum": _enum, "bytes-decimal": _decimal,
    "fixed-decimal": _decimal, "fixed-uuid": _uuid, "fixed-boolean": _boolean,
    "bytes-exact": _exact, "fixed-exact": _exact, "fixed-counted": _counted, "int-date": _date,
    "int-time-millis": _time_of(_DAY_MS, 3), "long-time-micros": _time_of(_DAY_US, 6),
    **{
        f"long-{local}timestamp-{unit}": _timestamp_of(digits, "" if local else "Z")
        for local in ("", "local-")
        for unit, digits in (("millis", 3), ("micros", 6), ("nanos", 9))
    },
}  # fmt: skip
for _name, _reader in _READERS.items():
    _kind, _, _logical = _name.partition("-")
    LOGICAL_READERS[f"{_kind}-{PREFIX}{_logical}"] = _reader


class _Bounded(BytesIO):
    """A stream that limits the length of variable-length numbers; fastavro's Python code would read a number that does
    not end.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._run = 0

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next `size` bytes, or all that are left if it is None or negative; fewer at the end. Raises
        `UndecodableError` after too many consecutive bytes of a number that does not end.
        """
        data = super().read(size)
        self._run = self._run + 1 if size == 1 and data >= b"\x80" else 0
        if self._run > _LONGEST_VARINT:
            raise UndecodableError("a number has no end")
        return data


class _Branches(list[Any]):
    """Branches of a union that cannot be selected by a negative number.

    fastavro uses a branch number as a list index, and a negative index counts from the end, so a damaged value would be
    decoded as another branch. Its compiled code adds the length to a negative number first; therefore the length is 0
    here.
    """

    def __getitem__(self, number: Any) -> Any:
        if number < 0:
            raise UndecodableError("a union has a number that no branch has")
        return super().__getitem__(number)

    def __len__(self) -> int:
        return 0


def _guarded(schema: Any) -> Any:
    """Return a copy of a parsed schema in which each union (a list) is a `_Branches`, at any depth. A name is returned
    unchanged.
    """
    if isinstance(schema, list):
        return _Branches(map(_guarded, schema))
    if not isinstance(schema, dict):
        return schema
    guarded = {**schema}
    for name in ("type", "items", "values"):
        if name in guarded:
            guarded[name] = _guarded(guarded[name])
    if "fields" in guarded:
        guarded["fields"] = [{**each, "type": _guarded(each["type"])} for each in guarded["fields"]]
    if _NAMED in guarded:
        guarded[_NAMED] = {name: _guarded(each) for name, each in guarded[_NAMED].items()}
    return guarded


class AvroDecoder:
    """Decoder of payloads of one Avro schema."""

    def __init__(
        self, schema: Any, references: Mapping[str, tuple[Any, str]], *, typed: bool = False, raw: bool = False
    ) -> None:
        """Prepare a decoder. `schema` is parsed JSON; `references` maps full names to definitions and their namespaces.
        With `typed`, values are decoded to values that Arrow accepts; with `raw` too, but logical types are not applied
        (see `prepare`).

        Raises `UndecodableError` if values cannot be decoded by the schema; it is not checked completely.
        """
        made, self._is_recursive = prepare(schema, references, typed=typed, raw=raw)
        try:
            self._schema = _guarded(parse_schema(made))
        except (SchemaParseException, UnknownType, ValueError, KeyError, TypeError, RecursionError):
            raise UndecodableError("its Avro schema is not one") from None

    def decode(self, payload: bytes, path: bytes = b"") -> object:
        """Decode a payload to a JSON value, or with `typed` or `raw` to a value for Arrow. `path` is ignored.

        Raises `UndecodableError` if the payload is too large, is nested too deeply, or has too many values for its
        bytes. Raises it also if the payload does not fit the schema, or has more bytes than the schema describes.
        """
        if len(payload) > LARGEST_PAYLOAD:
            raise UndecodableError(f"it is larger than {LARGEST_PAYLOAD} bytes")
        _left.values = MOST_UNCOUNTED
        deep = self._is_recursive and len(payload) > _SAFE_DEPTH
        stream = _Bounded(payload) if deep else BytesIO(payload)
        read = _read_py.schemaless_reader if deep else schemaless_reader
        try:
            value: object = read(stream, self._schema, None)
        except UndecodableError:
            raise
        except RecursionError:
            raise UndecodableError("it is nested too deep") from None
        except Exception:  # noqa: BLE001  what fastavro raises for bytes that do not fit is of many kinds
            raise UndecodableError("its bytes do not fit its Avro schema") from None
        if stream.tell() != len(payload):
            raise UndecodableError("there are more bytes than its Avro schema has a meaning for")
        if self._is_recursive:
            check_levels(value)
        return value
