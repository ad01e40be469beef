"""JSON, with a JSON Schema or without any schema: what it says, or a reason why it would not be said exactly.

A value is not checked against its JSON Schema: the bytes say what they say.
"""

from __future__ import annotations

import json
import math
from typing import Any

from kafkalog.values.payloads import LARGEST_PAYLOAD, MOST_LEVELS, UndecodableError, check_levels

__all__ = ["JsonDecoder", "json_or_none", "parsed_json"]

_BEGINNINGS = (b"{", b"[")


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("beyond a double")
    return number


def _constant(text: str) -> object:
    raise ValueError("no JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name comes twice")
    return found


_parse = json.JSONDecoder(parse_float=_float, parse_constant=_constant, object_pairs_hook=_unique).decode


def parsed_json(data: bytes) -> Any:
    """Parse JSON; raises `ValueError` if it is invalid, or cannot be written again without a loss."""
    if len(data) > LARGEST_PAYLOAD:
        raise ValueError("too large")
    try:
        found = _parse(data.decode("utf-8"))
    except RecursionError:
        raise ValueError("nested too deep") from None
    if data.count(b"{") + data.count(b"[") > MOST_LEVELS:
        try:
            check_levels(found)
        except UndecodableError:
            raise ValueError("nested too deep") from None
    return found


def json_or_none(data: bytes) -> Any:
    """Parse a JSON object or array; None for anything else."""
    if not data.lstrip(b" \t\r\n").startswith(_BEGINNINGS):
        return None
    try:
        return parsed_json(data)
    except ValueError:
        return None


class JsonDecoder:
    """Payloads of a JSON Schema."""

    def decode(self, payload: bytes, path: bytes = b"") -> object:
        """Decode a payload, as `PayloadDecoder` says."""
        try:
            return parsed_json(payload)
        except ValueError:
            raise UndecodableError("it is not JSON, or JSON that cannot be given again exactly") from None
