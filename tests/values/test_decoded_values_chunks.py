"""Values that are decoded together have the same rows and findings as each alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kafkalog

FRAME = b"\0\0\0\0\1"
TIMES = {"type": "long", "logicalType": "time-micros"}


def log_of(tmp_path: Path, field: object, values: list[bytes]) -> tuple[Path, kafkalog.SchemaRegistry]:
    (tmp_path / "schemas").mkdir()
    (tmp_path / "data").mkdir()
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": field}]}
    (tmp_path / "schemas" / "t-value@1.avsc").write_text(json.dumps(schema))
    with kafkalog.Log.open(tmp_path / "data" / "t-0") as log:
        log.append([FRAME + value for value in values])
    return tmp_path / "data", kafkalog.read_schemas(tmp_path / "schemas")


@pytest.mark.parametrize("count", [1, 15, 16, 40])
@pytest.mark.parametrize("text", [b"\x80", b"\xff", b"\xc3"])
def test_text_that_is_not_utf8_does_not_decode(text: bytes, count: int, tmp_path: Path) -> None:
    data, schemas = log_of(tmp_path, "string", [b"\2" + text, *[b"\2x"] * (count - 1)])
    decoding = kafkalog.DecodedValues(schemas=schemas, values_schema="t-value")
    rows = kafkalog.open(data)["t", 0].to_arrow(decoding=decoding, findings=[], on_damage="skip").read_all()
    rows.validate(full=True)
    assert rows["value"].to_pylist() == [None, *[{"a": "x"}] * (count - 1)]
    assert rows["value_bytes"][0].as_py() == FRAME + b"\2" + text
    assert [each is None for each in rows["finding"].to_pylist()] == [False, *[True] * (count - 1)]


@pytest.mark.parametrize("count", [2, 30])
@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_a_time_beyond_its_day_does_not_decode(format: str, count: int, tmp_path: Path) -> None:
    data, schemas = log_of(tmp_path, TIMES, [b"\x01", *[b"\x0a"] * (count - 1)])  # -1, and 5 microseconds
    request = kafkalog.Export(format=format, schemas=schemas, values_schema="t-value")
    done = kafkalog.export(request, data, target=tmp_path / "out")
    assert [(str(each.code), each.offset) for each in done.findings] == [("value_undecodable", 0)]


def test_a_time_that_the_table_lacks_is_a_finding(tmp_path: Path) -> None:
    moment = {"type": "long", "logicalType": "timestamp-millis"}
    data, schemas = log_of(tmp_path, moment, [b"\x0a", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"])  # 2**63 - 1
    request = kafkalog.Export(format="parquet", schemas=schemas, values_schema="t-value")
    done = kafkalog.export(request, data, target=tmp_path / "out")
    assert [(str(each.code), each.offset) for each in done.findings] == [("value_undecodable", 1)]
