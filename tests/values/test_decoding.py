"""Decoders on what nobody should have written: bounded in memory and time, and an error that names no value."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog.codec.model import Header
from kafkalog.types import DecodedValue
from kafkalog.values.avro import AvroDecoder
from kafkalog.values.decoding import ValueDecoder
from kafkalog.values.json_values import exact_json, json_or_none, parsed_json
from kafkalog.values.masking import masked
from kafkalog.values.payloads import UndecodableError, framed, plain_text
from kafkalog.values.protobuf import ProtobufDecoder
from kafkalog.values.registry import Schema, SchemaReference, SchemaRegistry
from testkit.recorded.fixture_data import unpack_values


def zigzag(number: int) -> bytes:
    value, data = (number << 1) ^ (number >> 63), b""
    while value > 0x7F:
        data += bytes([value & 0x7F | 0x80])
        value >>= 7
    return data + bytes([value])


def avro(schema: Any, payload: bytes) -> object:
    return AvroDecoder(schema, {}).decode(payload)


def record(*types: Any, name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": f"f{n}", "type": each} for n, each in enumerate(types)]}


LINKED = record(["null", "R"])
PROTO = """syntax = "proto3"; package p;
message Outer { map<string, int32> m = 1; message Inner { repeated Inner i = 1; string s = 2; bool b = 3; } }"""


@pytest.mark.parametrize(
    ("schema", "payload", "value"),
    [
        ({"type": "int", "logicalType": "date"}, zigzag(-1), "1969-12-31"),
        ({"type": "int", "logicalType": "date"}, zigzag(2**31 - 1), 2**31 - 1),
        ({"type": "int", "logicalType": "time-millis"}, zigzag(86_399_999), "23:59:59.999"),
        ({"type": "int", "logicalType": "time-millis"}, zigzag(-1), -1),
        ({"type": "long", "logicalType": "timestamp-millis"}, zigzag(-1), "1969-12-31T23:59:59.999Z"),
        ({"type": "long", "logicalType": "timestamp-millis"}, zigzag(-(2**63)), -(2**63)),
        (
            {"type": "long", "logicalType": "timestamp-micros"},
            zigzag(-62_135_596_800_000_000),
            "0001-01-01T00:00:00.000000Z",
        ),
        ({"type": "long", "logicalType": "local-timestamp-nanos"}, zigzag(1), "1970-01-01T00:00:00.000000001"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 4}, zigzag(2) + b"\xfe\x0c", "-0.0500"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4}, zigzag(1) + b"\x0c", "12"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 0}, zigzag(1) + b"\x0c", "DA=="),
        ({"type": "long", "logicalType": "date"}, zigzag(5), 5),
        (
            {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"},
            bytes(16),
            "00000000-0000-0000-0000-000000000000",
        ),
        ("float", b"\x00\x00\xc0\x7f", "NaN"),
        ("double", b"\x00\x00\x00\x00\x00\x00\xf0\xff", "-Infinity"),
        ({"type": "array", "items": "boolean"}, zigzag(5) + b"\0\1\2\x81\xff\0", [False, True, False, False, False]),
        ({"type": "array", "items": "null"}, zigzag(3) + b"\0", [None] * 3),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, zigzag(1), "B"),
    ],
)
def test_avro_as_json(schema: Any, payload: bytes, value: object) -> None:
    assert avro(schema, payload) == value


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        ({"type": "array", "items": "null"}, zigzag(2**62)),
        ({"type": "array", "items": record()}, zigzag(2**62)),
        ({"type": "array", "items": record("null", "null")}, zigzag(2**40)),
        ({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}, zigzag(2**40)),
        ({"type": "array", "items": record("boolean", *["null"] * 1000)}, zigzag(10**6) + bytes(10**6)),
        (LINKED, b"\x02" * 5_000_000 + b"\0"),
        (LINKED, b"\x02" * 900 + b"\0"),
        (LINKED, b"\xff" * 1_000_000),
        ("bytes", zigzag(2**62)),
        ("string", zigzag(-5)),
        ("string", zigzag(1) + b"\xff"),
        ("long", b"\x02\x02"),
        ("int", b""),
        ({"type": "map", "values": "int"}, zigzag(2**50) + b"\x02a"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, zigzag(-1)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9}, zigzag(100_000) + b"\x7f" * 100_000),
    ],
)
def test_hostile_avro_ends_soon_and_is_undecodable(schema: Any, payload: bytes) -> None:
    with pytest.raises(UndecodableError):
        avro(schema, payload)


def laughs(levels: int) -> Any:
    inner: Any = record(name="L0")
    for n in range(levels):
        inner = record(inner, f"L{n}", name=f"L{n + 1}")
    return inner


@pytest.mark.parametrize(
    "schema",
    [
        record("R"),
        record(record("R", name="S")),
        [],
        7,
        {},
        {"type": "record"},
        {"type": "enum", "name": "E", "symbols": 7},
        {"type": "fixed", "name": "F", "size": 2**40},
        {"type": "fixed", "name": "F", "size": -1},
        "no.such.Name",
        record({"type": "enum", "name": "R", "symbols": []}),
        {"type": "array"},
        json.loads('{"type":' * 300 + '"int"' + "}" * 300) | {"type": "nothing"},
    ],
)
def test_what_is_no_avro_schema(schema: Any) -> None:
    with pytest.raises(UndecodableError):
        AvroDecoder(schema, {})


def test_records_that_double_with_each_level_end() -> None:
    with pytest.raises(UndecodableError, match="too many values"):
        avro(laughs(60), b"")


def test_references_are_put_in_once_and_in_any_order() -> None:
    text = json.dumps({"type": "record", "name": "C", "namespace": "n", "fields": [{"name": "x", "type": "int"}]})
    both = json.dumps(["n.C", {"type": "array", "items": "n.C"}])
    registry = SchemaRegistry(schemas={
        ("c", 1): Schema(subject="c", version=1, id=1, type="AVRO", text=text),
        ("b", 1): Schema(subject="b", version=1, id=2, type="AVRO", text=both,
                         references=(SchemaReference("n.C", "c", 1),)),
    })  # fmt: skip
    decoder = ValueDecoder(registry)
    assert decoder.decode(b"\0\0\0\0\x02" + zigzag(0) + zigzag(7)).value == {"x": 7}
    assert decoder.decode(b"\0\0\0\0\x02" + zigzag(1) + zigzag(1) + zigzag(8) + b"\0").value == [{"x": 8}]


@pytest.mark.parametrize(
    ("payload", "value"),
    [
        (b"\0" + b"\x0a\x05\x0a\x01k\x10\x05", {"m": {"k": 5}}),
        (zigzag(2) + zigzag(0) + zigzag(0) + b"\x12\x01s", {"i": [], "s": "s", "b": False}),
    ],
)
def test_protobuf_as_json(payload: bytes, value: object) -> None:
    assert ProtobufDecoder(PROTO, {}).decode(payload) == value


def test_hostile_protobuf_ends_soon_and_is_undecodable() -> None:
    decoder = ProtobufDecoder(PROTO, {})
    inner = zigzag(2) + zigzag(0) + zigzag(0)
    deep = b""
    for _ in range(150):
        deep = b"\x0a" + _length(deep) + deep
    for payload in (
        b"", b"\x80", b"\xff" * 100, zigzag(-3), zigzag(2**40), zigzag(1) + zigzag(9), zigzag(1) + zigzag(-1),
        inner + b"\x0a\x7f", inner + b"\x2a\x00", inner + deep, inner + b"\x0a\x00" * 1_000_000,
    ):  # fmt: skip
        with pytest.raises(UndecodableError):
            decoder.decode(payload)


PROTO2 = """syntax = "proto2";
enum E { X = 0; }
message B { optional int32 i = 1; }
message A { optional int32 z = 2; map<string, E> m = 3; optional group G = 4 { optional int32 x = 5; }
  map<int32, B> n = 6; repeated E e = 7 [packed = true]; oneof o { int32 p = 8; string q = 9; }
  repeated string s = 10; map<string, string> t = 11; extensions 100 to 200; extend A { repeated string inner = 101; } }
