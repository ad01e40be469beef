"""`to_arrow(decoding=DecodedValues())`: Arrow's own types, with the values that serializers were given."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kafkalog
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.encode.batch import build_batch
from kafkalog.codec.model import Record, TimestampType
from kafkalog.values import arrow_column, avro
from kafkalog.values.registry import Schema, SchemaRegistry
from testkit.recorded.fixture_data import expected_values, unpack_values
from testkit.recorded.said_values import pylist, said, same


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_values(tmp_path_factory.mktemp("values"))


def rows(directory: Path) -> Iterator[tuple[dict[str, Any], dict[str, Any], pa.Schema]]:
    wanted = {(each["topic"], each["partition"], each["offset"]): each for each in expected_values()}
    for partition in kafkalog.open(directory).partitions:
        if partition.topic is None or partition.topic.startswith("_"):
            continue
        reader = partition.to_arrow(findings=[], on_damage="stop", decoding=kafkalog.DecodedValues())
        for batch in reader:
            names = [each for each in batch.schema.names if each not in ("timestamp", "headers")]
            columns = {name: pylist(batch.column(name)) for name in names}
            for number in range(batch.num_rows):
                row = {name: values[number] for name, values in columns.items()}
                yield wanted.pop((row["topic"], row["partition"], row["offset"])), row, batch.schema
    assert not wanted


def test_every_recorded_key_and_value(recorded: Path) -> None:
    decoded = 0
    for wanted, row, schema in rows(recorded):
        for part in ("key", "value"):
            where = (wanted["topic"], wanted["offset"], part)
            if row[part] is None and row[f"{part}_bytes"] is not None:
                assert row["finding"], where
                if not (wanted.get("any") or wanted.get(f"{part}_bad") or wanted.get("either")):
                    raw = kafkalog.open(recorded)[wanted["topic"], wanted["partition"]]
                    only = kafkalog.RecordFilter(start_offset=wanted["offset"], end_offset=wanted["offset"] + 1)
                    (record,) = raw.records(only)
                    assert row[f"{part}_bytes"] == getattr(record, part), where
                    assert "schema" in row["finding"] or "column" in row["finding"], where
                    told = row["finding"].split("; ")
                    mixed = f"{part}: it has no schema, and the column has one" in told
                    assert mixed or wanted["topic"] == "evolving-onyx", (where, row["finding"])
                continue
            if wanted.get("any") and part == "value":
                continue
            assert not wanted.get(f"{part}_bad"), where
            type = schema.field(part).type
            found = said(row[part], type)
            if pa.types.is_string(type) and not isinstance(wanted[part], str | None):
                found = json.loads(found)
            expected = wanted[part]
            if wanted["topic"] != "evolving-onyx" or part == "key":
                assert same(expected, found), (where, expected, found)
                decoded += 1
            assert row[f"{part}_schema"] == wanted.get(f"{part}_schema"), where
    assert decoded > 900


def test_older_versions_are_read_as_the_latest_where_avro_has_a_way(recorded: Path) -> None:
    """Of `Reading`, version 1 lacks a field that has no default, 2 has a double where 3 has a long."""
    seen: dict[int, int] = {}
    for wanted, row, schema in rows(recorded):
        if wanted["topic"] != "evolving-onyx":
            continue
        assert schema.field("value").type == pa.struct(
            [("sensor", pa.string()), ("value", pa.int64()), ("unit", pa.string())]
        )
        if wanted["value_schema"] is None:
            continue
        id = wanted["value_schema"]["id"]
        seen[id] = seen.get(id, 0) + 1
        if id == 165:
            assert row["value"] is None
            assert "cannot take" in row["finding"]
        else:
            assert row["value"] == {"unit": None, **wanted["value"]}
    assert set(seen) == {164, 165, 166}


def test_another_version_can_be_named(recorded: Path) -> None:
    partition = kafkalog.open(recorded)["evolving-onyx", 0]
    for named in (165, kafkalog.read_schemas(recorded).schemas["evolving-onyx-value", 2]):
        type = partition.to_arrow(decoding=kafkalog.DecodedValues(values_schema=named)).schema.field("value").type
        assert [each.name for each in type] == ["sensor", "unit", "value", "tags"]
    with pytest.raises(UsageError, match="no schema here has the subject 'nothing'"):
        partition.to_arrow(decoding=kafkalog.DecodedValues(values_schema="nothing"))


def test_a_value_that_does_not_decode_is_told_to_who_reads_other_columns(tmp_path: Path) -> None:
    """Of a query's rows it is null, and the columns that have the reason need not be among the query's."""
    a_topic(tmp_path, [b"\2", b"\2\2"])  # the second has a byte too many
    schemas = SchemaRegistry(schemas={
        ("ten-value", 1): Schema(subject="ten-value", version=1, id=7, type="AVRO", text='"int"')
    })  # fmt: skip
    table = kafkalog.KafkaTable(kafkalog.TableScan(values="auto", schemas=schemas), tmp_path)
    with pytest.warns(RuntimeWarning, match="value_undecodable .*: 1 record not decoded: value: there are more"):
        assert table.reader(["value"]).read_all().to_pylist() == [{"value": 1}, {"value": None}]
    assert table.reader(["offset"]).read_all().num_rows == 2


@pytest.mark.parametrize("text", ['{"type": []}', '{"type": [{"type": []}]}'])
def test_values_of_a_schema_without_a_type_are_not_decoded(text: str, tmp_path: Path) -> None:
    partition = a_topic(tmp_path, [b"\2"] * 300)
    schemas = SchemaRegistry(schemas={
        ("ten-value", 1): Schema(subject="ten-value", version=1, id=7, type="AVRO", text=text)
    })  # fmt: skip
    findings: list[Finding] = []
    decoding = kafkalog.DecodedValues(schemas=schemas)
    assert partition.to_arrow(findings=findings, decoding=decoding).read_all()["value"].null_count == 300
    assert {each.code for each in findings} == {FindingCode.VALUE_UNDECODABLE}


def test_decoded_values_are_no_views(recorded: Path) -> None:
    with pytest.raises(UsageError, match="no views of bytes"):
        kafkalog.open(recorded)["evolving-onyx", 0].to_arrow(layout="view", decoding=kafkalog.DecodedValues())


def test_schemas_are_a_registry() -> None:
    wrong: Any = 7
    with pytest.raises(UsageError, match=r"^schemas is 7 \(int\), not SchemaRegistry"):
        kafkalog.DecodedValues(schemas=wrong)


@pytest.mark.parametrize("given", [{"values": "all"}, {"values_schema": 1}])
def test_a_table_refuses_values_and_schemas_that_do_not_fit(given: dict[str, Any], recorded: Path) -> None:
    with pytest.raises(UsageError):
        kafkalog.KafkaTable(kafkalog.TableScan(topics="evolving-onyx", **given), recorded)


TEN = {
    "type": "record", "name": "Ten", "fields": [
        {"name": "a", "type": "long"}, {"name": "b", "type": "string"}, {"name": "c", "type": ["null", "double"]},
        {"name": "d", "type": "boolean"}, {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["X", "Y"]}},
        {"name": "f", "type": {"type": "long", "logicalType": "timestamp-micros"}}, {"name": "g", "type": "float"},
        {"name": "h", "type": {"type": "array", "items": "int"}},
        {"name": "i", "type": {"type": "map", "values": "string"}},
        {"name": "j", "type": {"type": "int", "logicalType": "date"}},
    ],
}  # fmt: skip


def a_topic(folder: Path, values: list[bytes]) -> kafkalog.Partition:
    partition = folder / "ten-0"
    partition.mkdir(parents=True)
    records = [
        Record(n, 1000 + n, TimestampType.CREATE_TIME, None, b"\0\0\0\0\x07" + each) for n, each in enumerate(values)
    ]
    (partition / f"{0:020}.log").write_bytes(build_batch(records))
    return kafkalog.open_partition(partition)


def ten(n: int) -> bytes:
    import io

    import fastavro

    out = io.BytesIO()
    value = {
        "a": n - 50, "b": f"text {n}", "c": None if n % 3 else n / 7, "d": n % 2 == 0, "e": "XY"[n % 2],
        "f": n * 10**12, "g": n / 4, "h": list(range(n % 4)), "i": {str(n): "x"} if n % 5 else {}, "j": n,
    }  # fmt: skip
    fastavro.schemaless_writer(out, fastavro.parse_schema(TEN), value)
    return out.getvalue()


def test_together_or_one_by_one_the_answer_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With values that end early or late among them, which stop nothing."""
    values = [ten(n) for n in range(300)]
    schemas = SchemaRegistry(schemas={
        ("ten-value", 1): Schema(subject="ten-value", version=1, id=7, type="AVRO", text=json.dumps(TEN))
    })  # fmt: skip
    bad = {5: values[5][:-1], 77: values[77] + b"\0", 200: b"", 299: values[299][:3] + b"\xff" * 12}
    for name, changed in (("whole", {}), ("bad", bad)):
        partition = a_topic(tmp_path / name, [changed.get(n, each) for n, each in enumerate(values)])
        answers = []
        for together in (arrow_column.TOGETHER, 10**9):
            monkeypatch.setattr(arrow_column, "TOGETHER", together)
            findings: list[Finding] = []
            decoding = kafkalog.DecodedValues(schemas=schemas)
            answers.append(partition.to_arrow(findings=findings, on_damage="stop", decoding=decoding).read_all())
            assert sum(each.code is FindingCode.VALUE_UNDECODABLE for each in findings) == bool(changed) * len(
                set(answers[-1]["finding"].to_pylist()) - {None}
            )
            monkeypatch.undo()
        assert answers[0].equals(answers[1])
        lost = {n for n, each in enumerate(answers[0]["value_bytes"].to_pylist()) if each is not None}
        assert lost == set(changed)
        assert answers[0]["value"][3].as_py()["b"] == "text 3"


