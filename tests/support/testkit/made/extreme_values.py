"""Values for every field of a message, valid as far as the schema goes, and as far out as it permits."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterable, Sequence
from typing import Any

from kafkalog.codec.messages.field import Field

_WIDTHS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_NUMBERS = (-4, -3, -2, -1, 0, 1, 2, 3, 7, 100)


def extremes(
    fields: Iterable[Field], version: int, chance: random.Random, names: Sequence[str], *, elements: int
) -> dict[str, Any]:
    """A message of that version with all its fields; `names` are texts that mean something to who reads it."""
    left = [elements]
    return {field.name: _value(field, version, chance, names, left) for field in fields if field.in_version(version)}


def _value(field: Field, version: int, chance: random.Random, names: Sequence[str], left: list[int]) -> Any:
    if version in field.nullable and chance.random() < 0.2:
        return None
    if not field.array:
        return _one(field, version, chance, names, left)
    count = min(chance.choice((0, 1, 1, 2, 3, 50)), left[0])
    left[0] -= count
    found = [_one(field, version, chance, names, left) for _ in range(count)]
    return found * chance.choice((1, 1, 1, 2)) if left[0] > count else found


def _one(field: Field, version: int, chance: random.Random, names: Sequence[str], left: list[int]) -> Any:
    if field.type == "struct":
        return {each.name: _value(each, version, chance, names, left) for each in field.fields
                if each.in_version(version)}  # fmt: skip
    if field.type in _WIDTHS:
        width = _WIDTHS[field.type]
        return chance.choice((*_NUMBERS, -(1 << (width - 1)), (1 << (width - 1)) - 1, chance.getrandbits(width - 1)))
    if field.type in ("uint16", "uint32"):
        return chance.choice((0, 1, (1 << int(field.type[4:])) - 1))
    if field.type == "bool":
        return chance.random() < 0.5
    if field.type == "float64":
        return chance.choice((0.0, -1.0, float("inf"), float("nan"), 1e300))
    if field.type == "uuid":
        return chance.choice(["A" * 22, *[each for each in names if len(each) == 22],
                              base64.urlsafe_b64encode(chance.randbytes(16)).rstrip(b"=").decode()])  # fmt: skip
    if field.type == "string":
        return chance.choice(["", "\0", "\udcff", "é" * 9, "..", "x" * 32_767, *names, *names, *names])
    return chance.choice((b"", b"\0", chance.randbytes(chance.randrange(60)), bytes(10_000)))
