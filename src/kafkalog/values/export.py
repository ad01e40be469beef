"""Export of a registry: as REST calls that fill another registry in IMPORT mode with the same ids, or as records of
`_schemas`.

The order follows Confluent's REST interface: in mode IMPORT a registration has its id and version, a schema must be
registered after the schemas that it refers to, and deletions come last, newest first, because a schema that is referred
to cannot be deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote

from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.shapes import plain
from kafkalog.values.registry import DEFAULT_MODE, Schema, SchemaDeletion, SchemaRegistry
from kafkalog.values.schema_log import SCHEMAS_TOPIC, SchemaLog

__all__ = ["import_calls", "schema_records"]

Call = dict[str, Any]


def _path(kind: str, subject: str | None, *more: object) -> str:
    named = () if subject is None else (quote(subject, safe="", errors="surrogatepass"),)
    return "/" + "/".join(map(str, (kind, *named, *more)))


def import_calls(registry: SchemaRegistry) -> Iterator[Call]:
    """Yield the REST calls that fill an empty registry in IMPORT mode, each as a dict of `method`, `path` and `body`
    (None if empty).

    Their order: IMPORT mode, schemas (each after the schemas that it refers to), deletions, compatibility, modes of
    subjects; the last call sets the registry's own mode. Permanently deleted schemas are left out; soft-deleted ones
    are registered and then deleted.
    """
    yield {"method": "PUT", "path": "/mode", "body": {"mode": "IMPORT"}}
    kept = _with_references_first(
        schema for schema in registry.schemas.values() if schema.deleted is not SchemaDeletion.PERMANENT
    )
    for each in kept:
        yield _registration(each)
    for each in reversed(kept):
        if each.deleted is SchemaDeletion.SOFT:
            yield {"method": "DELETE", "path": _path("subjects", each.subject, "versions", each.version), "body": None}
    for subject, setting in registry.compatibility.items():
        body = {name: value for name, value in setting.items() if name != "compatibilityLevel"}
        if "compatibilityLevel" in setting:
            body["compatibility"] = setting["compatibilityLevel"]
        yield {"method": "PUT", "path": _path("config", subject), "body": body}
    for subject, mode in registry.modes.items():
        if subject is not None:
            yield {"method": "PUT", "path": _path("mode", subject), "body": {"mode": mode}}
    yield {"method": "PUT", "path": "/mode", "body": {"mode": registry.modes.get(None, DEFAULT_MODE)}}


def _registration(schema: Schema) -> Call:
    body: Call = {"schema": schema.text, "schemaType": schema.type, "id": schema.id, "version": schema.version}
    if schema.references:
        body["references"] = plain(schema.references)
    return {"method": "POST", "path": _path("subjects", schema.subject, "versions"), "body": body | dict(schema.rest)}


def _with_references_first(schemas: Iterable[Schema]) -> list[Schema]:
    """Return the schemas sorted by id and version, but each after all schemas that it refers to. In a cycle of
    references, the reference that closes it is ignored; references to missing schemas are ignored too.
    """
    waiting = {(each.subject, each.version): each for each in sorted(schemas, key=lambda each: (each.id, each.version))}
    ordered: dict[tuple[str, int], Schema] = {}
    for first in waiting.values():
        stack = [(first, iter(first.references))]
        entered = {(first.subject, first.version)}
        while stack:
            schema, references = stack[-1]
            following = next(references, None)
            if following is None:
                ordered.setdefault((schema.subject, schema.version), schema)
                stack.pop()
                continue
            place = (following.subject, following.version)
            if place in waiting and place not in ordered and place not in entered:
                entered.add(place)
                stack.append((waiting[place], iter(waiting[place].references)))
    return list(ordered.values())


def schema_records(log: SchemaLog) -> Iterator[Call]:
    """Yield the last record of each key of `_schemas` as a dict, in offset order; `kafkalog build` creates a new
    `_schemas` from them.

    Keys whose last record is a tombstone, records of type NOOP and invalid records are left out. If a key was written
    in several JSON forms, only the latest record counts. Offsets are numbered from 0. Raises `UsageError` for a record
    that is not UTF-8.
    """
    for offset, record in enumerate(log.last_records()):
        try:
            key, value = record.raw_key.decode("utf-8"), (record.raw_value or b"").decode("utf-8")
        except UnicodeDecodeError:
            raise UsageError(f"the record at offset {record.offset} of {SCHEMAS_TOPIC} is not UTF-8") from None
        yield {
            "topic": SCHEMAS_TOPIC, "partition": 0, "offset": offset, "timestamp": record.timestamp,
            "timestampType": "CreateTime", "key": key, "value": value, "headers": [],
        }  # fmt: skip