def test_values_together_are_decoded_by_compiled_code() -> None:
    from kafkalog.values.arrow_batches import batch_decoder
    from kafkalog.values.arrow_types import arrow_type_of_avro

    type = arrow_type_of_avro(TEN, {})
    assert type is not None
    found = batch_decoder(TEN, {}, type)
    assert found is not None
    decoded = found.decode([ten(1), ten(2)])
    assert decoded is not None
    assert decoded.type == type
    assert found.decode([ten(1), ten(2) + b"\0"]) is None
    assert found.decode([ten(1), ten(2)[:-1]]) is None


MAP = {"type": "map", "values": "int"}


@pytest.mark.parametrize(("of_map", "before"), [
    (MAP, b""), ({"type": "array", "items": MAP}, b"\2"), ({"type": "map", "values": MAP}, b"\2\2k"),
    (["null", MAP], b"\2"),
], ids=["a map", "in an array", "in a map", "optional"])  # fmt: skip
def test_of_a_key_that_comes_twice_the_last_counts(of_map: Any, before: bytes, tmp_path: Path) -> None:
    """As in fastavro and in Java's `GenericDatumReader`, which puts entries into a map one after the other."""
    import io

    import fastavro

    schema = {"type": "record", "name": "M", "fields": [{"name": "m", "type": of_map}]}
    twice, once, behind = b"\4\2a\2\2a\4\0", b"\4\2a\2\2b\4\0", b"\0" if before and isinstance(of_map, dict) else b""
    payloads = [before + each + behind for each in [once] * 20 + [twice, b"\0", once]]
    schemas = SchemaRegistry(schemas={
        ("ten-value", 1): Schema(subject="ten-value", version=1, id=7, type="AVRO", text=json.dumps(schema))
    })  # fmt: skip
    found = a_topic(tmp_path, payloads).to_arrow(decoding=kafkalog.DecodedValues(schemas=schemas)).read_all()["value"]
    parsed = fastavro.parse_schema(schema)
    wanted: list[Any] = [fastavro.schemaless_reader(io.BytesIO(each), parsed, None) for each in payloads]
    assert [each["m"] for each in found.to_pylist()] == [_entries(each["m"]) for each in wanted]


