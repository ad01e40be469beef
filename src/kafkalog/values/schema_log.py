"""Application of the records of `_schemas`, one after the other, to a registry.

The rules follow Confluent's `KafkaStoreReaderThread`, `SchemaRegistrySerializer` and `KafkaStoreMessageHandler`. Keys
are compared by their meaning, as the registry does, but the cleaner compares their bytes. Therefore two registries, or
two releases, that write one key in two forms lose a deletion: the tombstone of one form never removes the other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from msgspec import Struct, field

from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.names import CLUSTER_METADATA_TOPIC, COORDINATOR_TOPICS, REMOTE_LOG_METADATA_TOPIC
from kafkalog.log.directories.directory import Wants, every
from kafkalog.values.registry import Schema, SchemaDeletion, SchemaReference, SchemaRegistry, context_of

__all__ = [
    "OWN_TOPICS", "SCHEMAS_TOPIC", "SchemaLog", "SchemaRecord", "loaded_json", "parse_record", "topics_wanted",
]  # fmt: skip

SCHEMAS_TOPIC = "_schemas"
OWN_TOPICS = frozenset({*COORDINATOR_TOPICS, CLUSTER_METADATA_TOPIC, REMOTE_LOG_METADATA_TOPIC, SCHEMAS_TOPIC})
"""topics of Kafka and of the registry, whose keys and values have formats of their own"""
_KNOWN = {"NOOP", "SCHEMA", "CONFIG", "MODE", "DELETE_SUBJECT", "CLEAR_SUBJECT", "CONTEXT", "ASSOC"}
_WHOLE = {"ASSOC", "CONTEXT"}
"""key types that are kept but do not affect schemas"""
_REST = ("metadata", "ruleSet")
_TYPES = 2**31 - 1


def topics_wanted(topics: Collection[str]) -> Wants:
    """Return a function that tells whether a partition is to be read. It accepts every partition if `topics` has names,
    because a selection checks these, otherwise the partitions of topics that are not in `OWN_TOPICS`.
    """
    return every if topics else lambda name: name.topic not in OWN_TOPICS


class _Invalid(ValueError):
    """Reason why a record is not one of a registry, without any of its content."""


class LogicalKey(NamedTuple):
    """The meaning of a key, independent of its bytes."""

    kind: str
    subject: str | None = None
    version: int | None = None


class SchemaRecord(Struct, frozen=True, kw_only=True):
    """A record of a known type; `value` is None for a tombstone."""

    key: LogicalKey
    value: Mapping[str, Any] | None
    raw_key: bytes
    raw_value: bytes | None
    offset: int
    timestamp: int


def loaded_json(data: bytes | str) -> Any:
    """Parse JSON. Raises `ValueError` if it is invalid, nested too deeply or has numbers with too many digits."""
    try:
        return json.loads(data)
    except (UnicodeDecodeError, RecursionError) as error:
        raise ValueError(type(error).__name__) from None


def _object(data: bytes, what: str) -> Mapping[str, Any]:
    try:
        value = loaded_json(data)
    except ValueError:
        raise _Invalid(f"{what} is not JSON") from None
    if not isinstance(value, dict):
        raise _Invalid(f"{what} is not an object")
    return value


def _number(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _TYPES:
        raise _Invalid(f"{name} is not a number of 31 bits")
    return value


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise _Invalid(f"{name} is not a text")
    return value


def parse_record(key: bytes | None, value: bytes | None, offset: int, timestamp: int) -> SchemaRecord:
    """Parse key and value (None: a tombstone) of a record of `_schemas`; `timestamp` is in ms since 1970.

    Raises `ValueError`, with the reason as its text, if key or value is not a JSON object, or the key is missing. A
    missing or wrong field of the key raises it too. Unknown key types are accepted.
    """
    if key is None:
        raise _Invalid("it has no key")
    fields = _object(key, "the key")
    kind = _text(fields, "keytype")
    subject = None if fields.get("subject") is None else _text(fields, "subject")
    if kind in ("SCHEMA", "DELETE_SUBJECT", "CLEAR_SUBJECT") and subject is None:
        raise _Invalid(f"a key of type {kind} names no subject")
    if kind in _WHOLE:
        subject = json.dumps(fields, sort_keys=True)
    version = _number(fields, "version") if kind == "SCHEMA" else None
    content = None if value is None else _object(value, "the value")
    return SchemaRecord(
        key=LogicalKey(kind, subject, version),
        value=content,
        raw_key=key,
        raw_value=value,
        offset=offset,
        timestamp=timestamp,
    )


def _references(fields: Mapping[str, Any]) -> tuple[SchemaReference, ...]:
    references = fields.get("references") or ()
    if not isinstance(references, list | tuple) or not all(isinstance(each, dict) for each in references):
        raise _Invalid("references is not a list of objects")
    return tuple(SchemaReference(_text(each, "name"), _text(each, "subject"), _number(each, "version"))
                 for each in references)  # fmt: skip


def schema_of(record: SchemaRecord) -> Schema:
    """Return the schema version that a SCHEMA record with a value registers; a missing type is AVRO. Raises
    `ValueError` if id or text is missing or invalid, or if references are invalid.
    """
    fields = record.value or {}
    kind = fields.get("schemaType") or "AVRO"
    guid = fields.get("guid")
    return Schema(
        subject=record.key.subject or "",
        version=record.key.version or 0,
        id=_number(fields, "id"),
        type=str(kind),
        text=_text(fields, "schema"),
        references=_references(fields),
        deleted=SchemaDeletion.SOFT if fields.get("deleted") is True else None,
        guid=guid if isinstance(guid, str) else None,
        offset=record.offset,
        timestamp=record.timestamp,
        rest={name: fields[name] for name in _REST if fields.get(name) is not None},
    )


class SchemaLog(Struct, frozen=True):
    """The registry that results from the records of `_schemas` so far; pass the records in offset order to `take`."""

    path: str | None = None
    """path of the partition, for findings"""
    registry: SchemaRegistry = field(default_factory=SchemaRegistry)
    _forms: dict[LogicalKey, dict[bytes, SchemaRecord]] = field(default_factory=dict)
    """last record of each key's bytes, which is what compaction keeps"""

    def take(self, key: bytes | None, value: bytes | None, offset: int, timestamp: int) -> None:
        """Apply a record to the registry; a `value` of None is a tombstone, and `timestamp` is in ms since 1970. If key
        or value is invalid, or if the key type is unknown, only a finding is added.
        """
        try:
            record = parse_record(key, value, offset, timestamp)
            if record.key.kind not in _KNOWN:
                self._find(FindingCode.SCHEMA_RECORD_INVALID, Severity.WARNING, offset, "its type of key is unknown")
                return
            _Rules(self.registry).apply(record)
        except ValueError as error:
            detail = f"a registry cannot read this record: {error}"
            self._find(FindingCode.SCHEMA_RECORD_INVALID, Severity.ERROR, offset, detail)
            return
        if record.key.kind != "NOOP":
            self._forms.setdefault(record.key, {})[record.raw_key] = record

    def finish(self) -> SchemaRegistry:
        """Return the registry after the last record, with the findings that need all records: keys in two forms,
        deleted schemas that would return after compaction, and conflicts. Call it only once: a second call adds the
        findings again.
        """
        for in_two_form in sorted(self._in_two_forms(), key=lambda found: found.offset or 0):
            self.registry.findings.append(in_two_form)
        self._find_returning()
        self._find_conflicts()
        return self.registry

    def last_records(self) -> Iterator[SchemaRecord]:
        """Return the last record of each key in offset order, without tombstones; a new registry needs no other
        records.
        """
        last = (max(forms.values(), key=lambda each: each.offset) for forms in self._forms.values())
        return iter(sorted((record for record in last if record.value is not None), key=lambda each: each.offset))

    def _find(self, code: FindingCode, severity: Severity, offset: int | None, detail: str) -> None:
        self.registry.findings.append(Finding(code, severity, None, offset, detail, self.path))

    def _in_two_forms(self) -> Iterator[Finding]:
        for key, forms in self._forms.items():
            if len(forms) > 1:
                latest = max(forms.values(), key=lambda each: each.offset)
                yield Finding.of(
                    FindingCode.SCHEMA_KEY_FORMS, None, latest.offset,
                    f"the key of {_words(key)} is written in {len(forms)} forms: the cleaner keeps a record of each",
                    self.path,
                )  # fmt: skip

    def _find_returning(self) -> None:
        """Add a finding to the registry for each schema that is deleted now but will return when the cleaner has
        removed the tombstones. To find them, the last record of each key (in each JSON form) is applied to a second
        registry, unless it is a tombstone.
        """
        kept = sorted(
            (record for forms in self._forms.values() for record in forms.values() if record.value is not None),
            key=lambda each: each.offset,
        )
        later = SchemaRegistry()
        for record in kept:
            _Rules(later).apply(record)
        for place, schema in later.schemas.items():
            now = self.registry.schemas.get(place)
            if schema.deleted is None and (now is None or now.deleted is not None):
                self._find(
                    FindingCode.SCHEMA_WOULD_RETURN, Severity.WARNING, schema.offset,
                    f"subject {schema.subject!r} version {schema.version} is deleted, and comes back when the cleaner "
                    "has removed the record that deletes it",
                )  # fmt: skip

    def _find_conflicts(self) -> None:
        first: dict[tuple[str, int], Schema] = {}
        for schema in self.registry.schemas.values():
            other = first.setdefault((context_of(schema.subject), schema.id), schema)
            if other.text != schema.text and not {other.deleted, schema.deleted} & {SchemaDeletion.PERMANENT}:
                self._find(
                    FindingCode.SCHEMA_ID_CONFLICT, Severity.ERROR, schema.offset,
                    f"id {schema.id} has another schema in subject {schema.subject!r} than in {other.subject!r}",
                )  # fmt: skip
            for reference in schema.references:
                if (reference.subject, reference.version) not in self.registry.schemas and schema.deleted is None:
                    self._find(
                        FindingCode.SCHEMA_REFERENCE_MISSING, Severity.WARNING, schema.offset,
                        f"subject {schema.subject!r} version {schema.version} refers to subject {reference.subject!r} "
                        f"version {reference.version}, which is not here",
                    )  # fmt: skip


