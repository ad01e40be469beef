"""Partitions as one table whose columns and rows are read on demand.

Filters only reduce what is read; the caller applies them to the rows.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.extras import needed
from kafkalog.codec.common.findings import Finding
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.common.wording import counted, first_of
from kafkalog.codec.native.thresholds import together
from kafkalog.log import open_all
from kafkalog.log.directories.directory import Wants, every
from kafkalog.log.directories.follow import Follower
from kafkalog.log.directories.left_out import check_left_out, report_left_out
from kafkalog.log.directories.partition import Partition
from kafkalog.log.directories.selection import Selection
from kafkalog.log.disk.files import PathLike
from kafkalog.log.disk.object_store import StorageOptions
from kafkalog.log.disk.remote_file import is_uri
from kafkalog.log.reading.record_filter import RecordFilter
from kafkalog.log.walk.on_damage import STOP
from kafkalog.values.key_places import KeyPlaces
from kafkalog.values.registry import SchemaRegistry
from kafkalog.values.schema_log import OWN_TOPICS, topics_wanted
from kafkalog.values.sources import find_schemas
from kafkalog.values.table_scan import TableScan

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

    from kafkalog.values.decoded_values import DecodedValues
    from kafkalog.values.pushdown import Reach

__all__ = ["KafkaTable"]

_PARTS = ("key", "value")
_BESIDE = {part: {part, f"{part}_schema", f"{part}_bytes", "finding"} for part in _PARTS}
"""columns that are decoded from a part of the record"""
_SAID = {name for names in _BESIDE.values() for name in names} - set(_PARTS)


def _wants(chosen: Selection) -> Wants:
    """Return the predicate for the partitions to open: the chosen ones, and partitions with schemas and metadata. It is
    used for object stores, in which each partition costs requests.
    """
    return lambda name: name.topic in OWN_TOPICS or chosen.takes(name.topic, name.partition)


class KafkaTable:
    """The records of some topics.

    It has `__arrow_c_stream__` and `__arrow_c_schema__`, so that pyarrow, pandas, Polars, DuckDB and others accept it
    directly; `kafkalog.polars.scan` and `kafkalog.duckdb.dataset` also pass filters and columns to it.

    The files are listed once. What is appended later to the last segment of a log is read too; later segments are not,
    for which a new table must be made. Raises `UsageError` for paths without records, for a partition in several
    directories if none is chosen, and for a request that does not fit or excludes everything. Raises `UnknownName` for
    a topic or partition that does not exist. Raises `StorageError` if a file cannot be read, or, unless damage is
    skipped, for a log that is not read.

    * `request`: which records, and in which columns; may be left out for the defaults
    * `paths`: log directories, partitions or segments
    * `findings`: as in `Partition.to_arrow`
    * `limits`: what a batch may hold at most
    """

    def __init__(
        self,
        request: TableScan | PathLike,
        *paths: PathLike,
        findings: list[Finding] | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        if not isinstance(request, TableScan):
            paths, request = (request, *paths), TableScan()
        if request.storage is not None:
            StorageOptions(tuple(map(str, paths)), tuple(request.storage.items()))
        chosen = request.selection
        wants = _wants(chosen) if any(is_uri(str(path)) for path in paths) else every
        inventory = open_all(*paths, wants=wants, limits=limits)
        chosen.check(inventory.names)
        wanted = topics_wanted(request.topics)
        self.partitions = inventory.readable(request.replica, chosen, wanted)
        self._left_out = inventory.directories_left_out(chosen, wanted)
        check_left_out(self._left_out, request.on_damage)
        if not self.partitions:
            raise UsageError(f"there are no records in {', '.join(map(str, paths))} but Kafka's own")
        if request.values == "auto" and request.schemas is None:
            replica = None if request.replica is None else os.fspath(request.replica)
            request = replace(request, schemas=find_schemas([*map(str, paths)], replica))
        self._request, self._findings = request, findings
        self._decoding: dict[str | None, DecodedValues] = {}
        if request.values == "auto":
            self._decoding = self._decoding_by_topic()
        self._places = None if request.partitioner is None else KeyPlaces.of(
            inventory, self.partitions, request.partitioner, request.partition_count
        )  # fmt: skip
        self.schema = self._one_schema()

    def __repr__(self) -> str:
        """Return a text with the topics and their numbers of partitions, the approximate number of rows, and the
        columns. At most 10 topics are named, sorted by name. The number of rows is computed from the offsets, for
        which the end of each log is read. Raises `StorageError` if it cannot be read.
        """
        topics = Counter(str(partition.topic or partition.path) for partition in self.partitions)
        shown = first_of([f"{topic} ({counted(number, 'partition')})" for topic, number in sorted(topics.items())], 10)
        rows = sum(self._rows_of(partition) for partition in self.partitions)
        return f"KafkaTable({shown}; about {counted(rows, 'row')}; columns {', '.join(self.schema.names)})"

    @staticmethod
    def _rows_of(partition: Partition) -> int:
        """Number of offsets from the log start to the end, which is the number of records if compaction has removed
        none.
        """
        return max(Follower().look(partition).end_offset - partition.log_start_offset, 0)

    def _decoding_by_topic(self) -> dict[str | None, DecodedValues]:
        """Return the decoding of keys and values by topic; the key None is for segments without a known topic.

        Reads the first records of each topic to choose its schemas. Raises `UsageError` if a package is missing or a
        named schema is unknown. Raises `StorageError` if a file cannot be read.
        """
        with needed("a table", "fast"):
            from kafkalog.values.decoded_values import DecodedValues
            from kafkalog.values.decoding import ValueDecoder
            from kafkalog.values.to_arrow import column_schema

        schemas, key_schema = self._request.schemas, self._request.key_schema
        values_schema = self._request.values_schema
        decoder = ValueDecoder(schemas or SchemaRegistry())
        undivided = DecodedValues(schemas=schemas, key_schema=key_schema, values_schema=values_schema)
        decoding: dict[str | None, DecodedValues] = {None: undivided}
        for topic in {partition.topic for partition in self.partitions} - {None}:
            some = [partition for partition in self.partitions if partition.topic == topic]
            decoding[topic] = DecodedValues(
                schemas=schemas,
                key_schema=column_schema(decoder, some, "key", key_schema),
                values_schema=column_schema(decoder, some, "value", values_schema),
            )
        return decoding

    def _decoding_of(self, partition: Partition) -> DecodedValues | None:
        return self._decoding.get(partition.topic)

    def _one_schema(self) -> pa.Schema:
        schemas: dict[pa.Schema, str] = {}
        for partition in self.partitions:
            untimed = replace(self._request.filter, start_timestamp=None, end_timestamp=None)
            reader = self._reader(partition, self._request.columns, untimed, [], self._decoding_of(partition))
            schema = reader.schema.remove_metadata()
            schemas.setdefault(schema, partition.topic or partition.path)
        if len(schemas) > 1:
            raise UsageError(
                f"the values of {' and '.join(list(schemas.values())[:2])} have different types: choose topics of one "
                "type, or name the schema with values_schema"
            )
        return next(iter(schemas))

    def read(
        self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield record batches of the named columns (None: all), in the schema's order. Unknown names are ignored. The
        batches have at least the rows that pass a pyarrow `filter`, and may have others. Files and ranges of offsets or
        times in which no row can pass the filter are not read.

        Findings are added to the table's list as the files are read. Raises `FormatError` or `StorageError` as
        `Partition.to_arrow` does. Raises `UsageError` if a package is missing. All errors are raised while iterating.
        """
        asked = [name for name in self.schema.names if columns is None or name in columns]
        is_decoded = bool(self._decoding)
        parts = {part for part in _PARTS if is_decoded and part in self.schema.names and _BESIDE[part] & set(asked)}
        wanted = [name for name in self.schema.names if name in parts or (name in asked and name not in _SAID)]
        with needed("a table", "fast"):
            from kafkalog.values.pushdown import Reach

        reach = Reach(filter, self.schema)
        records = self._request.filter if filter is None else self._bounded(reach)
        with_key = self._places is not None and not is_decoded and "key" in self.schema.names
        keys = reach.only_values("key") if with_key else None
        work_bytes = sum(each.size for each in self.partitions)
        report_left_out(self._left_out, self._findings)
        for partition in self.partitions:
            if self._places is not None and keys is not None and not self._places.may_hold(partition, keys):
                continue
            if filter is None or self._may_hold(reach, partition):
                decoding = self._decoding_of(partition) if parts else None
                reader = self._reader(partition, wanted or ["offset"], records, self._findings, decoding)
                with together(work_bytes):
                    batch = next(reader, None)
                while batch is not None:
                    yield batch.select(asked)
                    batch = next(reader, None)

    def _reader(
        self, partition: Partition, columns: Iterable[str] | None, records: RecordFilter,
        findings: list[Finding] | None, decoding: DecodedValues | None,
    ) -> pa.RecordBatchReader:  # fmt: skip
        return partition.to_arrow(
            columns, records, findings=findings, decoding=decoding, on_damage=self._request.on_damage
        )

    def _bounded(self, reach: Reach) -> RecordFilter:
        """Return the request's record filter, narrowed to the offsets and the earliest timestamp that the query's
        filter (`reach`) allows. If the table does not have the column `offset` or `timestamp`, the bounds for it are
        unchanged.

        If reading stops at damage, lower bounds are unchanged too. Rows after the damage must not be returned then, and
        a reader that begins after the damage would not notice it.
        """
        records, names = self._request.filter, set(self.schema.names)
        stops = self._request.on_damage == STOP
        if "offset" in names:
            starts = (None if stops else reach.start_offset(), records.start_offset)
            ends = (reach.end_offset(), records.end_offset)
            records = replace(
                records,
                start_offset=max((each for each in starts if each is not None), default=None),
                end_offset=min((end for end in ends if end is not None), default=None),
            )
        if "timestamp" in names and not stops and (start := reach.start_timestamp()) is not None:
            requested = records.start_timestamp
            records = replace(records, start_timestamp=start if requested is None else max(start, requested))
        return records

    def _may_hold(self, reach: Reach, partition: Partition) -> bool:
        names = set(self.schema.names)
        return ("topic" not in names or reach.holds("topic", partition.topic)) and (
            "partition" not in names or reach.holds("partition", partition.partition)
        )

    def reader(self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None) -> pa.RecordBatchReader:
        """Return an Arrow reader of the named columns (None: all), in the table's order. Unknown names are ignored. It
        has at least the rows that pass the filter, like `read`. Files are read while batches are requested. The reader
        then raises `UsageError`, `FormatError` or `StorageError`, as `read` does.
        """
        import pyarrow as pa

        schema = self.schema if columns is None else pa.schema([
            each for each in self.schema if each.name in columns
        ])  # fmt: skip
        return pa.RecordBatchReader.from_batches(schema, self.read(columns, filter))

    def __arrow_c_schema__(self) -> object:
        """Arrow's C interface: the schema."""
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Arrow's C interface: all records."""
        return self.reader().__arrow_c_stream__(requested_schema)
