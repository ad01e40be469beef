"""Columns of records and fields of batches are those of the lines of `dump --json`, by name, order and type."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest
from msgspec import Struct

from kafkalog.cli.shapes.dump_lines import BatchLine, MessageLine, RecordLine
from kafkalog.codec.columnar.schema import COLUMNS
from kafkalog.codec.rules.batch_fields import BATCH_FIELDS, OF_RECORDS, Kind

ONLY_IN_LINES = {
    "key_schema", "value_schema", "key_b64", "value_b64", "headers_b64",  # columns hold bytes
    "endTxnMarker", "coordinatorEpoch", "controlType",  # columns hold records of producers
    "decoded", "finding",
    "partitionLeaderEpoch",  # is the column `leaderEpoch`
}  # fmt: skip
"""Fields of a record that are no columns, and why."""
OTHER_TYPES = {"key", "value", "headers", "timestamp", "timestampType"}
"""Columns that are bytes, times or numbers where the line has text or a number."""
TIMES = ("CreateTime", "LogAppendTime", "NoTimestampType")


def fields_of(line: type[Struct]) -> dict[str, str]:
    """Name in JSON and type of each field, without null and absence."""
    found = msgspec.inspect.type_info(line)
    assert isinstance(found, msgspec.inspect.StructType)
    result = {}
    for field in found.fields:
        kind = field.type
        kinds = kind.types if isinstance(kind, msgspec.inspect.UnionType) else (kind,)
        names = {type(each).__name__.removesuffix("Type") for each in kinds}
        result[field.encode_name] = "|".join(sorted(names - {"None", "Unset"}))
    return result


def kind_of(column: pa.DataType) -> str:
    if pa.types.is_integer(column):
        return "Int"
    return {pa.string(): "Str", pa.bool_(): "Bool"}[column]


def test_columns_of_records_are_the_fields_of_a_line() -> None:
    line = fields_of(RecordLine)
    assert {*line} - {*COLUMNS} == ONLY_IN_LINES
    assert {*COLUMNS} <= {*line}
    for name in {*COLUMNS} - OTHER_TYPES:
        assert kind_of(COLUMNS[name].type) == line[name], name


def test_what_metadata_adds_to_a_record_is_declared_in_its_order() -> None:
    assert [name for name in fields_of(RecordLine) if name in OF_RECORDS] == [*OF_RECORDS]


@pytest.mark.parametrize(("line", "magic"), [(BatchLine, 2), (MessageLine, 1)])
def test_fields_of_batches_are_those_of_a_line(line: type[Struct], magic: int) -> None:
    wanted = {"topic": "Str", "partition": "Int"} | ({} if magic == 2 else {"offset": "Int"})
    for name, field in BATCH_FIELDS.items():
        kind = {Kind.TEXT: "Str", Kind.BOOLEAN: "Bool"}.get(field.kind, "Int")
        if name == "timestamp":
            wanted |= dict.fromkeys(TIMES, kind)
        elif name != "timestampType" and (magic == 2 or field.of_messages is not None):
            wanted[name] = kind
    assert [*fields_of(line).items()] == [*wanted.items(), ("isvalid", "Bool")]
