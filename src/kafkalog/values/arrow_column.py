"""Decoding of the keys or values of one topic, written with any schemas, to an Arrow column of one type."""

from __future__ import annotations

import json
from base64 import b64decode
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.model import Header
from kafkalog.values.arrow_batches import BatchDecoder, batch_decoder, only_id, validated
from kafkalog.values.arrow_types import arrow_type_of_avro, arrow_type_of_protobuf
from kafkalog.values.avro import AvroDecoder
from kafkalog.values.avro_names import same_form
from kafkalog.values.avro_schema import names_in
from kafkalog.values.column_schema import ColumnSchema
from kafkalog.values.decoding import ValueDecoder, avro_json, schema_of
from kafkalog.values.fitting import ARROW_MISFITS, fitting
from kafkalog.values.json_values import exact_json
from kafkalog.values.masking import hidden
from kafkalog.values.payloads import Framed, UndecodableError, framed
from kafkalog.values.registry import Schema
from kafkalog.values.resolving import resolver

__all__ = ["SCHEMA_TYPE", "ColumnDecoder", "Decoded"]

SCHEMA_TYPE = pa.struct([("id", pa.int32()), ("type", pa.string()), ("subject", pa.string())])
TOGETHER = 16
"""number of values of one schema from which they are decoded in one call"""
_NOT_PLAIN = r"^[ \t\r\n]*[\[{]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x{80}-\x{9f}]"
"""Bytes that a plain text does not have: JSON, the first byte of a frame, control characters (`payloads`,
`json_values`).
"""
_SECOND = timedelta(seconds=1)
_dumps = exact_json(json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode)
_MISFITS = (*ARROW_MISFITS, OverflowError, TypeError, ValueError)


class Decoded(NamedTuple):
    """A decoded batch of keys or values."""

    values: pa.Array
    schemas: pa.Array
    problems: dict[int, str]
    """row -> reason why the value could not be decoded; the row is null then"""


class _Way(Struct, frozen=True):
    """The functions that convert payloads of one schema to values of the column."""

    one: Callable[[Framed], object]
    many: BatchDecoder | None = None


