"""Values for every field of a message, different wherever its type has room for it."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterable
from typing import Any

from kafkalog.codec.messages.field import Field

_WIDTHS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def values(fields: Iterable[Field], version: int, chance: random.Random, *, elements: int = 2) -> dict[str, Any]:
    """A message of that version with all its fields, each array with so many elements."""
    return {
        field.name: (
            [_one(field, version, chance, elements) for _ in range(elements)]
            if field.array
            else _one(field, version, chance, elements)
        )
        for field in fields
        if field.in_version(version)
    }


def _one(field: Field, version: int, chance: random.Random, elements: int) -> Any:
    if field.type == "struct":
        return values(field.fields, version, chance, elements=elements)
    if field.name.endswith("error_code"):
        return chance.randrange(1, 90)
    if field.type in _WIDTHS:
        # in the range of what peers take for a time, where they make one of it
        return chance.randrange(1, 1 << min(_WIDTHS[field.type] - 1, 40))
    if field.type in ("uint16", "uint32"):
        return chance.randrange(1, 1 << int(field.type[4:]))
    if field.type == "bool":
        return True
    if field.type == "float64":
        return chance.randrange(1, 1000) / 8
    if field.type == "uuid":
        return base64.urlsafe_b64encode(chance.randbytes(16)).rstrip(b"=").decode()
    return chance.randbytes(9) if field.type in ("bytes", "records") else f"text-{chance.randrange(1 << 40)}"
