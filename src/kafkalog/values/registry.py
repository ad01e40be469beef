"""Contents of a schema registry: subjects, versions, ids, references, deletions, compatibility and modes.

The rules follow Confluent's Schema Registry: ids belong to a context (`:.context:subject`; most registries have only
the default one). A subject without a setting of its own has the setting of its context, or else the global one.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec
from msgspec import Struct

from kafkalog.codec.common.findings import Finding

__all__ = ["Schema", "SchemaDeletion", "SchemaReference", "SchemaRegistry", "context_of"]

DEFAULT_COMPATIBILITY = "BACKWARD"
DEFAULT_MODE = "READWRITE"


class SchemaDeletion(enum.StrEnum):
    """How a version was deleted."""

    SOFT = "soft"
    """it is not listed, and its id still gives the schema"""
    PERMANENT = "permanent"
    """the registry has forgotten it; its record is still on the disk"""


def context_of(subject: str | None) -> str:
    """Return the context of a qualified subject; `.` is the default context."""
    if subject is not None and subject.startswith(":."):
        return subject[1:].partition(":")[0]
    return "."


class SchemaReference(Struct, frozen=True):
    """A schema that another schema refers to, and the name that it has there."""

    name: str
    """as the schema's text calls it"""
    subject: str
    """the subject"""
    version: int
    """its version"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """One version of a subject, that is, a registered schema."""

    subject: str
    version: int
    id: int
    type: str
    """`AVRO`, `PROTOBUF`, `JSON`, or another that a plug-in has"""
    text: str = field(repr=False)
    references: tuple[SchemaReference, ...] = ()
    deleted: SchemaDeletion | None = None
    guid: str | None = None
    """GUID in the record; None if there is none, as in older registries (newer ones write `computed_guid`)"""
    offset: int = -1
    """of the record in `_schemas`; -1 if it is not from there"""
    timestamp: int = -1
    rest: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)
    """metadata, rules and tags, as the record has them"""

    @property
    def computed_guid(self) -> str:
        """MD5, as hexadecimal text, of the schema's text and its references (name, subject, version).

        Headers such as `__value_schema_id` name a schema by this GUID.
        """
        digest = hashlib.md5(self.text.encode("utf-8", "surrogatepass"), usedforsecurity=False)
        for reference in self.references:
            digest.update(reference.name.encode("utf-8", "surrogatepass"))
            digest.update(reference.subject.encode("utf-8", "surrogatepass"))
            digest.update((reference.version & 0xFFFFFFFF).to_bytes(4, "big"))
        return digest.hexdigest()


class SchemaRegistry(Struct, dict=True, kw_only=True):
    """A schema registry at one moment."""

    sources: tuple[str, ...] = ()
    """paths that it was read from"""
    schemas: dict[tuple[str, int], Schema] = msgspec.field(default_factory=dict)
    """(subject, version) -> schema, in the order of their first records"""
    compatibility: dict[str | None, dict[str, Any]] = msgspec.field(default_factory=dict)
    """subject -> its setting as the registry wrote it; None for the global one"""
    modes: dict[str | None, str] = msgspec.field(default_factory=dict)
    findings: list[Finding] = msgspec.field(default_factory=list)

    @cached_property
    def _of_ids(self) -> dict[int, list[Schema]]:
        by_id: dict[int, list[Schema]] = {}
        for schema in self.schemas.values():
            by_id.setdefault(schema.id, []).append(schema)
        for schemas in by_id.values():  # the default context first; what was forgotten last
            schemas.sort(key=lambda each: (each.deleted is SchemaDeletion.PERMANENT, context_of(each.subject) != "."))
        return by_id

    @cached_property
    def _of_guids(self) -> dict[str, list[Schema]]:
        by_guid: dict[str, list[Schema]] = {}
        for schema in self.schemas.values():
            for guid in {schema.computed_guid, (schema.guid or "").replace("-", "").lower()} - {""}:
                by_guid.setdefault(guid, []).append(schema)
        return by_guid

    @property
    def ids(self) -> frozenset[int]:
        """All schema ids, including ids of deleted versions."""
        return frozenset(self._of_ids)

    def by_id(self, id: int, topic: str | None = None, part: str = "value") -> Schema | None:
        """Return the schema with an id; None if there is none. If several subjects have it, the subject
        `<topic>-<part>` is preferred, then versions that are not permanently deleted, then the default context.
        """
        return _preferred(self._of_ids.get(id, ()), topic, part)

    def by_guid(self, guid: bytes, topic: str | None = None, part: str = "value") -> Schema | None:
        """Return the schema with a GUID (16 bytes, as in a header); None if there is none. If several subjects have it,
        the subject `<topic>-<part>` is preferred, then the first one in `schemas`.
        """
        return _preferred(self._of_guids.get(guid.hex(), ()), topic, part)

    def latest(self, subject: str) -> Schema | None:
        """Return the newest version of a subject that is not deleted, or the newest one if all are deleted; None for an
        unknown subject.
        """
        schemas = [schema for schema in self.schemas.values() if schema.subject == subject]
        live = [schema for schema in schemas if schema.deleted is None]
        return max(live or schemas, key=lambda each: each.version, default=None)

    def live(self) -> Iterator[Schema]:
        """Return an iterator over the versions that are not deleted."""
        return (schema for schema in self.schemas.values() if schema.deleted is None)

    def compatibility_of(self, subject: str) -> str:
        """Return the compatibility level of a subject: its own, else its context's, else the global one, else
        BACKWARD.
        """
        for each in (subject, f":{context_of(subject)}:", None):
            if "compatibilityLevel" in (setting := self.compatibility.get(each, {})):
                return str(setting["compatibilityLevel"])
        return DEFAULT_COMPATIBILITY

    def mode_of(self, subject: str) -> str:
        """Return the mode of a subject: its own, else its context's, else the global one, else READWRITE."""
        return next(
            (self.modes[each] for each in (subject, f":{context_of(subject)}:", None) if each in self.modes),
            DEFAULT_MODE,
        )


def _preferred(schemas: list[Schema] | tuple[()], topic: str | None, part: str) -> Schema | None:
    wanted = None if topic is None else f"{topic}-{part}"
    return next((schema for schema in schemas if schema.subject == wanted), schemas[0] if schemas else None)