class ColumnDecoder:
    """Decoder of a column of keys or values to one Arrow type.

    The type is that of the reader's schema. Without a reader, or if Arrow has no such type, the column is text: JSON
    for a value with a schema (a string is in quotes) and for an object or array without one; other text is unchanged.
    """

    def __init__(self, decoder: ValueDecoder, topic: str | None, part: str, chosen: ColumnSchema) -> None:
        reader = chosen.reader
        self._decoder, self._topic, self._part, self._reader = decoder, topic, part, reader
        self._ways: dict[Schema, _Way | UndecodableError] = {}
        self._words: dict[Schema, dict[str, object]] = {}
        self._path, self._masks = chosen.path, chosen.masks
        found = None if reader is None else self._type_of(reader)
        self.type: pa.DataType = pa.string() if found is None else found  # a struct of nothing counts as False
        self._is_text = found is None

    def _type_of(self, reader: Schema) -> pa.DataType | None:
        try:
            if reader.type == "AVRO":
                return arrow_type_of_avro(avro_json(reader.text), self._decoder.avro_references(reader))
            if reader.type == "PROTOBUF":
                return arrow_type_of_protobuf(self._protobuf(reader).message_of(self._path).DESCRIPTOR)
        except UndecodableError as error:
            raise UsageError(f"schema id {reader.id} of subject {reader.subject!r} gives no column: {error}") from None
        return None

    def _protobuf(self, schema: Schema) -> Any:
        return self._decoder.decoder_of(schema)

    def decode(self, column: pa.Array, headers: Sequence[Sequence[Header]] | None) -> Decoded:
        """Decode each value, or record why it cannot be decoded. `headers` has the headers of each row; None if no
        record has headers. Raises `UsageError` if a package that a schema needs is missing.
        """
        if headers is None and (whole := self._texts(column) if self._is_text else self._whole(column)) is not None:
            return whole
        return self._rows(column.to_pylist(), headers or [()] * len(column))

    @staticmethod
    def _texts(column: pa.Array) -> Decoded | None:
        """Decode a column of plain text in one call; nulls stay, and there are no schemas and no problems. Return None
        if the column has fewer than `TOGETHER` values, or if a value is not UTF-8 or begins like a JSON object or
        array. Return None also if a value has control characters other than tab, line feed and carriage return. After
        None the caller decodes the values one by one.
        """
        try:
            texts = column.cast(pa.string())
        except pa.ArrowInvalid:  # not UTF-8
            return None
        if len(column) < TOGETHER or pc.any(pc.match_substring_regex(texts, _NOT_PLAIN)).as_py():
            return None
        return Decoded(texts, pa.nulls(len(column), SCHEMA_TYPE), {})

    def _whole(self, column: pa.Array) -> Decoded | None:
        """Decode a column in one call. Return None if this is not possible; the caller then decodes the values one by
        one. The column must have at least `TOGETHER` values, none of them null, with one schema id. The schema must be
        known, have the form of the reader's, and have a `batch_decoder` (which needs pyruhvro). Each value must allow
        it (see `BatchDecoder`). Raises `UsageError` if a package that the schema's type needs is missing.
        """
        id = None if len(column) < TOGETHER else only_id(column)
        if id is None:
            return None
        try:
            schema = schema_of(self._decoder.registry, Framed(payload=b"", id=id), self._topic, self._part)
            many = self._way(schema).many
        except UndecodableError:
            return None
        values = None if many is None else many.decode_framed(column)
        if values is None:
            return None
        words = pa.array([self._words_of(schema)], SCHEMA_TYPE)
        return Decoded(values, words.take(pa.array(np.zeros(len(column), np.int32))), {})

    def _rows(self, data: Sequence[bytes | None], headers: Sequence[Sequence[Header]]) -> Decoded:
        values: list[Any] = [None] * len(data)
        schemas: list[Any] = [None] * len(data)
        problems: dict[int, str] = {}
        groups: defaultdict[Schema, list[tuple[int, Framed]]] = defaultdict(list)
        known: dict[int, Schema] = {}
        for row, each in enumerate(data):
            if each is None:
                continue
            try:
                frame = None if self._is_text else framed(each, headers[row], self._part)
                if frame is None:
                    values[row], schemas[row] = self._loose(each, headers[row])
                else:
                    schema = known.get(frame.id) if frame.id is not None else None
                    if schema is None:
                        schema = schema_of(self._decoder.registry, frame, self._topic, self._part)
                        if frame.id is not None:
                            known[frame.id] = schema
                    groups[schema].append((row, frame))
            except UndecodableError as error:
                problems[row] = f"{self._part}: {error}"
        many: list[tuple[list[int], pa.Array]] = []
        for schema, rows in groups.items():
            words = self._words_of(schema)
            for row, _ in rows:
                schemas[row] = words
            together = self._together(schema, rows)
            if together is not None:
                many.append(([row for row, _ in rows], together))
                continue
            for row, frame in rows:
                try:
                    values[row] = self._one(schema, frame)
                except UndecodableError as error:
                    problems[row] = f"{self._part}: {error} (schema id {schema.id})"
        column = self._array(values, problems)
        return Decoded(_placed(column, many), _schemas(schemas, problems), problems)

    def _loose(self, data: bytes, headers: Sequence[Header]) -> tuple[object, object]:
        """Decode a value without a frame (schema id), or any value if the column is text. Return the value for Arrow,
        and a dict with id, type and subject of its schema (None without a schema). Raises `UndecodableError` if the
        value cannot be decoded, or if it has no schema but the column has one; plain text is accepted if that column
        contains strings. Raises `UsageError` if a package is missing.
        """
        decoded_value = self._decoder.decode(data, headers, self._topic, self._part)
        if decoded_value.problem is not None:
            raise UndecodableError(decoded_value.problem.removeprefix(f"{self._part}: "))
        words = None if decoded_value.schema is None else self._words_of(decoded_value.schema)
        if not self._is_text:
            if pa.types.is_string(self.type) and isinstance(decoded_value.value, str):
                return decoded_value.value, words
            raise UndecodableError("it has no schema, and the column has one")
        is_plain = words is None and isinstance(decoded_value.value, str)
        return decoded_value.value if is_plain else _dumps(decoded_value.value), words

    def _words_of(self, schema: Schema) -> dict[str, object]:
        words = self._words.get(schema)
        if words is None:
            words = {"id": schema.id, "type": schema.type, "subject": schema.subject}
            self._words[schema] = words
        return words

    def _way(self, schema: Schema) -> _Way:
        way = self._ways.get(schema)
        if way is None:
            try:
                way = self._made(schema)
            except UndecodableError as error:
                way = error
            self._ways[schema] = way
        if isinstance(way, UndecodableError):
            raise UndecodableError(str(way))
        return way

    def _made(self, schema: Schema) -> _Way:
        reader = self._reader
        if reader is None or schema.type != reader.type:
            raise UndecodableError("its schema is of another kind than that of the column")
        if schema.type == "PROTOBUF":
            decoder, wanted = self._protobuf(schema), self._protobuf(reader).message_of(self._path)
            name, later = wanted.DESCRIPTOR.full_name, None if schema == reader else wanted
            typed = _typed(self.type) or (lambda value: value)

            def one(frame: Framed) -> object:
                if decoder.name_in(frame.payload, frame.path) != name:
                    raise UndecodableError("it is another message than those of the column")
                value = typed(decoder.decode(frame.payload, frame.path, read_as=later, values_as_text=True))
                if later is None or not self._masks:
                    return value
                return _hidden(value, decoder.renamed(frame.payload, frame.path, later, self._masks))

            return _Way(one)
        text, references = avro_json(schema.text), self._decoder.avro_references(schema)
        wanted = avro_json(reader.text)
        names, wanted_names = _all_names(text, references), _all_names(wanted, self._decoder.avro_references(reader))
        is_same = schema.text == reader.text and schema.references == reader.references
        if is_same or same_form(text, names, wanted, wanted_names):
            decode = AvroDecoder(text, references, typed=True).decode
            return _Way(lambda frame: decode(frame.payload), batch_decoder(text, references, self.type))
        decode = AvroDecoder(text, references, raw=True).decode
        change = resolver(text, names, wanted, wanted_names, self._masks)
        return _Way(lambda frame: change(decode(frame.payload)))

    def _one(self, schema: Schema, frame: Framed) -> object:
        return self._way(schema).one(frame)

    def _together(self, schema: Schema, rows: Sequence[tuple[int, Framed]]) -> pa.Array | None:
        if len(rows) < TOGETHER:
            return None
        try:
            many = self._way(schema).many
        except UndecodableError:
            return None
        return None if many is None else many.decode([frame.payload for _, frame in rows])

    def _array(self, values: list[Any], problems: dict[int, str]) -> pa.Array:
        """Convert values to an array of the column's type. A value that does not fit becomes null, with its reason in
        `problems`.
        """
        column, lost = fitting(values, lambda some: validated(pa.array(some, self.type)), self.type, _MISFITS)
        problems |= dict.fromkeys(lost, f"{self._part}: it does not fit the type of the column")
        return column


