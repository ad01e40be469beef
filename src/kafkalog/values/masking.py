"""Mask fields by their names, at any depth of a decoded value; entries of maps are fields too."""

from __future__ import annotations

from kafkalog.values.payloads import UndecodableError

__all__ = ["MASKED", "masked"]

MASKED = "[masked]"
_BEGINNINGS = ("{", "[")


def masked(value: object, names: frozenset[str]) -> object:
    """Return a copy of a decoded value with `MASKED` in place of the value of each field and map entry of these names,
    at any depth; without names the value itself.

    Raises `UndecodableError` for text that looks like JSON but was not parsed: its fields are unknown.
    """
    if not names:
        return value
    if isinstance(value, str) and value.lstrip().startswith(_BEGINNINGS):
        raise UndecodableError("text that looks like JSON and cannot be read as such, so that no field can be masked")
    return _inner(value, names)


def _inner(value: object, names: frozenset[str]) -> object:
    if isinstance(value, dict):
        return {name: MASKED if name in names else _inner(each, names) for name, each in value.items()}
    if isinstance(value, list):
        return [_inner(each, names) for each in value]
    return value
