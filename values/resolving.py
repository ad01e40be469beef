"""Values of an older or newer Avro schema as those of the one that a result has: Avro's rules for a reader's schema.

What Arrow does by itself is left to it: fields that the reader does not have are passed over, numbers become wider.
In one point Avro is stricter: a field that the writer did not have and that has no default is null here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kafkalog.values.avro_schema import PRIMITIVES, full_name, is_optional, member
from kafkalog.values.payloads import UndecodableError

__all__ = ["resolver"]

Resolve = Callable[[Any], Any]
Names = Mapping[str, tuple[Any, str]]
_WIDER = {
    "int": {"int", "long", "float", "double"}, "long": {"long", "float", "double"}, "float": {"float", "double"},
    "string": {"string", "bytes"}, "bytes": {"bytes", "string"},
}  # fmt: skip


class _UnresolvableError(UndecodableError):
    """The reader's schema cannot take what the writer's has."""


def resolver(writer: Any, writers: Names, reader: Any, readers: Names) -> Resolve | None:
    """What makes a value of the writer's schema one of the reader's; None where nothing has to be done.

    `writers` and `readers`: full name -> definition and namespace.  Raises `UndecodableError` where Avro has no way.
    """
    try:
        return _Pair(writers, readers).resolve(writer, "", reader, "")
    except RecursionError:
        raise _unresolvable() from None


def _unresolvable() -> _UnresolvableError:
    return _UnresolvableError("it was written with a schema that the one of the result cannot take")


class _Pair:
    def __init__(self, writers: Names, readers: Names) -> None:
        self._writers, self._readers = writers, readers

    def resolve(self, writer: Any, within: str, reader: Any, reading: str) -> Resolve | None:
        """What makes values of one schema those of another, each in its namespace."""
        writer, within = _plain(writer, within, self._writers)
        reader, reading = _plain(reader, reading, self._readers)
        if isinstance(writer, list) and not is_optional(writer):
            return self._several(writer, within, reader, reading)
        writer = _bare(writer)
        if isinstance(reader, list) and not is_optional(reader):
            if writer == "null":
                return None
            for number, branch in enumerate(reader):
                try:
                    inner = self.resolve(writer, within, branch, reading)
                except _UnresolvableError:
                    continue
                return _wrapped(member(number), inner)
            raise _unresolvable()
        return self._one(*_plain(writer, within, self._writers), *_plain(_bare(reader), reading, self._readers))

    def _several(self, writer: list[Any], within: str, reader: Any, reading: str) -> Resolve | None:
        if not isinstance(reader, list) or is_optional(reader) or len(writer) > len(reader):
            raise _unresolvable()
        inner = {
            member(number): self.resolve(each, within, other, reading)
            for number, (each, other) in enumerate(zip(writer, reader, strict=False))
        }
        changes = {name: change for name, change in inner.items() if change is not None}
        return _fields(changes, {}) if changes else None

    def _one(self, writer: Any, within: str, reader: Any, reading: str) -> Resolve | None:
        kind, other = _kind(writer), _kind(reader)
        if kind == "null":
            return None
        if kind in PRIMITIVES or kind in ("enum", "fixed") or other in PRIMITIVES:
            if other != kind and other not in _WIDER.get(kind, ()):
                raise _unresolvable()
            if kind in PRIMITIVES and _logical(writer) != _logical(reader):
                raise _unresolvable()
            return None if kind != "enum" else _enum(writer, reader)
        if kind != other:
            raise _unresolvable()
        if kind == "array":
            change = self.resolve(writer["items"], within, reader["items"], reading)
            return None if change is None else _items(change)
        if kind == "map":
            change = self.resolve(writer["values"], within, reader["values"], reading)
            return None if change is None else _values(change)
        return self._record(writer, within, reader, reading)

    def _record(self, writer: Any, within: str, reader: Any, reading: str) -> Resolve | None:
        within = full_name(writer["name"], str(writer.get("namespace") or within)).rpartition(".")[0]
        reading = full_name(reader["name"], str(reader.get("namespace") or reading)).rpartition(".")[0]
        theirs = {each["name"]: each["type"] for each in writer["fields"]}
        changes: dict[str, Resolve] = {}
        defaults: dict[str, Any] = {}
        for each in reader["fields"]:
            name = each["name"]
            if name in theirs:
                change = self.resolve(theirs[name], within, each["type"], reading)
                if change is not None:
                    changes[name] = change
            elif each.get("default") is not None:
                defaults[name] = each["default"]
        return _fields(changes, defaults) if changes or defaults else None


def _plain(schema: Any, namespace: str, names: Names) -> tuple[Any, str]:
    """A schema with its name looked up, and without `{"type": …}` around a whole one."""
    for _ in range(100):
        if isinstance(schema, str) and schema not in PRIMITIVES:
            found = names.get(full_name(schema, namespace)) or names.get(schema)
            if found is None:
                raise _unresolvable()
            schema, namespace = found
        elif isinstance(schema, dict) and (not isinstance(schema["type"], str) or _is_reference(schema["type"])):
            schema = schema["type"]
        else:
            return schema, namespace
    raise _unresolvable()


def _is_reference(kind: str) -> bool:
    return kind not in PRIMITIVES and kind not in ("record", "error", "enum", "fixed", "array", "map")


def _bare(schema: Any) -> Any:
    """The type beside null, of an optional one."""
    return next((each for each in schema if each != "null"), "null") if isinstance(schema, list) else schema


def _kind(schema: Any) -> str:
    kind = schema if isinstance(schema, str) else schema["type"]
    return "record" if kind == "error" else str(kind)


def _logical(schema: Any) -> object:
    return None if isinstance(schema, str) else (schema.get("logicalType"), schema.get("scale"))


def _enum(writer: Any, reader: Any) -> Resolve | None:
    if set(writer["symbols"]) <= set(reader["symbols"]):
        return None
    if "default" not in reader:
        raise _unresolvable()
    known, default = frozenset(reader["symbols"]), reader["default"]
    return lambda found: found if found is None or found in known else default


def _wrapped(name: str, inner: Resolve | None) -> Resolve:
    return lambda found: None if found is None else {name: found if inner is None else inner(found)}


def _items(change: Resolve) -> Resolve:
    return lambda found: None if found is None else [change(each) for each in found]


def _values(change: Resolve) -> Resolve:
    return lambda found: None if found is None else {name: change(each) for name, each in found.items()}


def _fields(changes: Mapping[str, Resolve], defaults: Mapping[str, Any]) -> Resolve:
    def resolve(found: dict[str, Any] | None) -> dict[str, Any] | None:
        if found is None:
            return None
        made = {**defaults, **found}
        for name, change in changes.items():
            if name in made:
                made[name] = change(made[name])
        return made

    return resolve
