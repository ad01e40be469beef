"""Kafka's published schemas by name; each is read when it is first asked for.

`schemas/index.json` says which record types there are, `schemas/additions.json` what releases beside the newest wrote.
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
    """The file of a schema; what only older releases wrote has them in its name."""
    return f"{name}.json" if not written_by or written_by.endswith("+") else f"{name}.{written_by}.json"


@cache
def record_types(topic: str) -> dict[int, str]:
    """Record type -> name of an internal topic: the schema's, or what the names of its key and its value begin with.

    Types that no release writes any more are among them, and those that the next one will write.
    """
    found = _index()["record_types"].get(topic, {}) | _additions()["record_types"].get(topic, {})
    return {int(kind): name for kind, name in sorted(found.items(), key=lambda pair: int(pair[0]))}


@cache
def apis() -> dict[int, str]:
    """API key -> what the names of the schemas of its request and its response begin with."""
    return {int(key): name for key, name in _index()["apis"].items()}


@cache
def layouts(name: str) -> tuple[Message, ...]:
    """A message's layouts from the newest to the oldest; more than one where releases differ under one version."""
    return tuple(_layout(name, written_by) for written_by in _additions()["written_by"].get(name, [""]))


def newest(name: str) -> Message:
    """A message's newest layout."""
    return layouts(name)[0]


def _layout(name: str, written_by: str) -> Message:
    additions = _additions()
    schema = additions["unreleased"].get(name) or _read(schema_file(name, written_by))
    fields = [*schema.get("fields", ()), *additions["unreleased_fields"].get(name, ())]
    versions = additions["valid_versions"].get(name, schema["validVersions"])
    return message_of({**schema, "fields": fields, "validVersions": versions}, written_by=written_by)
