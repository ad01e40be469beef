"""Columns of text: the numbers of JSON keep their digits, and two values have two texts, whoever reads them."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from decimal import Context, Decimal, InvalidOperation, localcontext
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from google.protobuf import json_format, struct_pb2

import kafkalog
import kafkalog.polars
from kafkalog.codec.encode.batch import build_batch
from kafkalog.codec.model import Record, TimestampType
from kafkalog.spark.source import KafkaLogSource
from kafkalog.values.masked_columns import masked_column, masked_texts
from kafkalog.values.masking import masked
from kafkalog.values.payloads import UndecodableError
from testkit.judging.table_rows import table
from testkit.running.command import kafkalog as run

JSON, AVRO = 1, 2
RECURSIVE = {"type": "record", "name": "R", "fields": [{"name": "next", "type": ["null", "R"]}]}
VALUE = """syntax = "proto3"; import "google/protobuf/struct.proto";
message M { google.protobuf.Value one = 1; repeated google.protobuf.Value many = 2;
            map<string, google.protobuf.Value> named = 3; google.protobuf.Struct object = 4; }"""


def numbers() -> list[str]:
    chance = random.Random(7)
    made = [
        "9007199254740993.0", "1e-400", "-1e-400", "1e400", "123456789012345678901234567890.5", "0.1", "12.50", "-0.0",
        "1E+2", "1e23", "100000000000000000000000.0", "2.2250738585072014e-308", "4.9e-324", "5e-324", "3e-324",
        "1.7976931348623157e308", "1.7976931348623159e308", "0e-999", "0.30000000000000004", "0.3000000000000000444",
    ]  # fmt: skip
    for _ in range(300):
        digits = "".join(chance.choices("0123456789", k=chance.randint(1, 22)))
        made.append(f"{chance.choice(['', '-'])}{chance.randint(0, 99)}.{digits}e{chance.randint(-330, 330)}")
    return made


def a_log(folder: Path, values: Sequence[bytes | None]) -> Path:
    """A log directory with one partition, `t-0`, and the schemas of these values."""
    (folder / "data" / "t-0").mkdir(parents=True)
    records = [Record(n, 1000 + n, TimestampType.CREATE_TIME, None, each) for n, each in enumerate(values)]
    (folder / "data" / "t-0" / f"{0:020}.log").write_bytes(build_batch(records))
    (folder / "schemas").mkdir()
    (folder / "schemas" / f"json-value@{JSON}.json").write_text("{}")
    (folder / "schemas" / f"avro-value@{AVRO}.avsc").write_text('["int", "string"]')
    return folder


def framed(id: int, payload: bytes) -> bytes:
    return b"\0" + id.to_bytes(4, "big") + payload


def decoded(folder: Path) -> list[dict[str, Any]]:
    """The rows of `to_arrow`."""
    decoding = kafkalog.DecodedValues(schemas=kafkalog.read_schemas(folder / "schemas"))
    found: list[dict[str, Any]] = (
        kafkalog.open_partition(folder / "data" / "t-0").to_arrow(findings=[], decoding=decoding).read_all().to_pylist()
    )
    return found


def texts(folder: Path) -> list[str | None]:
    """The values as every reader gives them, which is the same."""
    schemas = kafkalog.read_schemas(folder / "schemas")
    scan = kafkalog.TableScan(topics="t", values="auto", schemas=schemas)
    kafkalog.export(kafkalog.Export(format="parquet", schemas=schemas), folder / "data" / "t-0", target=folder / "out")
    options = {"path": str(folder / "data" / "t-0"), "valueFormat": "json", "schemas": str(folder / "schemas")}
    source = KafkaLogSource(options)
    reader = source.reader(source.schema())
    spark: list[Any] = [batch for task in reader.partitions() for batch in reader.read(task)]
    found: list[list[str | None]] = [
        [each["value"] for each in decoded(folder)],
        pa.table(kafkalog.KafkaTable(scan, folder / "data" / "t-0"))["value"].to_pylist(),
        kafkalog.polars.scan(scan, str(folder / "data" / "t-0")).select(pl.col("value")).collect()["value"].to_list(),
        table(folder / "out", "parquet", "t")["value"].to_pylist(),
        [value for batch in spark for value in batch.column(1).to_pylist()],
    ]  # fmt: skip
    assert found[1:] == found[:-1]
    return found[0]


@pytest.mark.parametrize("id", [JSON, None], ids=["JSON Schema", "no schema"])
def test_numbers_keep_their_digits(id: int | None, tmp_path: Path) -> None:
    """Judged by Python's own reading of decimals; what a double has exactly, or as its shortest text, looks as ever."""
    written = numbers()
    data = [f'{{"n":[{each}]}}'.encode() for each in written]
    a_log(tmp_path, [each if id is None else framed(id, each) for each in data])
    found = texts(tmp_path)
    args = ("dump", "--json", "--values", "auto", "--schemas", tmp_path / "schemas", tmp_path / "data" / "t-0")
    dumped = [json.loads(line, parse_float=Decimal)["value"]["n"][0] for line in run(*args).lines]
    for text, number, value in zip(written, dumped, found, strict=True):
        exact = Decimal(text)
        assert json.loads(value or "", parse_float=Decimal) == {"n": [exact]}
        assert number == exact
        if Decimal(repr(float(text))) == exact:
            assert value == f'{{"n":[{float(text)!r}]}}'
    assert sum(Decimal(repr(float(text))) != Decimal(text) for text in written) > 50


