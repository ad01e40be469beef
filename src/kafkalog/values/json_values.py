"""Parsing of JSON, with a JSON Schema or without any schema, and writing of values as text with all digits of their
numbers.

A value is not checked against its JSON Schema.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from kafkalog.values.payloads import LARGEST_PAYLOAD, MOST_LEVELS, UndecodableError, check_levels

__all__ = ["JsonDecoder", "exact_json", "json_or_none", "parsed_json"]

_BEGINNINGS = (b"{", b"[")
_CONTEXT = Context(traps=[InvalidOperation])
"""The caller's own context may turn what no decimal has into NaN."""


def _number(text: str) -> float | Decimal:
    """Convert the text of a JSON number with a fraction or an exponent to a float. If the float's shortest text is
    another number, return a `Decimal` instead. Raises `ValueError` if the exponent is too large or too small for a
    `Decimal`.
    """
    number = float(text)
    shortest = repr(number)
    if shortest == text:
        return number
    try:
        exact = Decimal(text, _CONTEXT)
    except InvalidOperation:
        raise ValueError("an exponent is too large") from None
    return number if exact == Decimal(shortest) else exact


def _constant(text: str) -> object:
    raise ValueError("no JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    by_name = dict(pairs)
    if len(by_name) != len(pairs):
        raise ValueError("a name comes twice")
    return by_name


_parse = json.JSONDecoder(parse_float=_number, parse_constant=_constant, object_pairs_hook=_unique).decode


def parsed_json(data: bytes) -> Any:
    """Parse JSON bytes; numbers that a float would change become `Decimal`. Raises `ValueError` if the JSON is invalid,
    not UTF-8, too large, nested too deeply, or has a name twice in an object.
    """
    if len(data) > LARGEST_PAYLOAD:
        raise ValueError("too large")
    try:
        value = _parse(data.decode("utf-8"))
    except RecursionError:
        raise ValueError("nested too deep") from None
    if data.count(b"{") + data.count(b"[") > MOST_LEVELS:
        try:
            check_levels(value)
        except UndecodableError:
            raise ValueError("nested too deep") from None
    return value


def json_or_none(data: bytes) -> Any:
    """Parse a JSON object or array. Return None for any other bytes, including other JSON values and invalid JSON."""
    if not data.lstrip(b" \t\r\n").startswith(_BEGINNINGS):
        return None
    try:
        return parsed_json(data)
    except ValueError:
        return None


def exact_json(encode: Callable[[Any], str]) -> Callable[[Any], str]:
    """Return a function that writes a value as JSON text, with each `Decimal` in dicts and lists as a number with all
    its digits. `encode`, the method of a `json.JSONEncoder` with compact separators, writes all other values. The
    function raises `TypeError` for a value that `encode` does not accept.
    """

    def inner(value: Any) -> str:
        if isinstance(value, Decimal):
            return str(value)
        if isinstance(value, dict):
            return "{" + ",".join(f"{encode(name)}:{inner(each)}" for name, each in value.items()) + "}"
        return f"[{','.join(map(inner, value))}]" if isinstance(value, list) else encode(value)

    def text(value: Any) -> str:
        try:
            return encode(value)
        except TypeError:  # a Decimal is rare
            return inner(value)

    return text


class JsonDecoder:
    """Decoder of payloads of a JSON Schema."""

    def decode(self, payload: bytes, path: bytes = b"") -> object:
        """Decode a payload to a JSON value. Raises `UndecodableError` if it is not JSON, or JSON that cannot be written
        again without a loss.
        """
        try:
            return parsed_json(payload)
        except ValueError:
            raise UndecodableError("it is not JSON, or JSON that cannot be given again exactly") from None
