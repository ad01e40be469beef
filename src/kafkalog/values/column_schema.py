"""The schema that gives a column of keys or values its type."""

from __future__ import annotations

from msgspec import Struct

from kafkalog.values.registry import Schema

__all__ = ["ColumnSchema", "NamedSchema"]

NamedSchema = str | int | Schema
"""A subject (its latest version), an id, or a schema of a registry"""


class ColumnSchema(Struct, frozen=True):
    """What gives a column its type, chosen once for all partitions of a topic."""

    reader: Schema | None
    """None: the column is text"""
    path: bytes = b""
    """of a Protobuf schema, which of its messages"""