def _words(key: LogicalKey) -> str:
    what = key.kind.lower().replace("_", " ")
    of = "all subjects" if key.subject is None else f"subject {key.subject!r}"
    return f"{what} of {of}" + ("" if key.version is None else f" version {key.version}")


class _Rules(Struct, frozen=True):
    """The effect of each type of record on a registry."""

    registry: SchemaRegistry

    def apply(self, record: SchemaRecord) -> None:
        """Apply a record to the registry. The tombstone of a schema marks it as permanently deleted. Tombstones of
        DELETE_SUBJECT and CLEAR_SUBJECT, and records of key types without an effect, such as NOOP, change nothing.
        Raises `ValueError` for an invalid value before anything is changed.
        """
        key = record.key
        if key.kind == "SCHEMA":
            self._schema(record)
        elif key.kind == "DELETE_SUBJECT" and record.value is not None:
            last = _number(record.value, "version")
            self._each(key.subject, lambda found: found.version <= last and found.deleted is None, SchemaDeletion.SOFT)
        elif key.kind == "CLEAR_SUBJECT" and record.value is not None:
            self._each(key.subject, lambda found: found.deleted is not None, SchemaDeletion.PERMANENT)
        elif key.kind == "CONFIG":
            self._setting(record)
        elif key.kind == "MODE":
            if record.value is None:
                self.registry.modes.pop(key.subject, None)
            else:
                self.registry.modes[key.subject] = _text(record.value, "mode")

    def _schema(self, record: SchemaRecord) -> None:
        place = (record.key.subject or "", record.key.version or 0)
        if record.value is not None:
            self.registry.schemas[place] = schema_of(record)
        elif place in self.registry.schemas:
            self.registry.schemas[place] = replace(self.registry.schemas[place], deleted=SchemaDeletion.PERMANENT)

    def _setting(self, record: SchemaRecord) -> None:
        if record.value is None:
            self.registry.compatibility.pop(record.key.subject, None)
        else:
            fields = {name: value for name, value in record.value.items() if name != "subject" and value is not None}
            self.registry.compatibility[record.key.subject] = fields

    def _each(self, subject: str | None, meant: Callable[[Schema], bool], deleted: SchemaDeletion) -> None:
        for place, schema in self.registry.schemas.items():
            if schema.subject == subject and meant(schema):
                self.registry.schemas[place] = replace(schema, deleted=deleted)
