"""Avro values of another version, as Avro's specification and Java's Avro have them; interop compares 5,000 pairs."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest

import kafkalog
from kafkalog.codec.encode.batch import build_batch
from kafkalog.codec.model import Record, TimestampType
from kafkalog.values.registry import Schema, SchemaRegistry


def field(name: str, type: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type, **more}


def record(name: str, *fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def read(
    path: Path, writer: Sequence[dict[str, Any]], reader: Sequence[dict[str, Any]], values: Sequence[dict[str, Any]]
) -> tuple[list[Any], list[str | None]]:
    """The values, written with the first fields, in a column of the second; and the findings."""
    texts = [record("T", *writer), record("T", *reader)]
    registry = SchemaRegistry()
    for id, text in enumerate(texts, 1):
        registry.schemas["t-value", id] = Schema(
            subject="t-value", version=id, id=id, type="AVRO", text=json.dumps(text)
        )
    parsed = fastavro.parse_schema(json.loads(json.dumps(texts[0])))
    records = []
    for number, value in enumerate(values):
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, value)
        framed = b"\0\0\0\0\x01" + stream.getvalue()
        records.append(Record(number, 1, TimestampType.CREATE_TIME, None, framed))
    (path / "t-0").mkdir()
    (path / "t-0" / f"{0:020}.log").write_bytes(build_batch(records))
    partition = kafkalog.open_partition(path / "t-0")
    decoding = kafkalog.DecodedValues(schemas=registry, values_schema=2)
    table = partition.to_arrow(findings=[], decoding=decoding).read_all()
    return table["value"].to_pylist(), table["finding"].to_pylist()


def event(name: str) -> dict[str, Any]:
    return record(name, field("order", "string"))


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
E2 = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
STRING = {"type": "string", "avro.java.string": "String"}
OF_CASES: dict[str, tuple[Any, Any, dict[str, Any], dict[str, Any]]] = {
    "branches of records by name": (
        field("e", [event("Created"), event("Cancelled")]),
        field("e", [event("Created"), event("Paid"), event("Cancelled")]), {"e": ("Cancelled", {"order": "o"})},
        {"e": {"member0": None, "member1": None, "member2": {"order": "o"}}},
    ),
    "a branch of its exact type before one that is wider": (
        field("u", ["null", "int"]), field("u", ["double", "int", "null"]), {"u": 5},
        {"u": {"member0": None, "member1": 5}},
    ),
    "branches in another order": (
        field("u", ["null", "long", "string"]), field("u", ["null", "string", "long"]), {"u": 5},
        {"u": {"member0": None, "member1": 5}},
    ),
    "a branch less": (field("u", ["null", "long", "string"]), field("u", ["null", "long"]), {"u": 5}, {"u": 5}),
    "null in a union of several": (
        field("u", ["null", "long", "string"]), field("u", ["long", "null", "string", "boolean"]), {"u": None},
        {"u": None},
    ),
    "a branch after two with a record that does not fit": (
        field("u", record("W", field("f", record("X", field("a", "int"))), field("k", "int"))),
        field("u", [
            "null", record("B1", field("f", record("Y", field("b", "int")))), record("B2", field("f", "Y")),
            record("B3", field("k", "int")),
        ]), {"u": {"f": {"a": 1}, "k": 7}}, {"u": {"member0": None, "member1": None, "member2": {"k": 7}}},
    ),
    "an alias of a field": (
        field("old", "string"), field("new", "string", aliases=["old"]), {"old": "x"}, {"new": "x"},
    ),
    "an alias of a type": (
        field("r", record("Old", field("a", "int"))), field("r", record("New", field("a", "int"), aliases=["Old"])),
        {"r": {"a": 1}}, {"r": {"a": 1}},
    ),
    "an enum of another namespace": (
        field("e", {**E2, "namespace": "a.b"}), field("e", {**E2, "namespace": "c"}), {"e": "B"}, {"e": "B"},
    ),
    "a fixed of another namespace, by its alias": (
        field("f", {"type": "fixed", "name": "a.Old", "size": 1}),
        field("f", {"type": "fixed", "name": "b.New", "size": 1, "aliases": ["c.New", "a.Old"]}), {"f": b"x"},
        {"f": b"x"},
    ),
    "two ways to write string": (field("a", "string"), field("a", STRING), {"a": "x"}, {"a": "x"}),
    "a symbol of an enum that shrank": (
        field("e", E2), field("e", {**E2, "symbols": ["A"]}), {"e": "A"}, {"e": "A"},
    ),
    "a symbol that the reader replaces": (
        field("e", E2), field("e", {**E2, "symbols": ["A", "C"], "default": "C"}), {"e": "B"}, {"e": "C"},
    ),
    "an int as float": (field("a", "int"), field("a", "float"), {"a": 2**24 + 1}, {"a": float(2**24)}),
    "a long as double": (field("a", "long"), field("a", "double"), {"a": 2**53 + 1}, {"a": float(2**53)}),
    "text as bytes": (field("a", "string"), field("a", "bytes"), {"a": "ü"}, {"a": "ü".encode()}),
}  # fmt: skip


@pytest.mark.parametrize("case", OF_CASES)
def test_values_are_resolved(case: str, tmp_path: Path) -> None:
    writer, reader, value, expected = OF_CASES[case]
    # a field more, so that the schemas differ
    found, findings = read(tmp_path, [writer], [reader, field("more", "int", default=1)], [value])
    assert findings == [None]
    assert found == [{**expected, "more": 1}]


OF_DEFAULTS: dict[str, tuple[Any, Any, Any]] = {
    "bytes": ("bytes", "\u00ff", b"\xff"),
    "fixed": ({"type": "fixed", "name": "X", "size": 2}, "\u0000\u00fe", b"\x00\xfe"),
    "decimal": (DECIMAL, "\u0001", Decimal("0.01")),
    "union": (["string", "int", "null"], "s", {"member0": "s", "member1": None}),
    "record with a default inside": (
        record("Q", field("x", "int"), field("y", "int", default=7)), {"x": 5}, {"x": 5, "y": 7},
    ),
    "list of records": (
        {"type": "array", "items": record("Q", field("b", "bytes", default="\u0080"))}, [{}], [{"b": b"\x80"}],
    ),
    "a large number": ("long", 2**62 + 1, 2**62 + 1),
    "float": ("float", 1, 1.0),
}  # fmt: skip


@pytest.mark.parametrize("case", OF_DEFAULTS)
def test_defaults_are_values_of_their_type(case: str, tmp_path: Path) -> None:
    type, default, expected = OF_DEFAULTS[case]
    reader = [field("a", "int"), field("d", type, default=default)]
    found, findings = read(tmp_path, [field("a", "int")], reader, [{"a": 1}])
    assert findings == [None]
    assert found == [{"a": 1, "d": expected}]


def test_what_does_not_fit_is_refused_for_its_values_alone(tmp_path: Path) -> None:
    writer, reader = field("u", ["null", "long", "string"]), field("u", ["null", "long"])
    found, findings = read(tmp_path, [writer], [reader], [{"u": 5}, {"u": "x"}, {"u": None}])
    assert found == [{"u": 5}, None, {"u": None}]
    assert [each is not None for each in findings] == [False, True, False]


@pytest.mark.parametrize("wanted", ["int", "long", "float", "double"])
def test_an_int_of_more_than_32_bits_does_not_decode(wanted: str, tmp_path: Path) -> None:
    """Avro's specification: an int has 32 bits. Its encoding is that of a long, so a damaged one can have more."""
    registry = SchemaRegistry()
    for id, type in enumerate(("int", wanted), 1):
        registry.schemas["t-value", id] = Schema(
            subject="t-value", version=id, id=id, type="AVRO", text=json.dumps(record("T", field("a", type)))
        )
    framed = b"\0\0\0\0\x01" + bytes.fromhex("feffffff4f")
    (path := tmp_path / "t-0").mkdir()
    written = Record(0, 1, TimestampType.CREATE_TIME, None, framed)
    (path / f"{0:020}.log").write_bytes(build_batch([written]))
    decoding = kafkalog.DecodedValues(schemas=registry, values_schema=2)
    table = kafkalog.open_partition(path).to_arrow(findings=[], decoding=decoding).read_all()
    assert table["value"].to_pylist() == [None]
    assert table["value_bytes"].to_pylist() == [framed]
    assert "an int has more than 32 bits" in str(kafkalog.ValueDecoder(registry).value(written, "t").problem)


