"""`valueFormat` and `keyFormat`: columns of the schemas' types, decided before anything is read, decoded in tasks."""

from __future__ import annotations

import base64
import json
import pickle
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

import kafkalog
from kafkalog.codec import build_batch
from kafkalog.codec.common.errors import FormatError, UsageError
from kafkalog.spark.decoded import spark_type
from kafkalog.spark.schema import arrow_schema
from kafkalog.spark.source import KafkaLogSource
from testkit.recorded.fixture_data import expected_values, unpack_values
from testkit.recorded.said_values import pylist, said, same

CONFLUENT = {"valueFormat": "confluent"}
JSON = {"valueFormat": "json", "keyFormat": "json"}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_values(tmp_path_factory.mktemp("values"))


def schema_of(directory: Path, **options: str) -> StructType:
    return KafkaLogSource({"path": str(directory), **options}).schema()


def table(directory: Path, **options: str) -> pa.Table:
    """All rows, as tasks of other processes give them."""
    source = KafkaLogSource({"path": str(directory), **options})
    schema = source.schema()
    reader = pickle.loads(pickle.dumps(source.reader(schema)))
    batches = [batch for task in reader.partitions() for batch in reader.read(pickle.loads(pickle.dumps(task)))]
    return pa.Table.from_batches(batches, arrow_schema(schema))


def wanted(topic: str) -> dict[tuple[int, int], dict[str, Any]]:
    return {(each["partition"], each["offset"]): each for each in expected_values() if each["topic"] == topic}


def rows(found: pa.Table, column: str, type: pa.DataType | None = None) -> Iterator[tuple[tuple[int, int], Any]]:
    """Places, and what a column has there."""
    values = found[column].combine_chunks()
    values = values if type is None else values.cast(type)
    places = zip(found["partition"].to_pylist(), found["offset"].to_pylist(), strict=True)
    yield from zip(places, pylist(values), strict=True)


def microseconds(value: Any) -> Any:
    """Times as text with six digits, as far as Spark keeps them."""
    if isinstance(value, dict):
        return {name: microseconds(each) for name, each in value.items()}
    is_time = isinstance(value, str) and value[:4].isdigit() and "T" in value
    return value[: len("2024-01-01T00:00:00.000000")].removesuffix("Z") if is_time else value


TYPED = (
    "primitives-russet", "unions-zephyr", "logical-ember", "references-cedar", "orders-maple", "jsonschema-delta",
)  # fmt: skip

SEVERAL_TYPES = ("nested-saffron", "evolving-onyx", "mixed-amber", "plainjson-basil", "strings-lantern")


def may_be_lost(expected: dict[str, Any]) -> bool:
    """Whether the recording says that its key or value may not decode."""
    return any(expected.get(flag) for flag in ("key_bad", "value_bad", "either", "any"))


@pytest.mark.parametrize("topic", TYPED)
def test_columns_are_what_serializers_were_given(recorded: Path, topic: str) -> None:
    expected, compared = wanted(topic), 0
    found = table(recorded, subscribe=topic, mode="PERMISSIVE", **CONFLUENT)
    assert found.num_rows == len(expected)
    arrow = next(
        each.to_arrow(findings=[], decoding=kafkalog.DecodedValues()).schema.field("value").type
        for each in kafkalog.open(recorded).partitions
        if each.topic == topic
    )
    for (place, value), damage in zip(rows(found, "value", arrow), found["_corrupt_record"].to_pylist(), strict=True):
        if may_be_lost(expected[place]):
            continue
        assert damage is None, place
        told = said(value, arrow)
        told = json.loads(told) if pa.types.is_string(arrow) else told
        assert same(microseconds(expected[place]["value"]), microseconds(told)), place
        compared += 1
    assert compared > 20