@pytest.mark.parametrize("traps", [[], [InvalidOperation]])
def test_a_number_that_no_decimal_has_is_a_finding(traps: list[Any], tmp_path: Path) -> None:
    a_log(tmp_path, [framed(JSON, b"1e9999999999999999999")])
    with localcontext(Context(traps=traps)):
        (row,) = decoded(tmp_path)
    assert row["value"] is None
    assert row["value_bytes"] == framed(JSON, b"1e9999999999999999999")
    assert "cannot be given again exactly" in row["finding"]


def test_strings_with_a_schema_are_in_quotes(tmp_path: Path) -> None:
    values = [None, 1, "1", "null", True, "true", 1.5, "1.5", {"a": "1"}, '{"a":"1"}', "grüße", '"', ""]
    payloads = [framed(JSON, json.dumps(each).encode()) for each in values]
    payloads += [framed(AVRO, b"\0\x02"), framed(AVRO, b"\x02\x021")]
    a_log(tmp_path, [None, *payloads, b"1", b"null", b'{"a": 1}', b"plain"])
    found = texts(tmp_path)
    assert found[0] is None
    given = [*values, 1, "1"]
    assert [json.loads(each or "") for each in found[1 : len(given) + 1]] == given
    assert len(set(found[1 : len(values) + 1])) == len(values)
    assert found[len(given) + 1 :] == ["1", "null", '{"a":1}', "plain"]


@pytest.mark.parametrize(
    "text",
    [
        '"{\\"secret\\":1"', '"\\n[{\\"secret\\":1}]"', '\ufeff{"secret":1}', ' \ufeff \u200b[{"secret":1}]',
        '"{"secret":1}', json.dumps(json.dumps('{"secret":1}')), '"\\u007b\\"secret\\":1}"', "'{\"secret\":1}'",
        '{"secret":1} {"secret":1}',
    ],
)  # fmt: skip
def test_a_string_that_looks_like_json_is_not_shown_where_fields_are_masked(text: str) -> None:
    found, lost = masked_texts(pa.array([text, '"plain"', '"', '{"secret":1e-400,"n":1e-400}']), frozenset({"secret"}))
    assert found.to_pylist() == [None, '"plain"', '"', '{"secret":"[masked]","n":1E-400}']
    assert lost == [0]
    with pytest.raises(UndecodableError):
        masked(text, frozenset({"secret"}))
    assert masked({"a": [text]}, frozenset({"secret"})) == {"a": ["[masked]"]}


def test_fields_are_masked_in_json_text_within_a_column() -> None:
    """As Protobuf's `Struct` is, whose fields no schema names."""
    texts = ['{"secret": 7, "n": [{"secret": {}}]}', '{ "n": 1 }', "{broken", "plain", None]
    shown = ['{"secret":"[masked]","n":[{"secret":"[masked]"}]}', texts[1], "[masked]", *texts[3:]]
    column = pa.array([{"object": texts}], pa.struct([("object", pa.list_(pa.string()))]))
    assert masked_column(column, frozenset({"secret"})).to_pylist() == [{"object": shown}]
    assert masked({"object": texts}, frozenset({"secret"})) == {"object": shown}


def test_json_within_json_is_masked_however_deep() -> None:
    text = '{"secret":1}'
    for _ in range(8):
        text = "[" * 150 + json.dumps(text) + "]" * 150
    for shown in (masked([text], frozenset({"secret"})), masked_column(pa.array([text]), frozenset({"secret"}))[0]):
        assert "secret" not in str(shown)


def test_protobufs_value_is_json_text_wherever_it_stands(tmp_path: Path) -> None:
    """Judged by Protobuf's own JSON; a null is not a value that is missing."""
    values = [None, 1, "1", "null", True, "true", {"a": "1"}, '{"a":"1"}', [None, "x"]]

    def payload(value: Any) -> bytes:
        inner: bytes = json_format.ParseDict(value, struct_pb2.Value()).SerializeToString()
        one, entry = bytes([len(inner)]) + inner, b"\x0a\x01k\x12" + bytes([len(inner)]) + inner
        return b"\0\x0a" + one + b"\x12" + one + b"\x1a" + bytes([len(entry)]) + entry

    a_log(tmp_path, [framed(3, each) for each in [*map(payload, values), b"\0"]])
    (tmp_path / "schemas" / "t-value@3.proto").write_text(VALUE)
    *rows, empty = [each["value"] for each in decoded(tmp_path)]
    for value, row in zip(values, rows, strict=True):
        assert [json.loads(each) for each in (row["one"], *row["many"], row["named"][0][1])] == [value] * 3
    assert len({row["one"] for row in rows}) == len(values)
    assert empty == {"one": None, "many": [], "named": [], "object": None}
