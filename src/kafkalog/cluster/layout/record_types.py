"""The record types of a topic with their layouts, which are read when a type is first used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from kafkalog.codec.messages.message import Message
from kafkalog.codec.messages.published import layouts, newest, record_types

__all__ = ["KeyedTypes", "RecordTypes", "framed_types", "keyed_types"]

Layouts = TypeVar("Layouts")


class RecordTypes(Mapping[int, Layouts]):
    """Record type -> its layouts, created from the type's name on first use."""

    def __init__(self, names: Callable[[], Mapping[int, str]], layouts_of: Callable[[str], Layouts]) -> None:
        self._names = names
        self._layouts_of = layouts_of
        self._made: dict[int, Layouts] = {}

    def __getitem__(self, kind: int) -> Layouts:
        known_layouts = self._made.get(kind)
        if known_layouts is None:
            known_layouts = self._made[kind] = self._layouts_of(self._names()[kind])
        return known_layouts

    def __contains__(self, kind: object) -> bool:
        return kind in self._names()

    def __iter__(self) -> Iterator[int]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())


KeyedTypes = RecordTypes[tuple[str, Message, tuple[Message, ...]]]


def framed_types(topic: str) -> RecordTypes[tuple[Message, ...]]:
    """Return the types of a topic whose records have no keys: the layouts of each type's value, newest first."""
    return RecordTypes(lambda: record_types(topic), layouts)


def keyed_types(topic: str) -> KeyedTypes:
    """Return the types of a coordinator's topic: each type's name, the layout of its key, and the layouts of its value,
    newest first.
    """
    return RecordTypes(lambda: record_types(topic), lambda name: (name, newest(f"{name}Key"), layouts(f"{name}Value")))
