"""Random pairs of Avro schemas, the second a later version of the first, with values of the first.

Records, unions, arrays, maps, enums and fixed types, with namespaces, aliases, defaults and logical types; the later
version has fields added, removed, renamed, reordered and promoted, branches moved, symbols dropped, or does not fit.
"""

from __future__ import annotations

import copy
import io
import random
from typing import Any

import fastavro

__all__ = ["pair_of"]

_PLAIN = ("boolean", "int", "long", "float", "double", "bytes", "string")
_WIDER = {
    "int": ("long", "float", "double"), "long": ("float", "double"), "float": ("double",),
    "string": ("bytes",), "bytes": ("string",),
}  # fmt: skip
_LOGICAL = (
    {"type": "int", "logicalType": "date"}, {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"}, {"type": "int", "logicalType": "time-millis"},
    {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    {"type": "string", "avro.java.string": "String"}, {"type": "string"}, {"type": "long"},
)  # fmt: skip
_NUMBERS = {"int": 2**31, "long": 2**63}


class _Made:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._names = 0

    def schema(self) -> dict[str, Any]:
        """A record, which a value of a topic is."""
        return self._record(0)

    def _name(self, word: str) -> str:
        self._names += 1
        return f"{word}{self._names}"

    def _record(self, depth: int) -> dict[str, Any]:
        fields = []
        for number in range(self._random.randint(1, 4)):
            field: dict[str, Any] = {"name": f"f{number}", "type": self._type(depth + 1)}
            fields.append(field)
        made: dict[str, Any] = {"type": "record", "name": self._name("R"), "fields": fields}
        if self._random.random() < 0.2:
            made["namespace"] = self._random.choice(["a", "b.c"])
        return made

    def _type(self, depth: int, *, in_union: bool = False) -> Any:
        chance = self._random.random()
        if depth > 3 or chance < 0.42:
            return self._random.choice(_PLAIN)
        if chance < 0.54:
            return copy.deepcopy(self._random.choice(_LOGICAL))
        if chance < 0.62:
            symbols = self._random.sample(["A", "B", "C", "D"], self._random.randint(1, 4))
            return {"type": "enum", "name": self._name("E"), "symbols": symbols}
        if chance < 0.67:
            return {"type": "fixed", "name": self._name("X"), "size": self._random.randint(1, 4)}
        if chance < 0.73:
            return {"type": "array", "items": self._type(depth + 1)}
        if chance < 0.78:
            return {"type": "map", "values": self._type(depth + 1)}
        if chance < 0.88 or in_union:
            return self._record(depth)
        return self._union(depth)

    def _union(self, depth: int) -> list[Any]:
        branches: list[Any] = ["null"] if self._random.random() < 0.6 else []
        for _ in range(self._random.randint(1, 4)):
            self._add_branch(branches, self._type(depth + 1, in_union=True))
        self._random.shuffle(branches)
        return branches

    def _add_branch(self, branches: list[Any], branch: Any) -> None:
        if _kind(branch) in ("record", "enum", "fixed") or _kind(branch) not in map(_kind, branches):
            branches.append(branch)

    def later(self, schema: Any, depth: int = 0) -> Any:
        """A later version of a schema."""
        chance = self._random.random()
        if isinstance(schema, list):
            return self._later_union(schema, depth)
        kind = _kind(schema)
        if chance < 0.02 and depth:
            return self._type(depth)
        if kind == "record":
            return self._later_record(schema, depth)
        if chance > 0.9 and depth and self._random.random() < 0.5:
            union: list[Any] = ["null"]
            for each in (self._random.choice(_PLAIN), self.later(schema, 9)):
                self._add_branch(union, each)
            self._random.shuffle(union)
            return union
        if kind == "enum":
            return self._later_enum(schema)
        if kind in ("array", "map"):
            name = "items" if kind == "array" else "values"
            return {**schema, name: self.later(schema[name], depth + 1)}
        if isinstance(schema, dict) and "name" in schema:
            return self._renamed(schema) if chance < 0.1 else schema
        if chance < 0.12 and kind in _WIDER and (isinstance(schema, str) or "logicalType" not in schema):
            return self._random.choice(_WIDER[kind])
        if chance < 0.3 and isinstance(schema, str):
            return {"type": schema}
        if chance > 0.95 and isinstance(schema, dict):
            return copy.deepcopy(self._random.choice([each for each in _LOGICAL if each["type"] == kind]))
        return schema

    def _renamed(self, schema: dict[str, Any]) -> dict[str, Any]:
        old = schema["name"] if self._random.random() < 0.8 else "Other"
        aliases = {"aliases": [old]} if self._random.random() < 0.7 else {}
        return {**schema, "name": self._name("N"), **aliases}

    def _later_enum(self, schema: dict[str, Any]) -> dict[str, Any]:
        made = {**schema, "symbols": [*schema["symbols"]]}
        if self._random.random() < 0.3 and len(made["symbols"]) > 1:
            made["symbols"].pop()
        if self._random.random() < 0.3:
            made["symbols"].insert(0, "Z")
        if self._random.random() < 0.3:
            made["default"] = made["symbols"][-1]
        return self._renamed(made) if self._random.random() < 0.1 else made

    def _later_union(self, schema: list[Any], depth: int) -> list[Any]:
        made: list[Any] = []
        for each in schema:
            if self._random.random() > 0.08 or len(schema) == 1:
                self._add_branch(made, self.later(each, depth + 1) if _kind(each) != "null" else each)
        made = [each for each in made if not isinstance(each, list)] or ["null", "string"]
        if self._random.random() < 0.3:
            self._add_branch(made, self._type(depth + 1, in_union=True))
        if self._random.random() < 0.4:
            self._random.shuffle(made)
        return made

    def _later_record(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        fields = []
        for each in schema["fields"]:
            if self._random.random() < 0.1:
                continue
            field = {**each, "type": self.later(each["type"], depth + 1)}
            if self._random.random() < 0.15:
                field |= {"name": self._name("g"), "aliases": [each["name"]]}
                if self._random.random() < 0.1:
                    del field["aliases"]
            fields.append(field)
        for _ in range(self._random.choice([0, 0, 1, 2])):
            type = self._type(depth + 1)
            field = {"name": self._name("n"), "type": type}
            if self._random.random() < 0.97:
                field["default"] = self._default(type)
            fields.insert(self._random.randint(0, len(fields)), field)
        if self._random.random() < 0.3:
            self._random.shuffle(fields)
        made = {**schema, "fields": fields}
        return self._renamed(made) if self._random.random() < 0.08 else made

    def _default(self, type: Any) -> Any:
        if isinstance(type, list):
            return self._default(type[0] if self._random.random() < 0.7 else self._random.choice(type))
        value = self.value(type, is_default=True)
        return value.decode("iso-8859-1") if isinstance(value, bytes) else value

    def value(self, schema: Any, *, is_default: bool = False) -> Any:
        """A value, as fastavro writes it, or as JSON has it in a default."""
        if isinstance(schema, list):
            branch = self._random.choice(schema) if not is_default else schema[0]
            inner = self.value(branch, is_default=is_default)
            return inner if is_default or not _full(branch) else (_full(branch), inner)
        kind = _kind(schema)
        if kind == "record":
            made = {}
            for each in schema["fields"]:
                inner = self.value(each["type"], is_default=is_default)
                made[each["name"]] = inner.decode("iso-8859-1") if is_default and isinstance(inner, bytes) else inner
            return made
        if kind in ("array", "map"):
            inner = [
                self.value(schema["items" if kind == "array" else "values"], is_default=is_default)
                for _ in range(self._random.randint(0, 2))
            ]
            if is_default:
                inner = [each.decode("iso-8859-1") if isinstance(each, bytes) else each for each in inner]
            return inner if kind == "array" else {f"k{number}": each for number, each in enumerate(inner)}
        return self._plain(kind, schema, is_default=is_default)

    def _plain(self, kind: str, schema: Any, *, is_default: bool) -> Any:
        if kind == "null":
            return None
        if kind == "boolean":
            return self._random.random() < 0.5 if is_default else self._random.choice([b"\0", b"\1", b"\2", b"\xff"])
        if kind in _NUMBERS:
            if isinstance(schema, dict) and "logicalType" in schema:
                return self._random.randint(0, 86_399_999) // (10_000 if schema["logicalType"] == "date" else 1)
            most = _NUMBERS[kind]
            small, any_size = self._random.randint(-1000, 1000), self._random.randint(-most, most - 1)
            return self._random.choice([0, -1, small, any_size])
        if kind in ("float", "double"):
            return self._random.choice([0.0, 0.5, -1.25, 1e10, float(self._random.randint(-99, 99))])
        if kind == "enum":
            return self._random.choice(schema["symbols"])
        if kind == "fixed":
            return self._random.randbytes(schema["size"])
        if kind == "string":
            return self._random.choice(["", "x", "grüße", "\u0001"])
        if isinstance(schema, dict) and schema.get("logicalType") == "decimal":
            return self._random.randint(-9999, 9999).to_bytes(3, "big", signed=True)
        return self._random.choice([b"", b"ab", bytes([0, 127]), b"\xff"])


def _kind(schema: Any) -> str:
    if isinstance(schema, list):
        return "union"
    return schema if isinstance(schema, str) else str(schema["type"])


def _full(schema: Any) -> str:
    return str(schema["name"]) if isinstance(schema, dict) and schema["type"] == "record" else ""


def _to_write(schema: Any, defined: list[str]) -> Any:
    """The schema without logical types, and with booleans as fixed types of one byte, which can be any byte."""
    if isinstance(schema, list):
        return [_to_write(each, defined) for each in schema]
    if schema == "boolean":
        defined.append(f"Boolean{len(defined)}")
        return {"type": "fixed", "name": defined[-1], "size": 1}
    if not isinstance(schema, dict):
        return schema
    made = {name: each for name, each in schema.items() if name != "logicalType"}
    for name in ("type", "items", "values"):
        if name in made:
            made[name] = _to_write(made[name], defined)
    if "fields" in made:
        made["fields"] = [{**each, "type": _to_write(each["type"], defined)} for each in made["fields"]]
    return made


def pair_of(seed: int) -> tuple[Any, Any, list[bytes]]:
    """The writer's schema, the reader's, and payloads of the writer's."""
    made = _Made(seed)
    writer = made.schema()
    reader = made.later(copy.deepcopy(writer))
    plain = fastavro.parse_schema(_to_write(copy.deepcopy(writer), []))
    payloads = []
    for _ in range(3):
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, plain, _qualified(made.value(writer), writer, ""))
        payloads.append(stream.getvalue())
    return writer, reader, payloads


def _qualified(value: Any, schema: Any, namespace: str) -> Any:
    """The value with the records of unions by their full names."""
    if isinstance(schema, list):
        if not isinstance(value, tuple):
            branch = next((each for each in schema if _takes(each, value)), None)
            return value if branch is None else _qualified(value, branch, namespace)
        branch = next(each for each in schema if _full(each) == value[0])
        within = branch.get("namespace") or namespace
        full = f"{within}.{branch['name']}" if within else branch["name"]
        return full, _qualified(value[1], branch, namespace)
    kind = _kind(schema)
    if kind == "record":
        within = schema.get("namespace") or namespace
        return {each["name"]: _qualified(value[each["name"]], each["type"], within) for each in schema["fields"]}
    if kind == "array":
        return [_qualified(each, schema["items"], namespace) for each in value]
    if kind == "map":
        return {name: _qualified(each, schema["values"], namespace) for name, each in value.items()}
    return value


def _takes(branch: Any, value: Any) -> bool:
    kind = _kind(branch)
    return (kind == "array" and isinstance(value, list)) or (kind == "map" and isinstance(value, dict))
