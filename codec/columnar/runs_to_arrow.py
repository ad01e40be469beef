"""From runs of v2 batches to Arrow batches by compiled code."""

from __future__ import annotations

import pyarrow as pa

from kafkalog.codec.columnar.builder import RecordBatchBuilder
from kafkalog.codec.columnar.run_decoder import RunDecoder
from kafkalog.codec.limits import Limits

__all__ = ["RunsToArrow"]


class RunsToArrow(RunDecoder):
    """Collects records as a `RunDecoder` does, and gives them as one Arrow batch."""

    def __init__(
        self, schema: pa.Schema, topic: str | None, partition: int | None, limits: Limits, rows: int, most_bytes: int
    ) -> None:
        self._batches = RecordBatchBuilder(schema, topic, partition, rows, most_bytes)
        super().__init__(self._batches, limits, rows, most_bytes)

    def build(self) -> pa.RecordBatch:
        """What was collected; starts over."""
        self._bytes = 0
        return self._batches.build()
