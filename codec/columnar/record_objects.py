"""Many records as objects, field by field from what compiled code decodes; `codec.records` has the readable way."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import pairwise, repeat
from typing import Any

import numpy as np

from kafkalog.codec.columnar.of_runs import OfRuns
from kafkalog.codec.model import MICROSECONDS, Header, Record, TimestampType
from kafkalog.codec.native.tables import ArrowBuffer, Filled

__all__ = ["RecordObjects"]

_KINDS = {int(each): each for each in TimestampType}
_AT_ONCE = 256
"""Records that are made together: Python searches for garbage whenever it has made 700 objects more than have gone, and
these have mostly gone before the next are made."""


class RecordObjects(OfRuns[Iterator[Record]]):
    """Makes the records of one partition."""

    columns = ("key", "value", "offset", "timestamp", "timestampType", "headers", "sequence", "leaderEpoch")

    def make(self) -> Iterator[Record]:
        """The records, out of lists of their fields."""
        builder = self.builder
        buffers, rows = builder.buffers, builder.rows
        fields: dict[str, Iterable[Any]] = {
            "offset": buffers.view(ArrowBuffer.OFFSET, np.int64, rows).tolist(),
            "timestamp": (buffers.view(ArrowBuffer.TIMESTAMP, np.int64, rows) // MICROSECONDS).tolist(),
            "timestamp_type": map(_KINDS.__getitem__, builder.of_rows("timestampType").tolist()),
            "key": self.bytes_of("KEY", rows),
            "value": self.bytes_of("VALUE", rows),
            "headers": self._headers(rows),
            "sequence": buffers.view(ArrowBuffer.SEQUENCE, np.int32, rows).tolist(),
            "leader_epoch": builder.of_rows("leaderEpoch").tolist(),
        }
        return _records({name: iter(values) for name, values in fields.items()}, rows)

    def _headers(self, rows: int) -> Iterable[tuple[Header, ...]]:
        count = self.builder.buffers.count(Filled.HEADERS)
        if count == 0:
            return repeat((), rows)
        keys = [(key or b"").decode("utf-8", "surrogateescape") for key in self.bytes_of("HEADER_KEY", count)]
        pairs = list(map(Header, keys, self.bytes_of("HEADER_VALUE", count)))
        ends = self.builder.buffers.view(ArrowBuffer.HEADER_ENDS, np.int32, rows + 1).tolist()
        return [tuple(pairs[start:end]) for start, end in pairwise(ends)]


def _records(fields: dict[str, Iterator[Any]], rows: int) -> Iterator[Record]:
    slots = [(getattr(Record, name).__set__, values) for name, values in fields.items()]
    for start in range(0, rows, _AT_ONCE):
        made = list(map(object.__new__, repeat(Record, min(_AT_ONCE, rows - start))))
        for put, values in slots:
            # the slots themselves: a frozen class lets nothing else set them, and a call for each costs five times this
            deque(map(put, made, values), maxlen=0)
        yield from made
