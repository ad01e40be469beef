"""Convert Kafka's message schemas, which are JSON with comments, to `Message` (`MessageSpec`, `StructSpec`,
`FieldSpec`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from kafkalog.codec.messages.field import NO_DEFAULT, NO_VERSION, Field
from kafkalog.codec.messages.leaves import SCALARS
from kafkalog.codec.messages.message import Message

__all__ = ["message_of", "parse_schema", "snake_case", "versions_of"]

_LAST_VERSION = 0x7FFF
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_PLAIN = {"string": "string", "bytes": "bytes", "records": "records", **{name: name for name in SCALARS}}

Json = Mapping[str, Any]


def parse_schema(text: str) -> dict[str, Any]:
    """Return the JSON object of a schema file as Kafka reads it: comments are removed, and text after the object is
    ignored. Raises `ValueError` if there is no valid JSON.
    """
    schema: dict[str, Any]
    schema, _ = json.JSONDecoder().raw_decode(_COMMENT.sub(lambda match: match[1] or "", text).lstrip())
    return schema


def versions_of(text: str | None, otherwise: range = NO_VERSION) -> range:
    """Convert a schema's text to a range of versions: `3`, `1-3`, `2+` (to the last possible version) or `none`
    (empty). Return `otherwise` for None. Raises `ValueError` if a version is not a number.
    """
    if text is None:
        return otherwise
    if text == "none":
        return NO_VERSION
    if text.endswith("+"):
        return range(int(text[:-1]), _LAST_VERSION + 1)
    first, separator, last = text.partition("-")
    return range(int(first), int(last if separator else first) + 1)


def snake_case(name: str) -> str:
    """Convert `LeaderEpoch` to `leader_epoch`."""
    return _WORD.sub("_", name).lower()


def message_of(schema: Json, *, written_by: str = "") -> Message:
    """Convert a schema (parsed JSON) to a `Message`. `written_by` is stored unchanged. Raises `ValueError` for an
    unknown type, and for a range of versions or a numeric default that cannot be parsed. It is raised too for a default
    of an array or struct other than null. Raises `KeyError` if a required member is missing.
    """
    common = {struct["name"]: struct["fields"] for struct in schema.get("commonStructs", ())}
    return Message(
        name=schema["name"],
        fields=_fields(schema.get("fields", ()), common),
        versions=versions_of(schema["validVersions"]),
        flexible=versions_of(schema.get("flexibleVersions")),
        written_by=written_by,
        latest_is_unstable=bool(schema.get("latestVersionUnstable", False)),
    )


def _fields(fields: Iterable[Json], common: Mapping[str, Any]) -> tuple[Field, ...]:
    """Convert fields of a schema to `Field`, in the order of their bytes: fields that are tagged in all their versions
    come last, by tag. `common` has the fields of shared structs by name.
    """
    return tuple(sorted((_field(field, common) for field in fields), key=_place))


def _place(field: Field) -> int:
    return -1 if field.tag is None or field.versions != field.tagged else field.tag


def _field(field: Json, common: Mapping[str, Any]) -> Field:
    kind = str(field["type"])
    array = kind.startswith("[]")
    kind = kind.removeprefix("[]")
    inner = field.get("fields") or common.get(kind, ())
    if kind not in _PLAIN and not inner:
        raise ValueError(f"{field['name']} is of type {kind}, which is unknown")
    tagged = versions_of(field.get("taggedVersions"))
    return Field(
        name=snake_case(field["name"]),
        type=_PLAIN.get(kind, "struct"),
        array=array,
        versions=versions_of(field.get("versions"), tagged),
        nullable=versions_of(field.get("nullableVersions")),
        tagged=tagged,
        tag=int(field["tag"]) if "tag" in field else None,
        explicit_default=_default(kind, array, field.get("default")),
        fields=_fields(inner, common),
        flexible=versions_of(field["flexibleVersions"]) if "flexibleVersions" in field else None,
        about=str(field.get("about", "")),
    )


def _default(kind: str, array: bool, default: Any) -> object:
    """Convert a schema's default, which is text or a JSON value, to a Python value of the type `kind`. The text "null"
    gives None; a missing default (JSON null) gives `NO_DEFAULT`; a bool is True for "true" in any case, otherwise
    False. Raises `ValueError` for another default of an array or a struct, or a number that cannot be parsed.
    """
    if default is None:
        return NO_DEFAULT
    if default == "null":
        return None
    if array or kind not in _PLAIN:
        raise ValueError(f"a default of {default!r} for an array or a struct")
    if kind == "bool":
        return str(default).lower() == "true"
    if kind == "float64":
        return float(default)
    return int(str(default), 0) if "int" in kind else str(default)
