"""Make `Record` objects field by field from the columns that compiled code decodes. `codec.plain.records` has the plain
form.
"""

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

_KINDS = {int(timestamp_type): timestamp_type for timestamp_type in TimestampType}
_AT_ONCE = 256
"""Number of records made together. Python searches for garbage after 700 more objects were made than freed; most of
these records are freed before the next are made.
"""


class RecordObjects(OfRuns[Iterator[Record]]):
    """Maker of `Record` objects from the decoded columns of one partition."""

    columns = ("key", "value", "offset", "timestamp", "timestampType", "headers", "sequence", "leaderEpoch")

    def make(self) -> Iterator[Record]:
        """Return an iterator over the decoded records in order. All values are copied at once, so the buffers may be
        reused; the `Record` objects are made as they are requested.
        """
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
        records = list(map(object.__new__, repeat(Record, min(_AT_ONCE, rows - start))))
        for put, values in slots:
            # the slots themselves: a frozen class lets nothing else set them, and a call for each costs five times this
            deque(map(put, records, values), maxlen=0)
        yield from records
