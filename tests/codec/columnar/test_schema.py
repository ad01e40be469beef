"""A column is declared in one place: what is added there can be read by every way, from every format."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest
from msgspec import Struct

from kafkalog.codec.columnar import schema
from kafkalog.codec.columnar.assembler import ArrowAssembler, Bounds
from kafkalog.codec.columnar.schema import Column, record_schema
from kafkalog.codec.columnar.struct_columns import column_types
from kafkalog.codec.model import TRANSACTIONAL_FLAG, Codec, Header, TimestampType
from kafkalog.codec.names import DirectoryState
from kafkalog.codec.native import thresholds
from kafkalog.codec.native.tables import HeaderColumn
from kafkalog.log.reading.slices import Damage, Slice, SliceReader
from testkit.made.batches import message
from testkit.made.record_bytes import Fields, batch, payload

NEW = Column(
    type=pa.bool_(),
    of_record=lambda header, _: header.is_transactional,
    of_batch=lambda batches: batches[HeaderColumn.ATTRIBUTES] & TRANSACTIONAL_FLAG != 0,
    without=False,
)


@pytest.mark.parametrize("work_bytes", [0, thresholds.ENOUGH_BYTES])
def test_a_new_column_takes_one_entry(work_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(schema.COLUMNS, "isOfATransaction", NEW)
    monkeypatch.setitem(schema.TYPES, "isOfATransaction", NEW.type)
    records: list[Fields] = [(0, 0, number, b"k", b"v", []) for number in range(3)]
    path = tmp_path / "log"
    path.write_bytes(
        message(0)
        + batch(payload(records), 3, base_offset=1, attributes=TRANSACTIONAL_FLAG)
        + batch(payload(records), 3, base_offset=4)
        + batch(payload(records)[:-1], 3, base_offset=7, attributes=TRANSACTIONAL_FLAG)
    )
    columns = record_schema(["offset", "isOfATransaction"])
    assembler = ArrowAssembler(columns, topic="t", partition=0, bounds=Bounds(), work_bytes=work_bytes)
    found = [
        *SliceReader(Slice(path=str(path), start=0, end=path.stat().st_size, base_offset=0, start_offset=0), assembler)
    ]
    rows = [row for piece in found if not isinstance(piece, Damage) for row in piece.to_pylist()]
    assert [row["offset"] for row in rows] == list(range(9))
    assert [row["isOfATransaction"] for row in rows] == [False, *[True] * 3, *[False] * 3, *[True] * 2]
    assert len([piece for piece in found if isinstance(piece, Damage)]) == 1


OF_SPARK = {
    "key": "binary", "value": "binary", "topic": "string", "partition": "int32", "offset": "int64",
    "timestamp": "timestamp[us, tz=UTC]", "timestampType": "int32",
    "headers": "list<element: struct<key: string, value: binary>>",
}  # fmt: skip
"""Columns of Spark's Kafka source, in its guide's order, as Arrow has them."""


def test_columns_of_records_have_the_types_that_spark_gives_them() -> None:
    assert {field.name: str(field.type) for field in record_schema()} == OF_SPARK
    assert [*OF_SPARK] == record_schema().names


def test_a_type_comes_from_the_field_of_a_struct() -> None:
    class Odd(Struct):
        number: TimestampType
        timestamp_type: TimestampType
        headers: tuple[Header, ...]
        state: DirectoryState

    assert {name: str(kind) for name, kind in column_types(Odd).items()} == {
        "number": "int64", "timestampType": "int32", "headers": OF_SPARK["headers"], "state": "string"
    }  # fmt: skip


METADATA = ["offset", "isTransactional", "compresscodec", "magic", "baseOffset", "position"]


@pytest.mark.parametrize("work_bytes", [0, thresholds.ENOUGH_BYTES])
@pytest.mark.parametrize("start", [0, 1])
def test_what_a_header_says_of_its_records(work_bytes: int, start: int, tmp_path: Path) -> None:
    """Against the bytes that were written; also where reading begins behind the first batch, and after a fault."""
    records: list[Fields] = [(0, 0, number, b"k", b"v", []) for number in range(2)]
    batches = [
        message(0), message(1),
        batch(payload(records), 2, base_offset=2, attributes=TRANSACTIONAL_FLAG),
        batch(gzip.compress(payload(records)), 2, base_offset=4, attributes=Codec.GZIP),
        batch(payload(records)[:-1], 2, base_offset=6),
    ]  # fmt: skip
    path = tmp_path / "log"
    path.write_bytes(b"".join(batches))
    at = [sum(map(len, batches[:number])) for number in range(len(batches) + 1)]
    assembler = ArrowAssembler(record_schema(METADATA), topic="t", partition=0, bounds=Bounds(), work_bytes=work_bytes)
    found = [*SliceReader(Slice(path=str(path), start=at[start], end=at[-1], base_offset=0, start_offset=0), assembler)]
    rows = [tuple(row.values()) for piece in found if not isinstance(piece, Damage) for row in piece.to_pylist()]
    assert rows == [
        (0, False, "none", 1, 0, at[0]), (1, False, "none", 1, 1, at[1]),
        *((offset, True, "none", 2, 2, at[2]) for offset in (2, 3)),
        *((offset, False, "gzip", 2, 4, at[3]) for offset in (4, 5)),
        (6, False, "none", 2, 6, at[4]),
    ][start:]  # fmt: skip