extend A { optional int32 outer = 100; }
message Required { required int32 q = 1; optional Required r = 2; map<string, Required> m = 3; }
message Set { option message_set_wire_format = true; extensions 4 to max; }
message Item { extend Set { optional Item item = 10; } optional int32 i = 1; }
"""
_A, _REQUIRED, _SET = zigzag(1) + zigzag(1), zigzag(1) + zigzag(2), zigzag(1) + zigzag(3)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (_REQUIRED + b"\x12\x02\x08\x01", "lacks a field"),
        (_REQUIRED + b"\x08\x01\x12\x00", "lacks a field"),
        (_REQUIRED + b"\x08\x01\x1a\x03\x0a\x01k", "lacks a field"),
        (_A + b"\x52\x01\xff", "do not fit"),
        (_A + b"\x5a\x03\x0a\x01\xff", "do not fit"),
        (_A + b"\x5a\x03\x12\x01\xff", "do not fit"),
        (_A + b"\xa0\x06\x01", "does not declare"),
        (_A + b"\xaa\x06\x01x", "does not declare"),
        (_A + b"\x1a\x05\x0a\x01k\x10\x07", "does not declare"),
        (_A + b"\x3a\x02\x00\x07", "does not declare"),
        (_A + b"\x23\x28\x01\x30\x01\x24", "does not declare"),
        (_A + b"\x32\x06\x08\x01\x12\x02\x10\x01", "does not declare"),
        (_A + b"\x32\x04\x08\x01\x18\x01", "does not declare"),
        (_SET + b"\x0b\x10\x0a\x1a\x02\x08\x01\x0c", "does not declare"),
        (_SET + b"\x0b\x10\x0b\x1a\x02\x08\x01\x0c", "does not declare"),
        (_A + b"\x23\x28\x01", "do not fit"),
    ],
)  # fmt: skip
def test_proto2_values_with_what_would_be_lost_do_not_decode(payload: bytes, reason: str) -> None:
    with pytest.raises(UndecodableError, match=reason):
        ProtobufDecoder(PROTO2, {}).decode(payload)


def test_proto2_values_that_are_complete_decode() -> None:
    decoder = ProtobufDecoder(PROTO2, {})
    empty: dict[str, object] = {"m": {}, "n": {}, "e": [], "s": [], "t": {}}
    assert decoder.decode(_A + b"\x23\x28\x05\x24\x10\x00") == {**empty, "g": {"x": 5}, "z": 0}
    assert decoder.decode(_A + b"\x40\x01\x4a\x01x") == {**empty, "q": "x"}  # the last one of a oneof counts
    assert decoder.decode(_REQUIRED + b"\x08\x00") == {"q": 0, "m": {}}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("message A { int32 ByteSize = 1; }", "Python's"),
        ("message A { message B { optional int32 HasField = 1; } B b = 1; }", "Python's"),
        ("package google.protobuf; message StringValue { int32 x = 1; }", "Google's"),
        ("package google.protobuf; message Timestamp { int64 seconds = 1; int32 nanos = 2; int32 x = 3; }", "Google's"),
    ],
)
def test_protobuf_schemas_that_the_library_would_misread(text: str, reason: str) -> None:
    with pytest.raises(UndecodableError, match=reason):
        ProtobufDecoder(f'syntax = "proto3"; {text}', {})


def _length(data: bytes) -> bytes:
    size, made = len(data), b""
    while size > 0x7F:
        made += bytes([size & 0x7F | 0x80])
        size >>= 7
    return made + bytes([size])


@pytest.mark.parametrize(
    ("text", "imports"),
    [
        ("", {"../../x.proto": ""}),
        ('syntax = "proto3"; import "/etc/passwd"; message A {}', {}),
        ("message A {", {}),
        ('syntax = "proto3"; message A { B b = 1; }', {}),
        ("\ud800", {}),
        ('syntax = "proto3"; import "kafkalog.main.proto"; message A {}', {}),
        ('syntax = "proto3"; ' + "message A {" * 10_000 + "}" * 10_000, {}),
    ],
)
def test_what_is_no_protobuf_schema(text: str, imports: dict[str, str]) -> None:
    with pytest.raises(UndecodableError):
        ProtobufDecoder(text, imports)


@pytest.mark.parametrize("data", [b"{", b"[1,]", b'{"a":NaN}', b'{"a":1,"a":2}', b"[" * 100_000,
                                  b"[1e9999999999999999999]",
                                  b"[" * 500 + b"]" * 500, b"[" + b"9" * 10_000 + b"]"])  # fmt: skip
def test_json_that_cannot_be_given_again_is_text(data: bytes) -> None:
    assert json_or_none(data) is None
    decoded = ValueDecoder(SchemaRegistry()).decode(data)
    assert decoded.value == data.decode()
    with pytest.raises(UndecodableError):
        masked(decoded.value, frozenset({"a"}))


def test_which_way_a_value_is_read() -> None:
    decoder = ValueDecoder(SchemaRegistry())
    plain = {b"42": "42", b"": "", b'"q"': '"q"', b' {"a": [1]}': {"a": [1]}, b"a\tb\r\n": "a\tb\r\n"}
    assert {data: decoder.decode(data).value for data in plain} == plain
    assert decoder.decode(None) == DecodedValue()
    for data in (b"\0", b"\0\0\0\0\x07", b"\x07", b"\xff", b"a\x7f", "\x85".encode()):
        decoded = decoder.decode(data)
        assert decoded.problem
        assert decoded.data == data
        assert decoded.value is None
    assert framed(b"x", [Header("__value_schema_id", b"\x01" + bytes(16))], "key") is None
    with pytest.raises(UndecodableError):
        framed(b"x", [Header("__key_schema_id", b"\x01")], "key")
    assert plain_text("é".encode()) == "é"
    assert math.isclose(parsed_json(b"0.5"), 0.5)


def test_the_first_bytes_of_a_header_may_be_an_id() -> None:
    registry = SchemaRegistry(schemas={("s", 1): Schema(subject="s", version=1, id=9, type="AVRO", text='"long"')})
    header = Header("__value_schema_id", b"\0\0\0\0\x09")
    assert ValueDecoder(registry).decode(zigzag(3), [header]).value == 3


# --- random damage ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_values(tmp_path_factory.mktemp("values"))


def _mutated(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(changed) + 1)
        match chance.randrange(5):
            case 0:
                changed[place:place] = chance.randbytes(chance.randint(1, 9))
            case 1:
                del changed[place : place + chance.randint(1, 9)]
            case 2 if changed:
                changed[place % len(changed)] ^= 1 << chance.randrange(8)
            case 3 if changed:
                changed[place % len(changed)] = chance.choice((0, 0x7F, 0x80, 0xFF))
            case _:
                changed = changed[:place]
    return bytes(changed)


def _values(directory: Path) -> list[tuple[str, bytes, tuple[Header, ...]]]:
    return [
        (partition.topic or "", data, tuple(record.headers))
        for partition in kafkalog.open(directory).partitions
        if partition.topic is not None and not partition.topic.startswith("_")
        for record in partition.records()
        for data in (record.key, record.value)
        if data
    ]


def damaged_values(directory: Path, count: int) -> None:
    """Each is a JSON value, or bytes with a reason."""
    decoder = ValueDecoder(kafkalog.read_schemas(directory))
    originals, chance = _values(directory), random.Random(36)
    for _ in range(count):
        topic, data, headers = chance.choice(originals)
        data = _mutated(data, chance)
        decoded = decoder.decode(data, headers, topic)
        if decoded.problem is None:
            exact_json(json.JSONEncoder(allow_nan=False).encode)(decoded.value)
        else:
            assert decoded.data == data
            assert decoded.value is None


def damaged_schemas(directory: Path, count: int, kinds: tuple[str, ...]) -> None:
    """Each decodes its values or says that it does not."""
    registry, chance = kafkalog.read_schemas(directory), random.Random(36)
    values: dict[int, list[bytes]] = {}
    for _topic, data, _ in _values(directory):
        if data[0] == 0 and len(data) > 5:
            values.setdefault(int.from_bytes(data[1:5], "big"), []).append(data)
    chosen = [each for each in registry.schemas.values() if each.type in kinds and each.id in values]
    for _ in range(count):
        schema = chance.choice(chosen)
        text = _mutated(schema.text.encode(), chance).decode("utf-8", "surrogateescape")
        changed = Schema(
            subject="m", version=1, id=schema.id, type=schema.type, text=text, references=schema.references
        )
        decoder = ValueDecoder(SchemaRegistry(schemas={**registry.schemas, ("m", 1): changed}))
        try:
            found = decoder.decoder_of(changed)
        except UndecodableError:
            continue
        for data in chance.sample(values[schema.id], min(3, len(values[schema.id]))):
            try:
                exact_json(json.JSONEncoder(allow_nan=False).encode)(found.decode(data[5:]))
            except UndecodableError:
                continue


def test_a_part_of_the_search_over_damaged_values(recorded: Path) -> None:
    damaged_values(recorded, 2000)


def test_a_part_of_the_search_over_damaged_schemas(recorded: Path) -> None:
    damaged_schemas(recorded, 300, ("AVRO", "JSON"))
    damaged_schemas(recorded, 3, ("PROTOBUF",))


@pytest.mark.sweep
def test_a_hundred_thousand_damaged_values(recorded: Path, measured: Callable[[str, int], None]) -> None:
    damaged_values(recorded, 100_000)
    measured("damaged values that were decoded or told", 100_000)


@pytest.mark.sweep
def test_five_thousand_damaged_schemas(recorded: Path, measured: Callable[[str, int], None]) -> None:
    damaged_schemas(recorded, 4500, ("AVRO", "JSON"))
    damaged_schemas(recorded, 500, ("PROTOBUF",))
    measured("damaged schemas that were used or told", 5000)


@pytest.mark.parametrize("number", [-1, -2, -3, -4, 3, 2**31, -(2**62)])
@pytest.mark.parametrize("deep", [False, True], ids=["compiled", "in Python"])
def test_a_branch_that_is_none_is_not_another_one(number: int, deep: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """fastavro counts from the end: -1 is its last branch.  Java's decoder takes no such number."""
    import io

    import fastavro

    from kafkalog.values import avro

    def of(value: int) -> bytes:
        left, out = (value << 1 ^ value >> 63) & (1 << 64) - 1, bytearray()
        while left > 0x7F:
            out.append(left & 0x7F | 0x80)
            left >>= 7
        return bytes([*out, left])

    union = ["null", "int", {"type": "record", "name": "R", "fields": [{"name": "n", "type": ["null", "R"]}]}]
    schema = {"type": "record", "name": "U", "fields": [{"name": "u", "type": union}]}
    if deep:
        monkeypatch.setattr(avro, "_SAFE_DEPTH", 0)
    for typed in (False, True):
        decoder = AvroDecoder(schema, {}, typed=typed)
        for payload in (of(number) + of(5), of(2) + of(number if number not in (1, 0) else -1) + of(0)):
            with pytest.raises(UndecodableError):
                decoder.decode(payload)
        assert decoder.decode(of(0)) == {"u": None}
        inner = {"n": {"n": None}}
        assert decoder.decode(of(2) + of(1) + of(0)) == {"u": {"member1": inner} if typed else inner}
    if -3 <= number < 0:
        found = fastavro.schemaless_reader(io.BytesIO(of(number) + of(0)), fastavro.parse_schema(schema), None)
        assert isinstance(found, dict)
