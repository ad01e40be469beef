"""Masking of fields by their names, at any depth of a decoded value. Entries of maps are treated like fields."""

from __future__ import annotations

import json
import re

from kafkalog.values.json_values import exact_json, json_or_none
from kafkalog.values.payloads import UndecodableError

__all__ = ["MASKED", "hidden", "masked", "masked_inside"]

MASKED = "[masked]"
_LIKE_JSON = re.compile("[\\s\"'\\\\\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]*[\\[{]")
"""beginning of an object or array behind white space, quotes, and marks that are not seen, such as a byte order mark"""
_dumps = exact_json(json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode)


def masked(value: object, names: frozenset[str]) -> object:
    """Return a copy of a decoded value in which each field and map entry with one of these names has the value
    `MASKED`. This applies at any depth, even inside text that is a JSON object or array. Without names the value itself
    is returned.

    An inner text that looks like JSON but cannot be parsed as an object or array (such as JSON within quotes) becomes
    `MASKED` as a whole. Raises `UndecodableError` if the value itself is such a text, or if JSON is nested too deeply,
    because fields are then unknown.
    """
    if not names:
        return value
    try:
        return _text(value, names) if isinstance(value, str) else _inner(value, names)
    except RecursionError:
        raise UndecodableError("text with JSON within JSON, so deep that no field can be masked") from None


def masked_inside(text: str, names: frozenset[str]) -> str:
    """Return a text that is a part of a value, with these fields masked as by `masked`; `MASKED` if it looks like JSON
    but cannot be parsed as an object or array.
    """
    try:
        return _text(text, names)
    except (UndecodableError, RecursionError):
        return MASKED  # it may have such a field


def hidden(value: object) -> str | None:
    """Return the replacement of a masked field in a column that keeps its type: `MASKED` for text, else None."""
    return MASKED if isinstance(value, str) else None


def _text(text: str, names: frozenset[str]) -> str:
    value = json_or_none(text.encode("utf-8", "surrogatepass"))
    if value is not None:
        shown = _inner(value, names)
        return text if shown == value else _dumps(shown)
    if _looks_like_json(text):
        raise UndecodableError("text that looks like JSON and cannot be read as such, so that no field can be masked")
    return text


def _looks_like_json(text: str) -> bool:
    """Return whether text begins like a JSON object or array, possibly after white space, quotes and invisible
    characters. A JSON string is first replaced by its content, as often as necessary.
    """
    while not _LIKE_JSON.match(text):
        try:
            inner = json.loads(text.strip("\ufeff \t\r\n")) if '"' in text else None
        except (ValueError, RecursionError):
            return False
        if not isinstance(inner, str):
            return False
        text = inner
    return True


def _inner(value: object, names: frozenset[str]) -> object:
    if isinstance(value, dict):
        return {name: MASKED if name in names else _inner(each, names) for name, each in value.items()}
    if isinstance(value, list):
        return [_inner(each, names) for each in value]
    return masked_inside(value, names) if isinstance(value, str) else value
