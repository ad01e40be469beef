"""Make `Record` objects from the columns that compiled code decodes. `codec.plain.records` has the plain form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise, repeat

import numpy as np

from kafkalog.codec.columnar.of_runs import OfRuns
from kafkalog.codec.model import MICROSECONDS, Header, Record, TimestampType
from kafkalog.codec.native.tables import ArrowBuffer, Filled

__all__ = ["RecordObjects"]

_KINDS = {int(timestamp_type): timestamp_type for timestamp_type in TimestampType}


class RecordObjects(OfRuns[Iterator[Record]]):
    """Maker of `Record` objects from the decoded columns of one partition."""

    columns = ("key", "value", "offset", "timestamp", "timestampType", "headers", "sequence", "leaderEpoch")

    def make(self) -> Iterator[Record]:
        """Return an iterator over the decoded records in order. All values are copied at once, so the buffers may be
        reused; the `Record` objects are made as they are requested.
        """
        builder = self.builder
        buffers, rows = builder.buffers, builder.rows
        return map(
            Record,
            buffers.view(ArrowBuffer.OFFSET, np.int64, rows).tolist(),
            (buffers.view(ArrowBuffer.TIMESTAMP, np.int64, rows) // MICROSECONDS).tolist(),
            map(_KINDS.__getitem__, builder.of_rows("timestampType").tolist()),
            self.bytes_of("KEY", rows),
            self.bytes_of("VALUE", rows),
            self._headers(rows),
            buffers.view(ArrowBuffer.SEQUENCE, np.int32, rows).tolist(),
            builder.of_rows("leaderEpoch").tolist(),
        )

    def _headers(self, rows: int) -> Iterable[tuple[Header, ...]]:
        count = self.builder.buffers.count(Filled.HEADERS)
        if count == 0:
            return repeat((), rows)
        keys = [(key or b"").decode("utf-8", "surrogateescape") for key in self.bytes_of("HEADER_KEY", count)]
        pairs = list(map(Header, keys, self.bytes_of("HEADER_VALUE", count)))
        ends = self.builder.buffers.view(ArrowBuffer.HEADER_ENDS, np.int32, rows + 1).tolist()
        return [tuple(pairs[start:end]) for start, end in pairwise(ends)]
