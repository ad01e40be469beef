"""Rows of `before_after.py` for single compiled functions: the inputs are in memory, and little else is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import kafkalog
from kafkalog.codec import BufferSource, Codec
from kafkalog.codec.columnar.decompressed import decompress_together, opened_batches
from kafkalog.codec.columnar.json_lines import JsonLines
from kafkalog.codec.columnar.message_decoder import MessageDecoder
from kafkalog.codec.columnar.run_decoder import Order
from kafkalog.codec.columnar.runs_to_arrow import RunsToArrow
from kafkalog.codec.columnar.schema import record_schema
from kafkalog.codec.encode.columns import build_batches
from kafkalog.codec.headers.message_runs import message_run
from kafkalog.codec.headers.rebuild_segment import IndexLimits, Progress, recover_run
from kafkalog.codec.headers.run_scanner import RunScanner
from kafkalog.codec.headers.runs import BatchRun
from kafkalog.codec.model import BATCH
from kafkalog.log.disk.files import FileSource
from kafkalog.log.storage.cleaning.key_columns import KeyColumns
from kafkalog.log.walk.header_walk import joined_spans
from support.corpora import MIB, Shape, partition

try:
    from kafkalog.codec.common.limits import DEFAULT_LIMITS
    from kafkalog.codec.plain.crc32c import crc32c
except ImportError:  # an older checkout
    from kafkalog.codec.crc32c import crc32c  # type: ignore[no-redef, import-not-found]
    from kafkalog.codec.limits import DEFAULT_LIMITS  # type: ignore[no-redef, import-not-found]

SIZE = 16 * MIB
REPEATS = 4
COLUMNS = ["key", "value", "offset", "timestamp", "headers"]
NO_END = 2**63 - 1
CORPORA = {
    "text 100 B": Shape(), "JSON 200 B": Shape(kind="json", value_bytes=200, records=80),
    "JSON 1 KB": Shape(kind="json", value_bytes=1000, records=16), "two headers": Shape(headers=2),
    "batches of 256 B": Shape(records=1, value_bytes=170),
}  # fmt: skip
Row = tuple[str, Callable[[], float]]


def _timed(work: Callable[[], object]) -> Callable[[], float]:
    def run() -> float:
        start = time.process_time()
        for _ in range(REPEATS):
            work()
        return (time.process_time() - start) / REPEATS

    return run


def _segment(shape: Shape) -> Path:
    return next(iter(sorted(partition(shape, SIZE).glob("*.log"))))


def _runs(data: bytes) -> list[BatchRun]:
    runs = [each for each in RunScanner(BufferSource(data), check_crc=False) if isinstance(each, BatchRun)]
    assert sum(map(len, runs)) > 100
    return runs


def _numbers(column: Any) -> Any:
    return np.asarray(column, np.int64)


def _decoded(data: bytes) -> None:
    decoder = RunsToArrow(record_schema(COLUMNS), "t", 0, DEFAULT_LIMITS, 100_000, 64 * MIB)
    position, order, is_full = 0, Order(0, 2**31 - 1, NO_END, 32), True
    while is_full and position < len(data):
        position, is_full = decoder.decode_window(data, position, order)
        decoder.build()
        decoder.drop()


def _decoded_run(runs: list[BatchRun]) -> None:
    decoder = RunsToArrow(record_schema(COLUMNS), "t", 0, DEFAULT_LIMITS, 100_000, 64 * MIB)
    for run in runs:
        for _ in decoder.decode_run(run, np.zeros(len(run), np.int64), NO_END):
            decoder.build()
            decoder.drop()


def _lines(runs: list[BatchRun]) -> None:
    lines = JsonLines("t", 0, "text", DEFAULT_LIMITS)
    for run in runs:
        for _ in lines.pieces(run, np.zeros(len(run), np.int64), NO_END):
            pass


def _recovered(runs: list[BatchRun]) -> None:
    progress = Progress(0, 0, -1, 0, 0, 0, 0, -1, 0, -1)
    for run in runs:
        progress = recover_run(run, 0, len(run), progress, IndexLimits(0, 4096, 10**7, 10**7)).progress


def _compacted(runs: list[BatchRun]) -> None:
    offsets = KeyColumns(10**6, 10**6)
    for run in runs:
        for opened in opened_batches(run, DEFAULT_LIMITS, 4 * MIB):
            offsets.put_batches(opened, 0)
            offsets.choose(opened, np.ones(len(opened.addresses), np.int64))


def _built(records: list[pa.RecordBatch]) -> None:
    for each in records:
        for _ in build_batches(each, work_bytes=SIZE):
            pass


def _decompressed(codec: Codec, runs: list[BatchRun]) -> None:
    for run in runs:
        start = np.frombuffer(run.window, np.uint8).ctypes.data
        sources = _numbers(run.starts) + start + BATCH.size
        sizes = _numbers(run.sizes) - BATCH.size
        while len(sources):
            done = decompress_together(codec, sources, sizes, DEFAULT_LIMITS, 4 * MIB)
            assert done is not None
            assert len(done.addresses)
            sources, sizes = sources[len(done.addresses) :], sizes[len(done.addresses) :]


def _old_messages(data: bytes) -> None:
    decoder = MessageDecoder(record_schema(COLUMNS), "t", 0, DEFAULT_LIMITS, 100_000, 64 * MIB)
    position = 0
    while position < len(data):
        run = message_run(data, position, largest=MIB, check=True)
        assert run is not None
        for _ in decoder.decode_run(run, np.zeros(len(run), np.int64), NO_END):
            decoder.build()
        decoder.build()
        position = run.end


def functions() -> Iterator[Row]:
    """Title and work of each row."""
    for name, shape in CORPORA.items():
        path = _segment(shape)
        data = path.read_bytes()
        runs = _runs(data)
        records = list(kafkalog.open_partition(path.parent).to_arrow(COLUMNS))
        row = {
            "scan_batches": partial(lambda data: list(RunScanner(BufferSource(data))), data),
            "decode_window": partial(_decoded, data), "decode_batches": partial(_decoded_run, runs),
            "write_lines": partial(_lines, runs), "encode": partial(_built, records),
            "put_keys, choose_records": partial(_compacted, runs),
        }  # fmt: skip
        for function, work in row.items():
            yield f"function: {function}, {name}", _timed(work)
    data = _segment(CORPORA["batches of 256 B"]).read_bytes()
    runs, path = _runs(data), _segment(CORPORA["batches of 256 B"])
    yield "function: recover_batches", _timed(partial(_recovered, runs))
    pieces = [memoryview(data)[at : at + 65_536] for at in range(0, len(data), 65_536)]
    yield "function: crc_of", _timed(lambda: [crc32c(each) for each in pieces])

    def walked() -> None:
        with FileSource(path) as source:
            assert list(joined_spans(source, 0, len(data), MIB))

    yield "function: walk_headers", _timed(walked)
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        compressed = _runs(_segment(Shape(codec=codec)).read_bytes())
        yield f"function: decompress_batches, {codec.label}", _timed(partial(_decompressed, codec, compressed))
    for magic in (0, 1):
        messages = _segment(Shape(magic=magic)).read_bytes()
        yield f"function: scan_messages, decode_sets, magic {magic}", _timed(partial(_old_messages, messages))
