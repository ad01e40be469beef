"""JSON lines: a `msgspec.Struct` declares names, order, types and, below each field, its description. Lines are encoded
with `json.dumps(plain(line))`, because msgspec's encoder rejects names that are not UTF-8 and writes NaN as null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from kafkalog.codec.common.advice import Advice, Sentence, in_python

__all__ = ["plain", "shaped"]

Shape = TypeVar("Shape")


def shaped(value: object, shape: type[Shape]) -> Shape:
    """Return a line of the type `shape` from the attributes and properties of a value, including nested values and
    lists. Raises `msgspec.ValidationError` if an attribute does not have the type of its field.
    """
    return msgspec.convert(value, shape, from_attributes=True)


def plain(line: object, words: Callable[[Advice], str] = in_python) -> Any:
    """Return a line as dicts, lists, strings and numbers, with the fields in their declared order. Advice in sentences
    is rendered by `words`, by default for Python callers. Raises `NotImplementedError` for a value of another type.
    """
    return msgspec.to_builtins(line, enc_hook=_in_python if words is in_python else _encoder(words))


def _encoder(words: Callable[[Advice], str]) -> Callable[[object], object]:
    def encode(value: object) -> object:
        if isinstance(value, Sentence):
            return value.worded(words)
        if isinstance(value, Mapping):
            return dict(value)
        raise NotImplementedError(type(value))

    return encode


_in_python = _encoder(in_python)
"""Made once: `dump` prints millions of lines without advice."""
