"""JSON lines of many records without an object for each; `cli.record_lines` has the readable way to the same lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from kafkalog.codec.columnar.run_decoder import RunFiller
from kafkalog.codec.columnar.schema import record_schema
from kafkalog.codec.kernels.json import PIECES, write_lines
from kafkalog.codec.limits import MIB, Limits

if TYPE_CHECKING:
    import numpy.typing as npt

    from kafkalog.codec.headers.runs import BatchRun

__all__ = ["JsonLines"]

_SINKS = (
    "offset", "timestamp", "key_ends", "key_valid", "key", "value_ends", "value_valid", "value", "header_ends",
    "header_key_ends", "header_key", "header_value_ends", "header_value_valid", "header_value",
)  # fmt: skip
_LONGEST_ESCAPE = 6
_OF_A_ROW, _OF_A_HEADER = 320, 32
"""Bytes at most of a line, and of a header, besides topic and data."""
_ROWS, _BYTES = 8 * 1024, MIB


class JsonLines:
    """Makes the lines of one partition; `encoding` is `text` or `base64`."""

    def __init__(self, topic: str | None, partition: int | None, encoding: str, limits: Limits) -> None:
        schema = record_schema(["key", "value", "offset", "timestamp", "timestampType", "headers", "leaderEpoch"])
        self._encoded = encoding == "base64"
        self._filler = RunFiller(schema, topic, partition, limits, _ROWS, _BYTES)
        names = f'{{"topic":{json.dumps(topic)},"partition":{json.dumps(partition)},"offset":'
        self._prefix = np.frombuffer(names.encode("ascii"), np.uint8)
        self._joined = np.frombuffer(b"".join(PIECES), np.uint8)
        sizes = np.array([len(piece) for piece in PIECES], np.int64)
        self._target, self._other = np.empty(0, np.uint8), np.empty(0, np.uint8)
        self._pieces = np.array([self._joined.ctypes.data + np.cumsum(sizes) - sizes, sizes])

    def lines(self, run: BatchRun, low: npt.NDArray[np.int64], high: int) -> Iterator[memoryview | range]:
        """The lines of a run in pieces; a range stands for batches, by number, that need the readable way.

        A piece is to be used before the next but one is asked for.
        """
        begin = 0
        for number in self._filler.take_run(run, low, high):
            yield from self._pieces_of(begin, self._filler.reached if number is None else number)
            begin = self._filler.reached
            if number is not None:
                yield range(number, number + 1)
                begin = number + 1
        yield from self._pieces_of(begin, len(run))

    def _pieces_of(self, begin: int, end: int) -> Iterator[memoryview | range]:
        if self._filler.is_empty:
            return
        size = self._write() if self._filler.filler.buffers.count("timestamp_nulls") == 0 else -1
        self._filler.drop()
        yield range(begin, end) if size < 0 else memoryview(self._target.data)[:size]

    def _write(self) -> int:
        filler = self._filler.filler
        buffers, rows = filler.buffers, filler.rows
        data = sum(buffers.count(name) for name in ("key", "value", "header_key", "header_value"))
        line = len(self._prefix) + _OF_A_ROW
        room = rows * line + data * _LONGEST_ESCAPE + buffers.count("headers") * _OF_A_HEADER
        self._target, self._other = self._other, self._target
        if len(self._target) < room:
            self._target = np.empty(room, np.uint8)
        columns = np.array([buffers.address(name) for name in _SINKS], np.int64)
        appended = np.ascontiguousarray(filler.of_rows("timestampType"), np.uint8)
        epochs = filler.of_rows("leaderEpoch").astype(np.int64)
        prefix = np.array([self._prefix.ctypes.data, len(self._prefix)], np.int64)
        size: int = write_lines(
            rows, columns, appended, epochs, prefix, self._pieces, self._encoded, self._target.ctypes.data
        )
        return size