def test_a_record_of_another_name_is_not_one_with_nulls(tmp_path: Path) -> None:
    """Java: `Found Order, expecting Person, missing required field name`."""
    person, order = record("Person", field("name", "string")), record("Order", field("total", "long"))
    writer = field("u", [person, order])
    values: list[dict[str, Any]] = [{"u": ("Person", {"name": "a"})}, {"u": ("Order", {"total": 42})}]
    found, findings = read(tmp_path, [writer], [field("u", person)], values)
    assert found == [{"u": {"name": "a"}}, None]
    assert [each is not None for each in findings] == [False, True]


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("string", "int"), ("long", "int"), (DECIMAL, {**DECIMAL, "scale": 3}),
        ({"type": "long", "logicalType": "timestamp-millis"}, {"type": "long", "logicalType": "timestamp-micros"}),
        ({"type": "fixed", "name": "X", "size": 2}, {"type": "fixed", "name": "X", "size": 3}),
    ],
)  # fmt: skip
def test_other_amounts_are_never_given(written: Any, wanted: Any, tmp_path: Path) -> None:
    value = {"string": "1", "long": 1}.get(str(written), b"ab" if "fixed" in str(written) else 1)
    value = Decimal("1.25") if written is DECIMAL else value
    found, findings = read(tmp_path, [field("a", written)], [field("a", wanted)], [{"a": value}])
    assert found == [None]
    assert "cannot take" in str(findings[0])


@pytest.mark.parametrize("names", [("a", "b"), ("a", "c"), ("c", "a")])
@pytest.mark.parametrize("is_inner", [False, True])
def test_two_fields_with_one_name_in_the_reader_do_not_decode(
    names: tuple[str, str], is_inner: bool, tmp_path: Path
) -> None:
    """Java: `Duplicate field c in record`."""
    writer = [field(each, "string") for each in names]
    reader = [field("c", "string", aliases=["a", "b"]), field("more", "int", default=1)]
    value: dict[str, Any] = dict(zip(names, "xy", strict=True))
    if is_inner:
        writer, reader = [field("r", record("R", *writer))], [field("r", ["null", record("R", *reader)])]
        value = {"r": value}
    found, findings = read(tmp_path, writer, reader, [value])
    assert found == [None]
    assert "cannot take" in str(findings[0])
