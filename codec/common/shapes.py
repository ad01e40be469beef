"""Lines of JSON: a `msgspec.Struct` declares names, order, types and, below each field, what it is.

Lines are encoded with `json.dumps(plain(line))`: msgspec's own encoder refuses names that are not UTF-8, and writes NaN
as null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from kafkalog.codec.common.advice import Advice, Sentence, in_python

__all__ = ["plain", "shaped"]

Shape = TypeVar("Shape")


def shaped(value: object, shape: type[Shape]) -> Shape:
    """A line made of the attributes and properties of a value, nested values and lists of them included.

    Raises `msgspec.ValidationError` if an attribute has another type than the field of its name.
    """
    return msgspec.convert(value, shape, from_attributes=True)


def plain(line: object, words: Callable[[Advice], str] = in_python) -> Any:
    """Dictionaries, lists, texts and numbers of a line, in the order of its fields; sentences in the given words."""

    def encode(value: object) -> object:
        if isinstance(value, Sentence):
            return value.worded(words)
        if isinstance(value, Mapping):
            return dict(value)
        raise NotImplementedError(type(value))

    return msgspec.to_builtins(line, enc_hook=encode)
