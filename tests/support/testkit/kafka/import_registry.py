"""A strict stand-in for the calls of Confluent's Schema Registry that an import makes.

It keeps the rules of `ModeResource`, `SubjectVersionsResource`, `ConfigResource` and `KafkaSchemaRegistry` (their
sources of 2026): into IMPORT only while there is no schema, unless that is the mode already; ids only in IMPORT,
references first, one schema for each id, and no deletion of what something that is not deleted refers to.  It is
stricter in three points: it refuses members that a registry passes over, and a version that is there already; and it
takes what is registered as the whole of it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

_LEVELS = {"NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE"}
_MODES = {"READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD"}
_BODY = {
    "schema", "schemaType", "references", "id", "version", "metadata", "ruleSet", "schemaTagsToAdd",
    "schemaTagsToRemove", "propagateSchemaTags",
}  # fmt: skip
_CONFIG = {
    "compatibility", "alias", "aliasForDeks", "normalize", "validateFields", "validateNewSchemas", "validateRules",
    "compatibilityPolicy", "compatibilityGroup", "defaultMetadata", "overrideMetadata", "defaultRuleSet",
    "overrideRuleSet",
}  # fmt: skip
"""The members of `RegisterSchemaRequest` and `ConfigUpdateRequest`; a registry passes over others, and loses them."""
_ONE_SCHEMA = ("schema", "schemaType", "references", "metadata", "ruleSet")


class RefusedError(Exception):
    """What the registry would answer with an error; the text begins with its error code."""


@dataclass
class ImportRegistry:
    """Takes calls one after the other."""

    schemas: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    deleted: set[tuple[str, int]] = field(default_factory=set)
    config: dict[str | None, dict[str, Any]] = field(default_factory=dict)
    modes: dict[str | None, str] = field(default_factory=dict)

    def call(self, method: str, path: str, body: Any) -> None:
        assert path.startswith("/")
        kind, *parts = (unquote(each) for each in path[1:].split("/"))
        json.dumps(body)
        if (method, kind) == ("PUT", "mode") and len(parts) <= 1:
            self._mode(parts[0] if parts else None, body)
        elif (method, kind) == ("PUT", "config") and len(parts) <= 1:
            self._config(parts[0] if parts else None, body)
        elif (method, kind, parts[1:]) == ("POST", "subjects", ["versions"]):
            self._register(parts[0], body)
        elif (method, kind, parts[1:2]) == ("DELETE", "subjects", ["versions"]) and len(parts) == 3:
            self._delete(parts[0], int(parts[2]))
        else:
            raise RefusedError(f"404 {method} {path}")

    def mode_of(self, subject: str | None) -> str:
        return self.modes.get(subject, self.modes.get(None, "READWRITE"))

    def _mode(self, subject: str | None, body: dict[str, Any]) -> None:
        if set(body) != {"mode"} or body["mode"] not in _MODES:
            raise RefusedError("42204 invalid mode")
        if body["mode"] == "FORWARD" and subject is not None:
            raise RefusedError("42204 Forward mode only supported on global level")
        there = any(subject in (None, each) for each, _ in self.schemas.keys() - self.deleted)
        if body["mode"] == "IMPORT" and self.mode_of(subject) != "IMPORT" and there:
            raise RefusedError("42205 cannot import: found existing subjects")
        self.modes[subject] = body["mode"]

    def _config(self, subject: str | None, body: dict[str, Any]) -> None:
        if set(body) - _CONFIG:
            raise RefusedError("422 unrecognized field")
        if body.get("compatibility", "NONE") not in _LEVELS:
            raise RefusedError("42203 invalid compatibility level")
        self.config[subject] = body

    def _register(self, subject: str, body: dict[str, Any]) -> None:
        if set(body) - _BODY:
            raise RefusedError("422 unrecognized field")
        if self.mode_of(subject) not in ("IMPORT", "FORWARD"):
            raise RefusedError("42205 ids and versions are taken in IMPORT mode only")
        if not isinstance(body["schema"], str) or not body["schema"] or body["version"] < 1 or body["id"] < 0:
            raise RefusedError("42201 invalid schema")
        for each in body.get("references", ()):
            if (each["subject"], each["version"]) not in self.schemas.keys() - self.deleted:
                raise RefusedError(f"42201 no schema reference found for subject {each['subject']!r}")
        said = [body.get(name) for name in _ONE_SCHEMA]
        others = [each for each in self.schemas.values() if each["id"] == body["id"]]
        if any([each.get(name) for name in _ONE_SCHEMA] != said for each in others):
            raise RefusedError(f"42205 overwrite new schema with id {body['id']} is not permitted")
        if (subject, body["version"]) in self.schemas:
            raise RefusedError("42205 this version is there")
        self.schemas[subject, body["version"]] = body

    def _delete(self, subject: str, version: int) -> None:
        place = (subject, version)
        if place not in self.schemas or place in self.deleted:
            raise RefusedError("40402 version not found")
        for other in self.schemas.keys() - self.deleted:
            if any((each["subject"], each["version"]) == place for each in self.schemas[other].get("references", ())):
                raise RefusedError("42206 one or more references exist to the schema")
        self.deleted.add(place)
