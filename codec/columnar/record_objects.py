"""Many records as objects, made field by field from what kernels decode; `codec.records` has the readable way."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import pairwise, repeat
from typing import Any

import numpy as np

from kafkalog.codec.columnar.of_runs import OfRuns
from kafkalog.codec.kernels.tables import ArrowBuffer, Filled
from kafkalog.codec.model import MICROSECONDS, Header, Record, TimestampType

__all__ = ["RecordObjects"]

_KINDS = {int(each): each for each in TimestampType}


class RecordObjects(OfRuns[list[Record]]):
    """Makes the records of one partition."""

    columns = ("key", "value", "offset", "timestamp", "timestampType", "headers", "sequence", "leaderEpoch")

    def make(self) -> list[Record]:
        """The records."""
        builder = self.decoder.builder
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
        made = list(map(object.__new__, repeat(Record, rows)))
        for name, values in fields.items():
            # the slots themselves: a frozen class lets nothing else set them, and a call for each costs five times this
            deque(map(getattr(Record, name).__set__, made, values), maxlen=0)
        return made

    def _headers(self, rows: int) -> Iterable[tuple[Header, ...]]:
        count = self.decoder.builder.buffers.count(Filled.HEADERS)
        if count == 0:
            return repeat((), rows)
        keys = [(key or b"").decode("utf-8", "surrogateescape") for key in self.bytes_of("HEADER_KEY", count)]
        pairs = list(map(Header, keys, self.bytes_of("HEADER_VALUE", count)))
        ends = self.decoder.builder.buffers.view(ArrowBuffer.HEADER_ENDS, np.int32, rows + 1).tolist()
        return [tuple(pairs[start:end]) for start, end in pairwise(ends)]
