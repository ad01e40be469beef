"""Partitions as one table whose columns and rows are read on demand.

Filters only reduce what is read; whoever reads applies them to the rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kafkalog.codec.errors import UsageError
from kafkalog.codec.extras import needed
from kafkalog.codec.findings import Finding
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.thresholds import together
from kafkalog.codec.wording import counted
from kafkalog.log import open_all
from kafkalog.log.directories.directory import Wants, every
from kafkalog.log.directories.follow import Follower
from kafkalog.log.directories.partition import Partition
from kafkalog.log.directories.selection import Selection
from kafkalog.log.disk.files import PathLike
from kafkalog.log.disk.object_store import StorageOptions
from kafkalog.log.disk.remote_file import is_uri
from kafkalog.log.reading.consumer_view import READ_UNCOMMITTED
from kafkalog.log.walk.on_damage import check_on_damage
from kafkalog.log.writing.choosing_partitions import Partitioner
from kafkalog.values.key_places import KeyPlaces
from kafkalog.values.registry import Schema, SchemaRegistry
from kafkalog.values.schema_log import OWN_TOPICS
from kafkalog.values.sources import check_values, find_schemas

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkalog.values.decoded_values import DecodedValues
    from kafkalog.values.pushdown import Reach

__all__ = ["KafkaTable"]

_PARTS = ("key", "value")
_BESIDE = {part: {part, f"{part}_schema", f"{part}_bytes", "finding"} for part in _PARTS}
"""columns that are decoded from a part of the record"""
_SAID = {name for names in _BESIDE.values() for name in names} - set(_PARTS)


def _wants(chosen: Selection) -> Wants:
    """Restrict reading to the chosen topics, schemas and metadata, because each partition costs requests in an object
    store.
    """
    return lambda name: name.topic in OWN_TOPICS or chosen.takes(name.topic, name.partition)


class KafkaTable:
    """The records of some topics.

    It offers `__arrow_c_stream__` and `__arrow_c_schema__`, so that pyarrow, pandas, Polars, DuckDB and others take it
    as it is; `kafkalog.polars.scan` and `kafkalog.duckdb.dataset` also hand filters and columns down.

    * `paths`: log directories, partitions or segments; `topics`: names or patterns [all but Kafka's own]
    * `columns`, `isolation_level`, `on_damage`, `findings`: as `Partition.to_arrow` has them
    * `values`: "bytes", or "auto" to decode keys and values, which need the same types in all partitions
    * `schemas`, `key_schema`, `values_schema`: with `values="auto"`, as `DecodedValues` has them
    * `start_timestamp`, `end_timestamp`: as `Partition.to_arrow` has them, which bounds what is read at both ends
    * `partitioner`: each key lies in the partition that this one sends it to among `partition_count`, as
      `kafkalog.partition_for_key` (`murmur2`) or `legacy_partition` (`hash`) do, or a function of key and number; a key
      that a filter asks for is then looked for in that partition alone.  Nothing in a log proves it: do not give it for
      a topic whose number of partitions has grown, or that has several producers with partitioners of their own
    * `partition_count`: of each topic [what the cluster's metadata in `paths` says]
    * `replica`: which directory to read if a topic-partition is in two of them
    * `storage`: how paths that are URIs are reached, by the names of Spark's options without `storage.`, as `endpoint`
      [what the environment says]
    * `limits`: what a batch may hold at most
    """

    def __init__(
        self,
        *paths: PathLike,
        topics: str | Sequence[str] | None = None,
        columns: Iterable[str] | None = None,
        values: str = "bytes",
        schemas: SchemaRegistry | None = None,
        key_schema: str | int | Schema | None = None,
        values_schema: str | int | Schema | None = None,
        isolation_level: str = READ_UNCOMMITTED,
        on_damage: str | None = None,
        findings: list[Finding] | None = None,
        start_timestamp: int | None = None,
        end_timestamp: int | None = None,
        partitioner: Partitioner | None = None,
        partition_count: int | None = None,
        replica: str | None = None,
        storage: Mapping[str, str] | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        if storage is not None:
            StorageOptions(tuple(map(str, paths)), tuple(storage.items()))
        check_values(values, schemas, key_schema, values_schema)
        names = [topics] if isinstance(topics, str) else list(topics or ())
        chosen = Selection.of(names)
        wants = _wants(chosen) if any(is_uri(str(path)) for path in paths) else every
        inventory = open_all(*paths, wants=wants, limits=limits)
        chosen.check(inventory.names)
        self.partitions: tuple[Partition, ...] = tuple(
            each for each in inventory.readable(replica, chosen)
            if chosen.takes(each.topic, each.partition) and (names or each.topic not in OWN_TOPICS)
        )  # fmt: skip
        if not self.partitions:
            raise UsageError(f"there are no records in {', '.join(map(str, paths))} but Kafka's own")
        if values == "auto" and schemas is None:
            schemas = find_schemas([*map(str, paths)], replica)
        self._findings = findings
        self._always: dict[str, Any] = {
            "isolation_level": isolation_level, "on_damage": on_damage and check_on_damage(on_damage),
            "start_timestamp": start_timestamp, "end_timestamp": end_timestamp,
        }  # fmt: skip
        self._decoding: dict[str | None, DecodedValues] = {}
        if values == "auto":
            self._decoding = self._decoding_by_topic(schemas, key_schema, values_schema)
        self._places = None if partitioner is None else KeyPlaces.of(
            inventory, self.partitions, partitioner, partition_count
        )  # fmt: skip
        self._columns = None if columns is None else tuple(columns)
        self.schema = self._one_schema()

    def __repr__(self) -> str:
        """Topics with their numbers of partitions, offsets by the names of the first and last segments, and columns."""
        topics = Counter(str(each.topic or each.path) for each in self.partitions)
        shown = ", ".join(f"{topic} ({counted(number, 'partition')})" for topic, number in sorted(topics.items())[:10])
        more = f" and {len(topics) - 10} more" if len(topics) > 10 else ""
        rows = sum(self._rows_of(each) for each in self.partitions)
        return f"KafkaTable({shown}{more}; about {counted(rows, 'row')}; columns {', '.join(self.schema.names)})"

    @staticmethod
    def _rows_of(partition: Partition) -> int:
        """Number of offsets from the log start to the end; the number of records if none was compacted away."""
        return max(Follower().look(partition).end_offset - partition.log_start_offset, 0)

    def _decoding_by_topic(
        self, schemas: SchemaRegistry | None, key_schema: str | int | Schema | None,
        values_schema: str | int | Schema | None,
    ) -> dict[str | None, DecodedValues]:  # fmt: skip
        """Decoding of keys and values by topic; under None that of segments which name no topic."""
        with needed("a table", "fast"):
            from kafkalog.values.decoded_values import DecodedValues
            from kafkalog.values.decoding import ValueDecoder
            from kafkalog.values.to_arrow import column_schema

        decoder = ValueDecoder(schemas or SchemaRegistry())
        undivided = DecodedValues(schemas=schemas, key_schema=key_schema, values_schema=values_schema)
        found: dict[str | None, DecodedValues] = {None: undivided}
        for topic in {each.topic for each in self.partitions} - {None}:
            some = [each for each in self.partitions if each.topic == topic]
            found[topic] = DecodedValues(
                schemas=schemas,
                key_schema=column_schema(decoder, some, "key", key_schema),
                values_schema=column_schema(decoder, some, "value", values_schema),
            )
        return found

    def _decoding_of(self, partition: Partition) -> DecodedValues | None:
        return self._decoding.get(partition.topic)

    def _one_schema(self) -> pa.Schema:
        found: dict[pa.Schema, str] = {}
        for each in self.partitions:
            options = self._always | {"start_timestamp": None, "end_timestamp": None}
            reader = each.to_arrow(self._columns, findings=[], decoding=self._decoding_of(each), **options)
            schema = reader.schema.remove_metadata()
            found.setdefault(schema, each.topic or each.path)
        if len(found) > 1:
            raise UsageError(
                f"the values of {' and '.join(list(found.values())[:2])} have different types: choose topics of one "
                "type, or name the schema with values_schema"
            )
        return next(iter(found))

    def read(self, columns: Sequence[str] | None = None, filter: Any = None) -> Iterator[pa.RecordBatch]:
        """Batches of these columns, in the schema's order, with at least the rows that pass a pyarrow `filter`.

        Files are left out, and offsets and times passed over, where the filter shows that no row of them passes.
        """
        asked = [each for each in self.schema.names if columns is None or each in columns]
        is_decoded = bool(self._decoding)
        parts = {part for part in _PARTS if is_decoded and part in self.schema.names and _BESIDE[part] & set(asked)}
        wanted = [each for each in self.schema.names if each in parts or (each in asked and each not in _SAID)]
        with needed("a table", "fast"):
            from kafkalog.values.pushdown import Reach

        reach = Reach(filter, self.schema)
        bounds = self._always if filter is None else self._always | self._bounds(reach)
        with_key = self._places is not None and not is_decoded and "key" in self.schema.names
        keys = reach.only_values("key") if with_key else None
        work_bytes = sum(each.size for each in self.partitions)
        for each in self.partitions:
            if self._places is not None and keys is not None and not self._places.may_hold(each, keys):
                continue
            if filter is None or self._may_hold(reach, each):
                decoding = self._decoding_of(each) if parts else None
                reader = each.to_arrow(wanted or ["offset"], findings=self._findings, decoding=decoding, **bounds)
                with together(work_bytes):
                    batch = next(reader, None)
                while batch is not None:
                    yield batch.select(asked)
                    batch = next(reader, None)

    def _bounds(self, reach: Reach) -> dict[str, Any]:
        names, found = set(self.schema.names), dict[str, Any]()
        if "offset" in names:
            found = {"start_offset": reach.start_offset(), "end_offset": reach.end_offset()}
        if "timestamp" in names and (start := reach.start_timestamp()) is not None:
            found["start_timestamp"] = max(start, self._always["start_timestamp"] or start)
        return found

    def _may_hold(self, reach: Reach, partition: Partition) -> bool:
        names = set(self.schema.names)
        return ("topic" not in names or reach.holds("topic", partition.topic)) and (
            "partition" not in names or reach.holds("partition", partition.partition)
        )

    def reader(self, columns: Sequence[str] | None = None, filter: Any = None) -> pa.RecordBatchReader:
        """The batches of `read` as an Arrow reader."""
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
