"""Decoding of keys and values to JSON values. If one cannot be decoded, its bytes are kept, with a reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from kafkalog.codec.common.extras import needed
from kafkalog.codec.model import Header, Record
from kafkalog.values.json_values import JsonDecoder, json_or_none
from kafkalog.values.payloads import Framed, PayloadDecoder, UndecodableError, framed, plain_text
from kafkalog.values.registry import Schema, SchemaRegistry
from kafkalog.values.schema_log import loaded_json

__all__ = ["DecodedValue", "ValueDecoder", "avro_json", "schema_of"]

LARGEST_SCHEMA = 4 * 1024 * 1024
_MOST_REFERENCES = 1000


class DecodedValue(Struct, frozen=True, kw_only=True):
    """A decoded key or value, or the reason why it cannot be decoded."""

    value: object = None
    """JSON value; a number in it that a double would change is a `Decimal`.  None for null, and if `problem` is not
    None.
    """
    schema: Schema | None = None
    """schema that it was written with; None for JSON and text without a schema"""
    problem: str | None = None
    """reason why it cannot be decoded, without any of its content; None if it was decoded"""
    data: bytes | None = None
    """its bytes if it cannot be decoded; else None"""

    @property
    def schema_words(self) -> dict[str, int | str | None] | None:
        """Id, type and subject of the schema for JSON; None without a schema."""
        if self.schema is None:
            return None
        return {"id": self.schema.id, "type": self.schema.type, "subject": self.schema.subject}


class _Reference(NamedTuple):
    name: str
    schema: Schema


class ValueDecoder:
    """Decoder of keys and values by the schemas of a registry. The decoder of a schema is created when the schema is
    first used.
    """

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._decoders: dict[Schema, PayloadDecoder | UndecodableError] = {}

    def key(self, record: Record, topic: str | None) -> DecodedValue:
        """Decode the key of a record of `topic`. Raises `UsageError` as `decode` does."""
        return self.decode(record.key, record.headers, topic, "key")

    def value(self, record: Record, topic: str | None) -> DecodedValue:
        """Decode the value of a record of `topic`. Raises `UsageError` as `decode` does."""
        return self.decode(record.value, record.headers, topic, "value")

    def decode(
        self, data: bytes | None, headers: Sequence[Header] = (), topic: str | None = None, part: str = "value"
    ) -> DecodedValue:
        """Decode a `part` (`key` or `value`) of a record in `topic`. The first of these forms that it has is decoded:
        null; the schema's GUID or id in a header; Confluent's wire format (first byte 0); an object or array in JSON;
        text. If that fails, no error is raised: the result has a `problem` and the bytes. Raises `UsageError` if a
        package that the schema's type needs is not installed.
        """
        if data is None:
            return DecodedValue()
        schema = None
        try:
            frame = framed(data, headers, part)
            if frame is None:
                json_value = json_or_none(data)
                return DecodedValue(value=plain_text(data) if json_value is None else json_value)
            schema = schema_of(self._registry, frame, topic, part)
            return DecodedValue(value=self.decoder_of(schema).decode(frame.payload, frame.path), schema=schema)
        except UndecodableError as error:
            of = "" if schema is None else f" (schema id {schema.id})"
            return DecodedValue(problem=f"{part}: {error}{of}", data=data)

    @property
    def registry(self) -> SchemaRegistry:
        """Registry that the schemas are from."""
        return self._registry

    def decoder_of(self, schema: Schema) -> PayloadDecoder:
        """Return the decoder of a schema's payloads, which is created at the first call for that schema and cached.

        Raises `UndecodableError` if the schema is invalid or too large, or if its type or a reference is unknown; later
        calls raise the same error. Raises `UsageError` if a package that the type needs is not installed.
        """
        decoder = self._decoders.get(schema)
        if decoder is None:
            try:
                decoder = self._made(schema)
            except UndecodableError as error:
                decoder = error
            self._decoders[schema] = decoder
        if isinstance(decoder, UndecodableError):
            raise UndecodableError(str(decoder))
        return decoder

    def _made(self, schema: Schema) -> PayloadDecoder:
        if len(schema.text) > LARGEST_SCHEMA:
            raise UndecodableError(f"its schema is larger than {LARGEST_SCHEMA} characters")
        if schema.type == "JSON":
            return JsonDecoder()
        if schema.type == "AVRO":
            with needed("decoding Avro", "values"):
                from kafkalog.values.avro import AvroDecoder

            return AvroDecoder(avro_json(schema.text), self.avro_references(schema))
        if schema.type == "PROTOBUF":
            with needed("decoding Protobuf", "values"):
                from kafkalog.values.protobuf import ProtobufDecoder

            return ProtobufDecoder(schema.text, {each.name: each.schema.text for each in self._references(schema)})
        raise UndecodableError("the type of its schema is unknown here")

    def avro_references(self, schema: Schema) -> dict[str, tuple[Any, str]]:
        """Return the definitions of the names in the references of an Avro schema, including indirect references: full
        name -> definition and namespace.

        The first definition of a name counts. Raises `UndecodableError` if a referenced schema is missing, too large or
        not JSON, or if there are too many.
        """
        from kafkalog.values.avro_schema import names_in

        definitions: dict[str, tuple[Any, str]] = {}
        for reference in self._references(schema):
            for name, definition in names_in(avro_json(reference.schema.text)).items():
                definitions.setdefault(name, definition)
        return definitions

    def _references(self, schema: Schema) -> Iterator[_Reference]:
        """Yield (name, schema) for each reference of a schema, direct or indirect, in depth-first order. If several
        references have the same name, only the first is followed.

        Raises `UndecodableError` if a schema is missing or too large, or if there are too many.
        """
        waiting, seen = list(reversed(schema.references)), set[str]()
        while waiting:
            schema_reference = waiting.pop()
            if schema_reference.name in seen:
                continue
            seen.add(schema_reference.name)
            referenced = self._registry.schemas.get((schema_reference.subject, schema_reference.version))
            if referenced is None or len(seen) > _MOST_REFERENCES or len(referenced.text) > LARGEST_SCHEMA:
                raise UndecodableError("a schema that its schema refers to is not there")
            yield _Reference(schema_reference.name, referenced)
            waiting += reversed(referenced.references)


def schema_of(registry: SchemaRegistry, frame: Framed, topic: str | None, part: str) -> Schema:
    """Return the schema that a frame names by GUID or id. If several subjects have that schema, the subject
    `<topic>-<part>` is preferred; `part` is `key` or `value`. If `topic` is None, no subject is preferred.

    Raises `UndecodableError` if the registry does not have the schema.
    """
    if frame.guid is not None:
        schema = registry.by_guid(frame.guid, topic, part)
        what = "the GUID in its header"
    else:
        schema = registry.by_id(frame.id or 0, topic, part)
        what = f"id {frame.id}"
    if schema is None:
        raise UndecodableError(f"no schema here has {what}")
    return schema


def avro_json(text: str) -> Any:
    """Parse the text of an Avro schema to JSON values; a bare name such as `string` is returned as a str. Raises
    `UndecodableError` for any other text.
    """
    try:
        return loaded_json(text)
    except ValueError:
        if text.strip().isidentifier():
            return text.strip()  # a primitive type by its bare name
        raise UndecodableError("its Avro schema is not JSON") from None
