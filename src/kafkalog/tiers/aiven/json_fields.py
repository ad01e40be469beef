"""Typed access to fields of untrusted JSON objects. Raises `FormatError` with the name of the field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkalog.codec.common.errors import FormatError

__all__ = ["flag", "natural", "object_of", "text"]

_LARGEST = (1 << 31) - 1
_LARGEST_LONG = (1 << 63) - 1


def _of(fields: Mapping[str, Any], name: str, kind: type) -> Any:
    value = fields.get(name)
    if type(value) is not kind:
        raise FormatError(f"{name} is {'missing' if value is None else 'not what it should be'}")
    return value


def text(fields: Mapping[str, Any], name: str) -> str:
    """Return a string."""
    found: str = _of(fields, name, str)
    return found


def flag(fields: Mapping[str, Any], name: str) -> bool:
    """Return a boolean."""
    found: bool = _of(fields, name, bool)
    return found


def natural(fields: Mapping[str, Any], name: str, *, long: bool = False) -> int:
    """Return a number from 0 to the largest of a Java int, or of a Java long with `long`."""
    found: int = _of(fields, name, int)
    if not 0 <= found <= (_LARGEST_LONG if long else _LARGEST):
        raise FormatError(f"{name} is {found}")
    return found


def object_of(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return an object."""
    found: Mapping[str, Any] = _of(fields, name, dict)
    return found
