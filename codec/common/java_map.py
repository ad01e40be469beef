"""Iteration order of Java's `HashMap<Long, ...>`, on which the bytes of a producer snapshot depend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

__all__ = ["JavaHashMap"]

Value = TypeVar("Value")


class JavaHashMap(Generic[Value]):
    """A map from int64 keys with the iteration order of Java's `HashMap<Long, …>`: by bucket of a table that doubles
    and never shrinks.
    """

    _LOAD_FACTOR = 0.75

    def __init__(self) -> None:
        self._capacity = 16
        self._values: dict[int, Value] = {}

    def get(self, key: int) -> Value | None:
        """Return the value of a key; None if there is none."""
        return self._values.get(key)

    def put(self, key: int, value: Value) -> None:
        """Add or replace a value. A replaced value keeps its position."""
        self._values[key] = value
        while len(self._values) > self._capacity * self._LOAD_FACTOR:
            self._capacity *= 2

    def clear(self) -> None:
        """Remove all values. The table keeps its size."""
        self._values.clear()

    def _bucket(self, key: int) -> int:
        unsigned = key & 0xFFFFFFFFFFFFFFFF
        mixed = (unsigned ^ unsigned >> 32) & 0xFFFFFFFF
        return (mixed ^ mixed >> 16) & (self._capacity - 1)

    def __iter__(self) -> Iterator[tuple[int, Value]]:
        return iter(sorted(self._values.items(), key=lambda item: self._bucket(item[0])))

    def values(self) -> list[Value]:
        """Return the values in iteration order."""
        return [value for _key, value in self] if len(self._values) > 1 else list(self._values.values())

    def __len__(self) -> int:
        return len(self._values)
