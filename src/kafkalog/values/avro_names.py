"""Resolution of names in Avro schemas: named types, and aliases in a reader's schema for the writer's names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from kafkalog.values.avro_schema import PRIMITIVES, full_name, logical_of

__all__ = ["Aliases", "Names", "Type", "aliases_of", "named", "same_form"]

Names = Mapping[str, tuple[Any, str]]
"""full name -> definition and its namespace"""
_NAMED = ("record", "error", "enum", "fixed")
_MOST_REFERENCES = 100


class Type(Struct, frozen=True, kw_only=True):
    """A type in an Avro schema."""

    kind: str
    """`union` or the type's name in Avro; `record` also for errors"""
    schema: Any
    """definition: the list of branches of a union, the name alone of a primitive type"""
    name: str
    """full name of a record, enum or fixed; empty for other types"""
    namespace: str
    """namespace of unqualified names inside of it"""


def named(schema: Any, namespace: str, names: Names) -> Type:
    """Return the type of a schema (name, union or object). A name is looked up in `namespace`, then without one;
    `names` maps full names to definitions and namespaces.

    Raises `KeyError` if a name is not defined, or if too many references lead from one to another. Raises `KeyError`,
    `TypeError` or `AttributeError` for an invalid schema.
    """
    for _ in range(_MOST_REFERENCES):
        if isinstance(schema, list):
            return Type(kind="union", schema=schema, name="", namespace=namespace)
        if isinstance(schema, str):
            if schema in PRIMITIVES:
                return Type(kind=schema, schema=schema, name="", namespace=namespace)
            schema, namespace = names[full_name(schema, namespace) if full_name(schema, namespace) in names else schema]
            continue
        kind = schema["type"]
        if kind in _NAMED:
            full = full_name(schema["name"], str(schema.get("namespace") or namespace))
            return Type(
                kind="record" if kind == "error" else kind, schema=schema, name=full, namespace=full.rpartition(".")[0]
            )
        if isinstance(kind, str) and (kind in PRIMITIVES or kind in ("array", "map")):
            return Type(kind=kind, schema=schema, name="", namespace=namespace)
        schema = kind
    raise KeyError(str(schema))


class Aliases(Struct, frozen=True):
    """The aliases in a reader's schema, by which types and fields of a writer's schema are found
    (`Schema.applyAliases`).
    """

    types: Mapping[str, str]
    fields: Mapping[str, Mapping[str, str]]
    """full name of a reader's record -> alias of a field -> name of the field"""

    def name(self, writer: Type) -> str:
        """Full name of a writer's type in the reader's schema: its alias's name, or its own if there is no alias."""
        return self.types.get(writer.name, writer.name)


def aliases_of(reader: Type, names: Names) -> Aliases:
    """Return all aliases in a reader's schema, at any depth: full alias -> type name, and for each record alias ->
    field name.

    `names` maps full names to definitions and namespaces. Raises `KeyError` if a name is not defined.
    """
    types: dict[str, str] = {}
    fields: dict[str, dict[str, str]] = {}
    seen: set[int] = set()
    waiting = [reader]
    while waiting:
        type = waiting.pop()
        if id(type.schema) in seen and not isinstance(type.schema, str):
            continue
        seen.add(id(type.schema))
        if type.name:
            types |= {full_name(alias, type.namespace): type.name for alias in type.schema.get("aliases") or ()}
        inner = type.schema if type.kind == "union" else []
        if type.kind in ("array", "map"):
            inner = [type.schema["items" if type.kind == "array" else "values"]]
        if type.kind == "record":
            inner = [one["type"] for one in type.schema["fields"]]
            field_aliases = {alias: one["name"] for one in type.schema["fields"] for alias in one.get("aliases") or ()}
            if field_aliases:
                fields[type.name] = field_aliases
        waiting += [named(one, type.namespace, names) for one in inner]
    return Aliases(types, fields)


def same_form(writer: Any, writers: Names, reader: Any, readers: Names) -> bool:
    """Return whether two schemas encode values in the same way: they differ at most in documentation, order of
    attributes, aliases, defaults and attributes that Avro does not know. Return False if a schema cannot be read, is
    recursive or is very large. `writers` and `readers` map full names to definitions and namespaces.
    """
    try:
        return _form(named(writer, "", writers), writers, frozenset()) == _form(
            named(reader, "", readers), readers, frozenset()
        )
    except (KeyError, TypeError, AttributeError, RecursionError):
        return False


_MOST_CHARACTERS = 4 * 1024 * 1024


def _form(type: Type, names: Names, within: frozenset[str]) -> str:
    """Return the canonical form of a type as JSON text, with each name replaced by its definition. `within` has the
    names of the surrounding types.

    Raises `KeyError` for a recursive type, an unknown name, or a form that is too long, and `TypeError` or
    `AttributeError` for an invalid schema.
    """
    if type.name in within:
        raise KeyError(type.name)
    inner = within | {type.name} if type.name else within

    def of(schema: Any) -> str:
        return _form(named(schema, type.namespace, names), names, inner)

    schema = type.schema
    if type.kind == "union":
        parts = [of(each) for each in schema]
    elif type.kind == "record":
        parts = [part for each in schema["fields"] for part in (each["name"], of(each["type"]))]
    elif type.kind in ("array", "map"):
        parts = [of(schema["items" if type.kind == "array" else "values"])]
    elif type.kind == "enum":
        parts = list(schema["symbols"])
    else:
        kept = ("size", "precision")
        parts = [] if isinstance(schema, str) else [str(schema.get(each)) for each in kept]
        logical = None if isinstance(schema, str) else logical_of(type.kind, schema)
        parts = [type.kind] if logical is None and type.kind != "fixed" else [*parts, json.dumps(logical)]
    text = json.dumps([type.kind, type.name, *parts])
    if len(text) > _MOST_CHARACTERS:
        raise KeyError(type.name)
    return text
