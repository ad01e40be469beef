"""Make a JSON line for each of many records without making an object for each. `cli.record_lines` makes the same lines
in Python.
"""

from __future__ import annotations

import json

import numpy as np

from kafkalog.codec.columnar.of_runs import OfRuns
from kafkalog.codec.common.limits import Limits
from kafkalog.codec.native.functions import write_lines
from kafkalog.codec.native.tables import Filled

__all__ = ["JsonLines"]


_DATA = (Filled.KEY, Filled.VALUE, Filled.HEADER_KEY, Filled.HEADER_VALUE)
_LONGEST_ESCAPE = 6
_OF_A_ROW, _OF_A_HEADER = 320, 32
"""Most bytes of a line, and of one header, without topic and data."""


class JsonLines(OfRuns[memoryview]):
    """Maker of the JSON lines of one partition. `encoding` is `text` or `base64`."""

    columns = ("key", "value", "offset", "timestamp", "timestampType", "headers", "leaderEpoch")

    def __init__(self, topic: str | None, partition: int | None, encoding: str, limits: Limits) -> None:
        super().__init__(limits)
        self._encoded = encoding == "base64"
        names = f'{{"topic":{json.dumps(topic)},"partition":{json.dumps(partition)},"offset":'
        self._prefix = np.frombuffer(names.encode("ascii"), np.uint8)
        self._target, self._other = np.empty(0, np.uint8), np.empty(0, np.uint8)

    def make(self) -> memoryview | None:
        """Return the lines as bytes; None if one of the records has no line in this form. The memory is overwritten by
        the second next call.
        """
        size = self._write()
        return None if size < 0 else memoryview(self._target.data)[:size]

    def _write(self) -> int:
        builder = self.builder
        buffers, rows = builder.buffers, builder.rows
        data = sum(buffers.count(filled) for filled in _DATA)
        line = len(self._prefix) + _OF_A_ROW
        room = rows * line + data * _LONGEST_ESCAPE + buffers.count(Filled.HEADERS) * _OF_A_HEADER
        self._target, self._other = self._other, self._target
        if len(self._target) < room:
            self._target = np.empty(room, np.uint8)
        appended = np.ascontiguousarray(builder.of_rows("timestampType"), np.uint8)
        epochs = builder.of_rows("leaderEpoch").astype(np.int64)
        return write_lines(
            rows, buffers.addresses, appended, epochs, self._prefix, self._encoded, self._target.ctypes.data
        )
