"""Many records as objects, made field by field from what kernels decode; `codec.records` has the readable way."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import pairwise, repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from kafkalog.codec.columnar.run_decoder import RunDecoder
from kafkalog.codec.columnar.schema import record_schema
from kafkalog.codec.handed_back import HandedBack
from kafkalog.codec.kernels.tables import ArrowBuffer, Filled
from kafkalog.codec.limits import MIB, Limits
from kafkalog.codec.model import MICROSECONDS, Header, Record, TimestampType

if TYPE_CHECKING:
    import numpy.typing as npt

    from kafkalog.codec.headers.runs import BatchRun

__all__ = ["RecordObjects"]

_COLUMNS = ["key", "value", "offset", "timestamp", "timestampType", "headers", "sequence", "leaderEpoch"]
_ROWS, _BYTES = 4 * 1024, MIB


class RecordObjects:
    """Makes the records of one partition."""

    def __init__(self, limits: Limits) -> None:
        self._decoder = RunDecoder(record_schema(_COLUMNS), None, None, limits, _ROWS, _BYTES)

    def records(self, run: BatchRun, low: npt.NDArray[np.int64], high: int) -> Iterator[list[Record] | HandedBack]:
        """The records of a run in pieces, and what is handed back; a `TakeRun`."""
        begin = 0
        for handed in self._decoder.decode_run(run, low, high):
            if handed is None:
                yield from self._taken(begin, self._decoder.reached)
                begin = self._decoder.reached
            else:
                yield from self._taken(begin, handed.start)
                yield handed
                begin = handed.stop
        yield from self._taken(begin, len(run))

    def _taken(self, begin: int, end: int) -> Iterator[list[Record] | HandedBack]:
        if self._decoder.is_empty:
            return
        is_whole = self._decoder.builder.buffers.count(Filled.TIMESTAMP_NULLS) == 0
        made: list[Record] | HandedBack = self._made() if is_whole else HandedBack(begin, end)
        self._decoder.drop()
        yield made

    def _made(self) -> list[Record]:
        builder = self._decoder.builder
        buffers, rows = builder.buffers, builder.rows
        kinds = {int(each): each for each in TimestampType}
        columns: dict[str, Iterable[Any]] = {
            "offset": buffers.view(ArrowBuffer.OFFSET, np.int64, rows).tolist(),
            "timestamp": (buffers.view(ArrowBuffer.TIMESTAMP, np.int64, rows) // MICROSECONDS).tolist(),
            "timestamp_type": map(kinds.__getitem__, builder.of_rows("timestampType").tolist()),
            "key": self._bytes("KEY", rows),
            "value": self._bytes("VALUE", rows),
            "headers": self._headers(rows),
            "sequence": buffers.view(ArrowBuffer.SEQUENCE, np.int32, rows).tolist(),
            "leader_epoch": builder.of_rows("leaderEpoch").tolist(),
        }
        made = list(map(object.__new__, repeat(Record, rows)))
        for name, values in columns.items():
            # the slots themselves: a frozen class lets nothing else set them, and a call for each costs five times this
            deque(map(getattr(Record, name).__set__, made, values), maxlen=0)
        return made

    def _bytes(self, name: str, rows: int) -> list[bytes | None]:
        """A column of bytes; null where there is none."""
        buffers = self._decoder.builder.buffers
        data = buffers.view(ArrowBuffer[name], np.uint8, buffers.count(Filled[name])).tobytes()
        ends = buffers.view(ArrowBuffer[f"{name}_ENDS"], np.int32, rows + 1).tolist()
        found: list[bytes | None] = [data[start:end] for start, end in pairwise(ends)]
        nulls = f"{name}_NULLS"
        if nulls in Filled.__members__ and buffers.count(Filled[nulls]):
            valid = buffers.view(ArrowBuffer[f"{name}_VALID"], np.uint8, rows)
            for row in np.flatnonzero(valid == 0).tolist():
                found[row] = None
        return found

    def _headers(self, rows: int) -> Iterable[tuple[Header, ...]]:
        buffers = self._decoder.builder.buffers
        count = buffers.count(Filled.HEADERS)
        if count == 0:
            return repeat((), rows)
        keys = [(key or b"").decode("utf-8", "surrogateescape") for key in self._bytes("HEADER_KEY", count)]
        pairs = list(map(Header, keys, self._bytes("HEADER_VALUE", count)))
        ends = buffers.view(ArrowBuffer.HEADER_ENDS, np.int32, rows + 1).tolist()
        return [tuple(pairs[start:end]) for start, end in pairwise(ends)]
