"""`--parquet` and `--arrow`: records as columns, under the names of Spark's Kafka source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from kafkalog.cli.dump.bounds import Bounds
from kafkalog.cli.dump.records import Walk
from kafkalog.cli.dump.redaction import Redaction
from kafkalog.codec.columnar.schema import COLUMNS, record_schema
from kafkalog.codec.common.limits import MIB
from kafkalog.codec.model import Record, RecordBatch
from kafkalog.log import Partition, Segment
from kafkalog.log.disk.process import processors
from kafkalog.log.walk.on_damage import STOP
from kafkalog.log.writing.columns_file import ColumnsFile

__all__ = ["ColumnsSink", "columns_schema"]

_MOST_ROWS = 65_536
_MOST_BYTES = 16 * MIB


def columns_schema(*, with_metadata: bool) -> pa.Schema:
    """Return the schema of the file's columns, under the names of Spark's Kafka source; with metadata, all available
    columns.
    """
    return record_schema(COLUMNS if with_metadata else None)


class ColumnsSink:
    """Writes records as rows of an Arrow or Parquet file. Rows are kept until there are enough for a batch; `flush`
    writes the rest.
    """

    def __init__(self, file: ColumnsFile, schema: pa.Schema, redaction: Redaction | None) -> None:
        self._file = file
        self._schema = schema
        self._redaction = redaction
        self._rows: dict[str, list[Any]] = {name: [] for name in schema.names}
        self._held = 0

    def begin(self, partition: Partition) -> None:
        """Set the topic and partition of the records that follow."""
        self._place = {"topic": partition.topic, "partition": partition.partition}

    def take(self, segment: Segment | None, batch: RecordBatch, records: Sequence[Record]) -> None:
        """Keep the records as rows, and write the kept rows whenever they are large or many enough."""
        for record in records:
            self._take(batch, record)
            if self._held >= _MOST_BYTES or len(self._rows["offset"]) >= _MOST_ROWS:
                self.flush()

    def _take(self, batch: RecordBatch, record: Record) -> None:
        shown = record if self._redaction is None else self._redaction.record(record)
        for name, cells in self._rows.items():
            if name in self._place:
                cells.append(self._place[name])
            elif COLUMNS[name].is_place:
                cells.append(batch.position)
            else:
                of_record = COLUMNS[name].of_record
                cells.append(None if of_record is None else of_record(batch.header, shown))
        self._held += len(shown.key or b"") + len(shown.value or b"")
        self._held += sum(len(key) + len(value or b"") for key, value in shown.headers) + 100

    def flush(self) -> None:
        """Write the kept rows to the file as one record batch and forget them; writes nothing if there are none. Raises
        `StorageError` if the file cannot be written.
        """
        if self._rows["offset"]:
            arrays = [pa.array(self._rows[name], self._schema.field(name).type) for name in self._schema.names]
            self._file.write(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        self._rows = {name: [] for name in self._schema.names}
        self._held = 0

    def whole(self, walk: Walk, partition: Partition, bounds: Bounds) -> bool:
        """Write all records within the bounds as Arrow batches, without a Python object for each record. Filters on
        batches apply. Return True if this was possible. Rows that are still kept are written first; reading ends at the
        first damage. Updates the walk's record count, progress and findings. Raises `StorageError` if a file cannot be
        read or written.

        Return False and write nothing if records must be handled one by one: because of filters on records, a limit, a
        stop time, `--all` or redaction, or because the partition has no topic name.
        """
        plain = walk.is_plain(bounds) and self._redaction is None
        if not plain or partition.topic is None:
            return False
        self.flush()
        reader = partition.to_arrow(
            self._schema.names,
            walk.within(bounds),
            on_damage=STOP,
            findings=walk.findings,
            threads=processors(),
        )
        for batch in reader:
            walk.printed += batch.num_rows
            self._file.write(batch)
        walk.progress.advance(partition.size)
        return True
