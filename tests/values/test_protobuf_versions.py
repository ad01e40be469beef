"""Protobuf values of another version: fields are matched by number, and none is cut or dropped without a word."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog.codec.encode.batch import build_batch
from kafkalog.codec.model import Record, TimestampType
from kafkalog.values import protoc
from kafkalog.values.registry import Schema, SchemaRegistry

HEAD = 'syntax = "proto3"; message Order { string note = 2; %s }'
PAYLOAD = b"\x12\x01x"
FIVE = b"\x08\x05"


def read(
    path: Path, written: str, wanted: str, payload: bytes, partitions: int = 1, head: str = HEAD
) -> tuple[list[Any], list[Any]]:
    registry = SchemaRegistry()
    for id, field in ((1, written), (2, wanted)):
        registry.schemas["t-value", id] = Schema(
            subject="t-value", version=id, id=id, type="PROTOBUF", text=head % field
        )
    values, findings = [], []
    for number in range(partitions):
        (path / f"t-{number}").mkdir()
        value = b"\0\0\0\0\x01\0" + payload + PAYLOAD
        log = path / f"t-{number}" / f"{0:020}.log"
        log.write_bytes(build_batch([Record(0, 1, TimestampType.CREATE_TIME, None, value)]))
        partition = kafkalog.open_partition(path / f"t-{number}")
        decoding = kafkalog.DecodedValues(schemas=registry, values_schema=2)
        table = partition.to_arrow(findings=[], decoding=decoding).read_all()
        values += table["value"].to_pylist()
        findings += table["finding"].to_pylist()
    return values, findings


@pytest.mark.parametrize(
    ("written", "wanted", "payload", "expected"),
    [
        ("int64 id = 1;", "int64 order_id = 1;", FIVE, {"order_id": 5}),
        ("int32 id = 1;", "int64 id = 1;", b"\x08" + b"\xff" * 9 + b"\x01", {"id": -1}),
        ("int64 id = 1;", "repeated int64 ids = 1;", FIVE, {"ids": [5]}),
        ("string id = 1;", "bytes id = 1;", b"\x0a\x02\xc3\xbc", {"id": "ü".encode()}),
        ("int64 id = 1;", "", FIVE, {}),
        ("", "int64 id = 1;", b"", {"id": 0}),
        ("Old o = 1; message Old { int64 a = 3; }", "New n = 1; message New { int64 b = 3; }", b"\x0a\x02\x18\x07",
         {"n": {"b": 7}}),
    ],
)  # fmt: skip
def test_fields_are_matched_by_number(
    written: str, wanted: str, payload: bytes, expected: dict[str, Any], tmp_path: Path
) -> None:
    values, findings = read(tmp_path, written, wanted, payload)
    assert findings == [None]
    assert values == [{"note": "x", **expected}]


@pytest.mark.parametrize(
    ("written", "wanted", "payload"),
    [
        ("int64 id = 1;", "string id = 1;", FIVE),  # Protobuf drops it as unknown
        ("int64 id = 1;", "int32 id = 1;", b"\x08\x80\x80\x80\x80\x10"),  # and cuts this one
        ("sint64 id = 1;", "int64 id = 1;", FIVE),
        ("repeated int64 ids = 1;", "int64 id = 1;", b"\x0a\x02\x05\x06"),
        ("O o = 1; message O { int64 a = 3; }", "O o = 1; message O { double a = 3; }", b"\x0a\x02\x18\x07"),
        ("int32 a = 1; int32 b = 3;", "oneof o { int32 a = 1; int32 b = 3; }", FIVE + b"\x18\x07"),  # drops one
        ("I i = 1; message I { int32 a = 1; int32 b = 3; }",
         "I i = 1; message I { oneof o { int32 a = 1; int32 b = 3; } }",
         b"\x0a\x04\x08\x05\x18\x07"),
    ],
)  # fmt: skip
def test_a_number_with_another_type_is_a_finding(written: str, wanted: str, payload: bytes, tmp_path: Path) -> None:
    values, findings = read(tmp_path, written, wanted, payload)
    assert values == [None]
    assert "does not take what it was written with" in findings[0]


NOT_TAKEN = "does not take what it was written with"
PROTO2 = 'syntax = "proto2"; message Order { optional string note = 2; %s }'


@pytest.mark.parametrize(
    ("written", "wanted", "payload", "reason"),
    [
        ("optional int32 e = 1;", "optional E e = 1; enum E { X = 0; }", FIVE, NOT_TAKEN),
        ("repeated int32 e = 1;", "repeated E e = 1; enum E { X = 0; }", FIVE, NOT_TAKEN),
        ("map<string, int32> e = 1;", "map<string, E> e = 1; enum E { X = 0; }", b"\x0a\x05\x0a\x01k\x10\x05",
         NOT_TAKEN),
        ("repeated I i = 1; message I { optional int32 a = 1; }", "repeated group I = 1 { optional int32 a = 1; }",
         b"\x0a\x00", NOT_TAKEN),
        ("", "required int32 q = 1;", b"", "lacks a field that the schema of the result requires"),
        ("optional string s = 1;", "", b"\x0a\x01\xff", "do not fit its Protobuf schema"),
    ],
)  # fmt: skip
def test_proto2_values_that_another_version_would_lose(
    written: str, wanted: str, payload: bytes, reason: str, tmp_path: Path
) -> None:
    values, findings = read(tmp_path, written, wanted, payload, head=PROTO2)
    assert values == [None]
    assert reason in findings[0]


def test_a_proto2_enum_that_takes_the_value(tmp_path: Path) -> None:
    values, findings = read(tmp_path, "optional int32 e = 1;", "optional E e = 1; enum E { X = 5; }", FIVE, head=PROTO2)
    assert (values, findings) == ([{"note": "x", "e": "X"}], [None])


def test_the_first_name_of_a_number_counts(tmp_path: Path) -> None:
    """As `Descriptors.EnumDescriptor.findValueByNumber` and Python's own JSON say."""
    field = "optional E e = 1; enum E { option allow_alias = true; W = 0; X = 5; Y = 5; A = 5; }"
    values, findings = read(tmp_path, field, field, FIVE, head=PROTO2)
    assert (values, findings) == ([{"note": "x", "e": "X"}], [None])


def test_a_schema_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    compile_it = protoc._compile

    def counting(files: Mapping[str, str], main: str) -> bytes:
        compiled.append(main)
        return compile_it(files, main)

    monkeypatch.setattr(protoc, "_compile", counting)
    protoc._once.cache_clear()
    values, _ = read(tmp_path, "int64 once = 1;", "int64 only_once = 1;", FIVE, partitions=5)
    assert [each["only_once"] for each in values] == [5] * 5
    assert len(compiled) == 2