def _all_names(schema: Any, references: Any) -> dict[str, tuple[Any, str]]:
    return {**references, **names_in(schema)}


def _placed(column: pa.Array, many: list[tuple[list[int], pa.Array]]) -> pa.Array:
    """Return `column` with decoded values put into their rows. `many` has pairs of a list of ascending row numbers and
    an array with the values for these rows.
    """
    if not many:
        return column
    if len(many) == 1 and len(many[0][0]) == len(column):
        return many[0][1]
    whole = pa.concat_arrays([column, *(values for _, values in many)])
    places, begin = list(range(len(column))), len(column)
    for rows, values in many:
        for number, row in enumerate(rows):
            places[row] = begin + number
        begin += len(values)
    return whole.take(pa.array(places, pa.int64()))


def _schemas(schemas: list[Any], problems: dict[int, str]) -> pa.Array:
    return pa.array([None if row in problems else each for row, each in enumerate(schemas)], SCHEMA_TYPE)


def _typed(type: pa.DataType) -> Callable[[Any], Any] | None:
    """Return the function that converts a value from `ProtobufDecoder.decode` to the value that Arrow accepts for
    `type`. It makes bytes from base64, floats from text such as `NaN`, and timestamps (ns since 1970) from text, also
    inside lists, maps and structs. In a string column, a value that is not a string becomes JSON text. The function
    returns None for None. If no conversion is needed, return None instead of a function.
    """
    if pa.types.is_binary(type):
        return lambda text: None if text is None else b64decode(text)
    if pa.types.is_floating(type):
        return lambda number: None if number is None else float(number)
    if pa.types.is_timestamp(type):
        return _nanoseconds
    if pa.types.is_list(type):
        return _each(_typed(type.value_type))
    if pa.types.is_map(type):
        return _each(_typed(type.item_type))
    if pa.types.is_struct(type):
        changes = {each.name: change for each in type if (change := _typed(each.type)) is not None}
        return None if not changes else lambda found: _changed(found, changes)
    if pa.types.is_string(type):
        return lambda value: value if value is None or isinstance(value, str) else _dumps(value)
    return None


def _each(change: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    """Return a function that applies `change` to every item of a list, or to every value of a dict. For None it returns
    None. If `change` is None, return None instead of a function.
    """
    if change is None:
        return None

    def changed(found: Any) -> Any:
        if isinstance(found, dict):
            return {name: change(each) for name, each in found.items()}
        return None if found is None else [change(each) for each in found]

    return changed


def _changed(found: Any, changes: dict[str, Callable[[Any], Any]]) -> Any:
    if not isinstance(found, dict):
        return found
    return {name: changes[name](each) if name in changes else each for name, each in found.items()}


def _hidden(value: Any, names: frozenset[str]) -> Any:
    """Return a copy of a value for Arrow in which the fields with one of these names are hidden, at any depth."""
    if isinstance(value, dict):
        return {name: hidden(each) if name in names else _hidden(each, names) for name, each in value.items()}
    return [_hidden(each, names) for each in value] if isinstance(value, list) else value


def _nanoseconds(text: str | None) -> int | None:
    if text is None:
        return None
    seconds, _, digits = text.removesuffix("Z").partition(".")
    moment = datetime.strptime(seconds, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // _SECOND * 10**9 + int(digits.ljust(9, "0") or 0)
