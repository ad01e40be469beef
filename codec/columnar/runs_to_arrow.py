"""Convert runs of v2 batches to Arrow batches with compiled code."""

from __future__ import annotations

import pyarrow as pa

from kafkalog.codec.columnar.builder import RecordBatchBuilder
from kafkalog.codec.columnar.run_decoder import RunDecoder
from kafkalog.codec.common.limits import Limits

__all__ = ["RunsToArrow"]


class RunsToArrow(RunDecoder):
    """Decoder that collects records as a `RunDecoder` does, and returns them as an Arrow batch."""

    def __init__(
        self, schema: pa.Schema, topic: str | None, partition: int | None, limits: Limits, rows: int, most_bytes: int
    ) -> None:
        self._batches = RecordBatchBuilder(schema, topic, partition, rows, most_bytes)
        super().__init__(self._batches, limits, rows, most_bytes)

    def build(self) -> pa.RecordBatch:
        """Return the collected records as an Arrow batch, and forget them."""
        self._bytes = 0
        return self._batches.build()