def _entries(value: Any) -> Any:
    """Maps as pyarrow gives them."""
    if isinstance(value, dict):
        return [(name, _entries(each)) for name, each in value.items()]
    return [_entries(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("is_recursive", [False, True])
def test_a_boolean_is_true_for_a_byte_of_1_alone(
    is_recursive: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in Java's `BinaryDecoder.readBoolean`: `n == 1`; fastavro takes any byte but 0 for true."""
    monkeypatch.setattr(avro, "_SAFE_DEPTH", 0)
    fields = [{"name": "a", "type": "boolean"}, {"name": "b", "type": ["null", {"type": "boolean"}]}]
    if is_recursive:
        fields.append({"name": "r", "type": ["null", "B"]})
    schemas = SchemaRegistry(schemas={
        ("ten-value", 1): Schema(subject="ten-value", version=1, id=7, type="AVRO",
                                 text=json.dumps({"type": "record", "name": "B", "fields": fields}))
    })  # fmt: skip
    given = [0, 1, *[n % 2 for n in range(40)], 2, 129, 255]
    partition = a_topic(tmp_path, [bytes([each, 2, each]) + b"\0" * is_recursive for each in given])
    found = partition.to_arrow(decoding=kafkalog.DecodedValues(schemas=schemas)).read_all()["value"].to_pylist()
    values = [json.loads(each) for each in found] if is_recursive else found
    assert [(each["a"], each["b"]) for each in values] == [(each == 1, each == 1) for each in given]


def _long(number: int) -> bytes:
    """As Avro writes it."""
    left, out = (number << 1 ^ number >> 63) & (1 << 64) - 1, bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


NUMBERS = {"type": "record", "name": "N", "fields": [
    {"name": "i", "type": "int"}, {"name": "d", "type": {"type": "int", "logicalType": "date"}},
    {"name": "l", "type": {"type": "array", "items": "int"}},
]}  # fmt: skip


@pytest.mark.parametrize("bad", [2**31, -(2**31) - 1, 2**40, 2**63 - 1])
@pytest.mark.parametrize("place", ["int", "date", "in an array"])
def test_numbers_beyond_an_int_are_cut_by_nobody(bad: int, place: str, tmp_path: Path) -> None:
    """Where pyruhvro cuts them, as its own answer shows; fastavro has the whole number, which the column cannot."""
    import io

    import fastavro
    import pyruhvro

    def value(number: int, day: int, item: int) -> bytes:
        return _long(number) + _long(day) + _long(1) + _long(item) + _long(0)

    odd = value(*(bad if place == each else 1 for each in ("int", "date", "in an array")))
    whole: Any = fastavro.schemaless_reader(io.BytesIO(value(bad, 1, 1)), fastavro.parse_schema(NUMBERS), None)
    assert whole["i"] == bad
    (cut,) = pyruhvro.deserialize_array([value(bad, 1, 1)], json.dumps(NUMBERS)).to_pylist()
    assert cut["i"] != bad
    schemas = SchemaRegistry(schemas={
        ("ten-value", 1): Schema(subject="ten-value", version=1, id=7, type="AVRO", text=json.dumps(NUMBERS))
    })  # fmt: skip
    partition = a_topic(tmp_path, [value(n, n, n) for n in range(40)] + [odd])
    decoding = kafkalog.DecodedValues(schemas=schemas)
    found = partition.to_arrow(findings=[], on_damage="stop", decoding=decoding).read_all()
    values = found["value"].to_pylist()
    assert [each["i"] for each in values[:40]] == list(range(40))
    assert values[40] is None
    assert found["value_bytes"][40].as_py()[5:] == odd


@pytest.mark.parametrize("odd", [
    b"\0abcde", b"\xff", b' {"a":1}', b"[1]", b"[1", b"a\x07", b"\x7f", "\x85".encode(), "\x9f".encode(), b"{",
    b"\t\r\n [",
    "\xa0[1]".encode(), b"x{", None, b"", "\u2028".encode(), b"\xed\xa0\x80", b"\x0b[1]", b"a\nb",
])  # fmt: skip
def test_text_together_or_one_by_one_is_the_same(odd: bytes | None, monkeypatch: pytest.MonkeyPatch) -> None:
    from kafkalog.values.column_schema import ColumnSchema
    from kafkalog.values.decoding import ValueDecoder

    column = pa.array([b"plain", "gr\xfc\xdfe".encode(), b"42", b"", None, *[b"x"] * 20, odd], pa.binary())
    found = []
    for together in (1, 10**9):
        monkeypatch.setattr(arrow_column, "TOGETHER", together)
        decoder = arrow_column.ColumnDecoder(ValueDecoder(SchemaRegistry()), "t", "key", ColumnSchema(None))
        made = decoder.decode(column, None)
        found.append((made.values.to_pylist(), made.schemas.to_pylist(), made.problems))
    assert found[0] == found[1]