@pytest.mark.parametrize("topic", [*TYPED, *SEVERAL_TYPES])
def test_json_is_text_whatever_the_schemas_are(recorded: Path, topic: str) -> None:
    expected = wanted(topic)
    found = table(recorded, subscribe=topic, mode="PERMISSIVE", **JSON)
    corrupt = found["_corrupt_record"].to_pylist()
    for part in ("key", "value"):
        for (place, text), damage in zip(rows(found, part), corrupt, strict=True):
            if may_be_lost(expected[place]):
                continue
            assert damage is None, (place, damage)
            given = expected[place][part]
            is_plain = isinstance(given, str) and expected[place].get(f"{part}_schema") is None
            assert text == given if is_plain or given is None else same(given, json.loads(text)), place


def test_types_are_those_of_sparks_own_functions(recorded: Path) -> None:
    schema = schema_of(recorded, subscribe="logical-ember", keyFormat="confluent", **CONFLUENT)
    assert schema["key"].dataType.simpleString() == "struct<id:string,day:date>"
    types = {each.name: each.dataType.simpleString() for each in schema["value"].dataType.fields}  # type: ignore[attr-defined]
    assert types["price"].startswith("decimal(")
    assert {types["tms"], types["tus"], types["at"]} == {"int", "bigint", "timestamp"}
    wide = pa.struct([
        ("a", pa.uint32()), ("b", pa.uint64()), ("c", pa.list_(pa.timestamp("ns", "UTC"))),
        ("d", pa.map_(pa.string(), pa.decimal256(60, 2))), ("e", pa.timestamp("ms")),
    ])  # fmt: skip
    assert spark_type(wide) == pa.struct([
        ("a", pa.int64()), ("b", pa.decimal128(20, 0)), ("c", pa.list_(pa.timestamp("us", "UTC"))),
        ("d", pa.map_(pa.string(), pa.string())), ("e", pa.timestamp("us")),
    ])  # fmt: skip
    assert spark_type(wide, nanoseconds=True).field("c").type == pa.list_(pa.int64())


def test_what_does_not_decode_ends_the_query_or_keeps_its_bytes_or_is_left_out(recorded: Path) -> None:
    expected = wanted("mutated-cedar")
    options = {"subscribe": "mutated-cedar", "valueSchema": "primitives-russet-value", **CONFLUENT}
    with pytest.raises(FormatError, match=r"value_undecodable: value: .* \(offset \d+\); the option mode=PERMISSIVE"):
        table(recorded, **options)
    found = table(recorded, mode="PERMISSIVE", **options)
    assert found.num_rows == len(expected)
    lost = {}
    for (place, text), value in zip(rows(found, "_corrupt_record"), found["value"].to_pylist(), strict=True):
        if text is not None:
            assert value is None
            told = json.loads(text)
            lost[place] = told["value_b64"]
            assert (told["code"], told["offset"]) == ("value_undecodable", place[1])
    raw = table(recorded, subscribe="mutated-cedar")
    bytes_of = {place: base64.b64encode(data or b"").decode() for place, data in rows(raw, "value")}
    assert len(lost) > 100
    assert lost == {place: bytes_of[place] for place in lost}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kept = table(recorded, mode="DROPMALFORMED", **options)
    assert {place for place, _ in rows(kept, "value")} == expected.keys() - lost.keys()
    told_of = [str(each.message) for each in caught if "that cannot be decoded" in str(each.message)]
    assert sum(int(each.split("left out ")[1].split()[0]) for each in told_of) == len(lost)


def test_the_corrupt_column_may_be_the_bytes_themselves(recorded: Path) -> None:
    options = {"path": str(recorded), "subscribe": "garbage-umber", "mode": "PERMISSIVE", **JSON}
    source = KafkaLogSource(options)
    asked = StructType().add("offset", "long").add("value", "string").add("_corrupt_record", "binary")
    reader = source.reader(asked)
    found = pa.Table.from_batches([batch for task in reader.partitions() for batch in reader.read(task)])
    expected = wanted("garbage-umber")
    bad = {place[1] for place, each in expected.items() if each.get("value_bad")}
    told = dict(zip(found["offset"].to_pylist(), found["_corrupt_record"].to_pylist(), strict=True))
    assert bad
    for offset in bad:
        assert told[offset] == base64.b64decode(expected[0, offset]["value_b64"])


