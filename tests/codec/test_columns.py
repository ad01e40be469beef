"""A column is declared in one place: what is added there can be read by every way, from every format."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from batches import message
from kafkalog.codec import thresholds
from kafkalog.codec.columnar import schema
from kafkalog.codec.columnar.assembler import ArrowAssembler, Bounds
from kafkalog.codec.columnar.schema import Column, record_schema
from kafkalog.codec.kernels.tables import HeaderColumn
from kafkalog.codec.model import TRANSACTIONAL_FLAG
from kafkalog.log.reading.slices import Damage, Slice, SliceReader
from record_bytes import Fields, batch, payload

NEW = Column(
    type=pa.bool_(),
    of_record=lambda header, _: header.is_transactional,
    of_batch=lambda batches: batches[HeaderColumn.ATTRIBUTES] & TRANSACTIONAL_FLAG != 0,
    without=False,
)


@pytest.mark.parametrize("work_bytes", [0, thresholds.ENOUGH_BYTES])
def test_a_new_column_takes_one_entry(work_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(schema.COLUMNS, "isTransactional", NEW)
    monkeypatch.setitem(schema.TYPES, "isTransactional", NEW.type)
    records: list[Fields] = [(0, 0, number, b"k", b"v", []) for number in range(3)]
    path = tmp_path / "log"
    path.write_bytes(
        message(0)
        + batch(payload(records), 3, base_offset=1, attributes=TRANSACTIONAL_FLAG)
        + batch(payload(records), 3, base_offset=4)
        + batch(payload(records)[:-1], 3, base_offset=7, attributes=TRANSACTIONAL_FLAG)
    )
    columns = record_schema(["offset", "isTransactional"])
    assembler = ArrowAssembler(columns, topic="t", partition=0, bounds=Bounds(), work_bytes=work_bytes)
    found = [*SliceReader(Slice(str(path), 0, path.stat().st_size, 0, 0), assembler)]
    rows = [row for piece in found if not isinstance(piece, Damage) for row in piece.to_pylist()]
    assert [row["offset"] for row in rows] == list(range(9))
    assert [row["isTransactional"] for row in rows] == [False, *[True] * 3, *[False] * 3, *[True] * 2]
    assert len([piece for piece in found if isinstance(piece, Damage)]) == 1
