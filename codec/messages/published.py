"""Kafka's published schemas by name. Each is read when it is first requested. `schemas/index.json` lists the record
types; `schemas/additions.json` has layouts and types that releases other than the newest wrote.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from typing import Any

from kafkalog.codec.messages.message import Message
from kafkalog.codec.messages.schema import message_of, parse_schema

__all__ = ["apis", "layouts", "newest", "record_types", "schema_file"]


def _read(file: str) -> dict[str, Any]:
    data = pkgutil.get_data(__name__, f"schemas/{file}")
    if data is None:
        raise FileNotFoundError(file)
    return parse_schema(data.decode())


@cache
def _index() -> dict[str, Any]:
    return _read("index.json")


@cache
def _additions() -> dict[str, Any]:
    return _read("additions.json")


def schema_file(name: str, written_by: str) -> str:
    """Return the file name of a schema. For a layout that only older releases wrote, `written_by` names those releases
    and is part of the file name. It is empty, or ends with "+", for a layout that the newest release writes.
    """
    return f"{name}.json" if not written_by or written_by.endswith("+") else f"{name}.{written_by}.json"


@cache
def record_types(topic: str) -> dict[int, str]:
    """Return the names of an internal topic's record types, by number in ascending order; empty for an unknown topic. A
    name is that of the schema, or the first part of the schema names of its key and value. Types that no release writes
    any more, and types of the next release, are included.
    """
    names = _index()["record_types"].get(topic, {}) | _additions()["record_types"].get(topic, {})
    return {int(kind): name for kind, name in sorted(names.items(), key=lambda pair: int(pair[0]))}


@cache
def apis() -> dict[int, str]:
    """Return the first part of the schema names of each API's request and response, by API key."""
    return {int(key): name for key, name in _index()["apis"].items()}


@cache
def layouts(name: str) -> tuple[Message, ...]:
    """Return a message's layouts from the newest to the oldest. There are several if releases wrote different layouts
    with the same version number. Raises `FileNotFoundError` for an unknown name.
    """
    return tuple(_layout(name, written_by) for written_by in _additions()["written_by"].get(name, [""]))


def newest(name: str) -> Message:
    """Return a message's newest layout."""
    return layouts(name)[0]


def _layout(name: str, written_by: str) -> Message:
    additions = _additions()
    schema = additions["unreleased"].get(name) or _read(schema_file(name, written_by))
    fields = [*schema.get("fields", ()), *additions["unreleased_fields"].get(name, ())]
    versions = additions["valid_versions"].get(name, schema["validVersions"])
    return message_of({**schema, "fields": fields, "validVersions": versions}, written_by=written_by)
