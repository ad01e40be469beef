"""Reading a segment by the compiled kernels and in plain Python, for tests that hold one against the other."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from kafkalog.codec.columnar.assembler import NO_END, ArrowAssembler, Bounds
from kafkalog.codec.columnar.schema import COPY, TYPES, VIEW, record_schema
from kafkalog.codec.common.findings import Finding
from kafkalog.codec.common.source import BufferSource
from kafkalog.codec.headers.message_runs import MessageRun
from kafkalog.codec.headers.run_scanner import RunScanner
from kafkalog.codec.headers.runs import BatchRun
from kafkalog.codec.model import RecordBatch
from kafkalog.codec.native import thresholds
from kafkalog.log.reading.slices import Damage, Slice, SliceReader

SCHEMAS = {layout: record_schema(TYPES, layout) for layout in (COPY, VIEW)}
Read = tuple[list[object], list[tuple[int, Finding]], int]


def read(
    path: Path, *, kernel: bool, tolerant: bool = False, low: int = 0, high: int = NO_END, bounds: Bounds | None = None
) -> Read:
    """Rows, damage with the number of rows before it, and where the reading ended, which is the same in each layout."""
    bounds = bounds or Bounds()
    found = [_read(path, schema, kernel, tolerant, low, high, bounds) for schema in SCHEMAS.values()]
    assert found[1] == found[0]
    return found[0]


def _read(path: Path, schema: pa.Schema, kernel: bool, tolerant: bool, low: int, high: int, bounds: Bounds) -> Read:
    work = thresholds.ENOUGH_BYTES if kernel else 0
    assembler = ArrowAssembler(schema, topic="t", partition=1, bounds=bounds, work_bytes=work)
    part = Slice(
        path=str(path), start=0, end=path.stat().st_size, base_offset=0, start_offset=low, end_offset=high, is_last=True
    )
    reader = SliceReader(part, assembler, tolerant=tolerant)
    damage: list[tuple[int, Finding]] = []
    told: list[tuple[int, Finding]] = []
    """of headers that are read past; between which rows, is not a promise"""
    pieces: list[pa.RecordBatch] = []
    for piece in reader:
        if isinstance(piece, Damage) and piece.goes_on:
            told.append((-1, piece.finding))
        elif isinstance(piece, Damage):
            damage.append((sum(each.num_rows for each in pieces), piece.finding))
        else:
            pieces.append(piece)
    rows: list[object] = []
    for piece in pieces:  # all of them are held while the others are read: their memory is not used again
        piece.validate(full=True)
        assert piece.schema == schema
        assert piece.num_rows <= bounds.rows
        # times as numbers: Python's go to the year 9999 only
        times = pa.int64()
        rows += zip(*[(each.cast(times) if each.type == schema.field("timestamp").type else each).to_pylist()
                      for each in piece.columns], strict=True)  # fmt: skip
    if tolerant or not damage:
        return rows, damage + told, reader.next_offset
    return rows, damage, -1  # where damage ends the reading, how far the walk was ahead of it is not a promise


def each_column_by_itself(path: Path, low: int, high: int) -> list[int]:
    """The rows with offsets from `low` up to `high` of each column asked for alone; both ways must give the same."""
    rows = []
    for name in TYPES:
        tables = []
        for work in (0, thresholds.ENOUGH_BYTES):
            assembler = ArrowAssembler(record_schema([name]), topic="t", partition=1, bounds=Bounds(), work_bytes=work)
            pieces = SliceReader(
                Slice(
                    path=str(path), start=0, end=path.stat().st_size, base_offset=0, start_offset=low, end_offset=high
                ),
                assembler,
            )
            tables.append(pa.Table.from_batches([each for each in pieces if not isinstance(each, Damage)]))
        assert tables[0].equals(tables[1]), name
        rows.append(tables[0].num_rows)
    return rows


def walked(data: bytes, *, check_crc: bool = True, message_runs: bool = True) -> tuple[list[RecordBatch], list[object]]:
    """All that the compiled walk gives, batch by batch, and how it ended; messages of magic 0 and 1 in runs or not."""
    scanner = RunScanner(BufferSource(data), check_crc=check_crc)
    found: list[RecordBatch] = []
    for each in scanner.all_runs() if message_runs else scanner:
        if isinstance(each, MessageRun):
            found += [each.batch(number) for number in range(len(each))]
        else:
            found.extend(each if isinstance(each, BatchRun) else [each])
    return found, [scanner.valid_bytes, scanner.stop, scanner.findings]
