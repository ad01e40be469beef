"""The schema that determines the type of a column of keys or values."""

from __future__ import annotations

from msgspec import Struct

from kafkalog.values.registry import Schema

__all__ = ["ColumnSchema", "NamedSchema"]

NamedSchema = str | int | Schema
"""subject (its latest version), id, or a schema of a registry"""


class ColumnSchema(Struct, frozen=True):
    """The schema that determines a column's type; chosen once for all partitions of a topic."""

    reader: Schema | None
    """schema of the column's type; None: the column is text"""
    path: bytes = b""
    """path to the message in a Protobuf schema"""
    masks: frozenset[str] = frozenset()
    """names of fields to hide: fields with one of them in the writer's schema that have another name in `reader`"""