def test_a_column_that_is_not_asked_for_is_not_decoded(recorded: Path) -> None:
    options = {"path": str(recorded), "subscribe": "garbage-umber", **JSON}
    reader = KafkaLogSource(options).reader(StructType().add("offset", "long"))
    found = pa.Table.from_batches([batch for task in reader.partitions() for batch in reader.read(task)])
    assert found.num_rows == len(wanted("garbage-umber"))


def test_several_subjects_have_no_one_type(recorded: Path) -> None:
    with pytest.raises(UsageError, match=r"primitives-russet, unions-zephyr have schemas of 2 subjects, .*valueSchema"):
        schema_of(recorded, subscribe="primitives-russet,unions-zephyr", **CONFLUENT)
    with pytest.raises(UsageError, match="nested-saffron-value', and so of no one type: valueFormat=json gives every"):
        schema_of(recorded, subscribe="nested-saffron", **CONFLUENT)
    with pytest.raises(UsageError, match=r"values of mixed-amber have schemas of \d+ subjects"):
        schema_of(recorded, subscribe="mixed-amber", **CONFLUENT)
    named = schema_of(recorded, subscribe="mixed-amber", valueSchema="ember.zephyr11.Alpha", **CONFLUENT)
    assert named["value"].dataType.simpleString().startswith("struct<")
    with pytest.raises(UsageError, match="name no schema"):
        schema_of(recorded, subscribe="plainjson-basil", **CONFLUENT)


def test_schemas_from_elsewhere(recorded: Path, tmp_path: Path) -> None:
    copied = tmp_path / "alone" / "references-cedar-0"
    copied.mkdir(parents=True)
    for each in (recorded / "references-cedar-0").iterdir():
        (copied / each.name).write_bytes(each.read_bytes())
    with pytest.raises(UsageError, match=r"no schemas are there: schemas says where these are"):
        schema_of(copied, **CONFLUENT)
    elsewhere = schema_of(copied, schemas=str(recorded), **CONFLUENT)
    assert elsewhere == schema_of(recorded, subscribe="references-cedar", **CONFLUENT)


WRONG = [
    ({"valueFormat": "avro"}, "option valueFormat is one of bytes, confluent, json, not 'avro'"),
    ({"valueSchema": "x"}, "option valueSchema is about valueFormat=confluent, and valueFormat is bytes"),
    ({"keySchema": "x", "keyFormat": "json"}, "option keySchema is about keyFormat=confluent, and keyFormat is json"),
    ({"schemas": "x"}, "option schemas is about keyFormat and valueFormat, and neither was given"),
    ({"valueFormat": "json", "contents": "batches"}, "option valueFormat is for records, and contents is batches"),
    ({"valueFormat": "confluent", "valueSchema": "none"}, "no schema here has the subject 'none'"),
    ({"valueFormat": "confluent", "valueSchema": "12345678"}, "no schema here has the id 12345678"),
]


@pytest.mark.parametrize(("options", "sentence"), WRONG)
def test_wrong_options(recorded: Path, options: dict[str, str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        schema_of(recorded, **options)


def test_a_time_that_spark_has_no_place_for_is_said(tmp_path: Path) -> None:
    """A long of milliseconds that is beyond microseconds in 64 bits."""
    partition, folder = tmp_path / "t-0", tmp_path / "schemas"
    partition.mkdir()
    folder.mkdir()
    (folder / "t-value@1.avsc").write_text('{"type": "long", "logicalType": "timestamp-millis"}')
    number, data = 2**62 << 1, b""
    while number > 0x7F:
        data, number = data + bytes([number & 0x7F | 0x80]), number >> 7
    frame = b"\0\0\0\0\1"
    values = [frame + b"\2", frame + data + bytes([number])]
    create_time = kafkalog.TimestampType.CREATE_TIME
    batch = build_batch([kafkalog.Record(offset, 0, create_time, None, value) for offset, value in enumerate(values)])
    (partition / f"{0:020}.log").write_bytes(batch)
    found = table(tmp_path, subscribe="t", schemas=str(folder), mode="PERMISSIVE", **CONFLUENT)
    assert [each is None for each in found["value"].to_pylist()] == [False, True]
    assert "it does not fit Spark's type" in found["_corrupt_record"][1].as_py()
