"""Make the lines that kafka-dump-log prints for many records, without making an object for each record.
`cli.dump.record_lines` makes the same lines in Python.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import pairwise, repeat

import numpy as np

from kafkalog.codec.columnar.of_runs import OfRuns
from kafkalog.codec.common.limits import Limits
from kafkalog.codec.model import MICROSECONDS, TimestampType
from kafkalog.codec.native.tables import ArrowBuffer, Filled

__all__ = ["TextLines"]

_ODD = re.compile(rb"[^ -~]")
_LABELS = {int(timestamp_type): timestamp_type.label for timestamp_type in TimestampType}


class TextLines(OfRuns[str]):
    """Maker of the lines of the decoded records of one partition. The caller's function `text_of` converts bytes that
    are not all printable ASCII to text.
    """

    columns = ("key", "value", "offset", "timestamp", "timestampType", "headers", "sequence")

    def __init__(self, text_of: Callable[[bytes], str], limits: Limits) -> None:
        super().__init__(limits)
        self._text_of = text_of

    def make(self) -> str:
        """Return one line of text for each decoded record, in order, joined by newlines without one at the end; an
        empty string for no records. Timestamps are in ms; a null key or value has size -1 and no text.
        """
        builder = self.builder
        buffers, rows = builder.buffers, builder.rows
        lines = zip(
            buffers.view(ArrowBuffer.OFFSET, np.int64, rows).tolist(),
            map(_LABELS.__getitem__, builder.of_rows("timestampType").tolist()),
            (buffers.view(ArrowBuffer.TIMESTAMP, np.int64, rows) // MICROSECONDS).tolist(),
            buffers.view(ArrowBuffer.SEQUENCE, np.int32, rows).tolist(),
            self._header_keys(rows),
            *self._texts("KEY", " key: ", rows),
            *self._texts("VALUE", " payload: ", rows),
            strict=True,
        )
        return "\n".join(
            [
                f"| offset: {offset} {kind}: {time} keySize: {key_size} valueSize: {value_size} sequence: {sequence} "
                f"headerKeys: [{names}]{key}{value}"
                for offset, kind, time, sequence, names, key_size, key, value_size, value in lines
            ]
        )

    def _texts(self, name: str, label: str, rows: int) -> tuple[list[int], list[str]]:
        """Return two lists with an item for each row: size of field `name` in bytes (-1 for null), and `label` followed
        by its text (empty for null).
        """
        data, ends = self.data_of(name), self.ends_of(name, rows)
        sizes: list[int] = np.diff(np.array(ends)).tolist()
        texts = self._slices(data, ends, label)
        for row in self.nulls_of(name, rows):
            sizes[row], texts[row] = -1, ""
        return sizes, texts

    def _slices(self, data: bytes, ends: list[int], label: str = "") -> list[str]:
        if _ODD.search(data) is None:
            text = data.decode("ascii")
            return [label + text[start:end] for start, end in pairwise(ends)]
        return [label + self._text_of(data[start:end]) for start, end in pairwise(ends)]

    def _header_keys(self, rows: int) -> Iterable[str]:
        buffers = self.builder.buffers
        count = buffers.count(Filled.HEADERS)
        if count == 0:
            return repeat("", rows)
        names = self._slices(self.data_of("HEADER_KEY"), self.ends_of("HEADER_KEY", count))
        ends = buffers.view(ArrowBuffer.HEADER_ENDS, np.int32, rows + 1).tolist()
        return [",".join(names[start:end]) for start, end in pairwise(ends)]
