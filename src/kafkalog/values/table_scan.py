"""The request for a table of partitions: which records, and in which columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import force_setattr

from kafkalog.codec.arguments import check_fields
from kafkalog.log.directories.selection import Selection
from kafkalog.log.disk.files import PathLike
from kafkalog.log.reading.record_filter import EVERY_RECORD, RecordFilter
from kafkalog.log.walk.on_damage import check_on_damage
from kafkalog.log.writing.choosing_partitions import Partitioner
from kafkalog.values.column_schema import NamedSchema
from kafkalog.values.registry import SchemaRegistry
from kafkalog.values.sources import check_values

__all__ = ["TableScan"]


class TableScan(Struct, frozen=True, kw_only=True):
    """A request to `KafkaTable`: which records of which topics, in which columns.

    Raises `UsageError` for fields that do not go together.
    """

    topics: str | Sequence[str] = ()
    """names or patterns; empty: all but Kafka's own"""
    columns: Iterable[str] | None = None
    """as `Partition.to_arrow` has them"""
    filter: RecordFilter = EVERY_RECORD
    """which records; its offsets bound every partition"""
    values: str = "bytes"
    """`bytes`, or `auto` to decode keys and values, which need the same types in all partitions"""
    schemas: SchemaRegistry | None = None
    """with `auto`, as `DecodedValues` has them; so are the next two"""
    key_schema: NamedSchema | None = None
    values_schema: NamedSchema | None = None
    on_damage: str | None = None
    """as `Partition.to_arrow` has it"""
    partitioner: Partitioner | None = None
    """each key lies in the partition that this one sends it to among `partition_count`, as `kafkalog.partition_for_key`
    (`murmur2`) or `legacy_partition` (`hash`) do, or a function of key and number; a key that a filter asks for is then
    looked for in that partition alone.  Nothing in a log proves it: do not give it for a topic whose number of
    partitions has grown, or that has several producers with partitioners of their own"""
    partition_count: int | None = None
    """of each topic; None: what the cluster's metadata in the paths says"""
    replica: PathLike | None = None
    """which directory to read if a topic-partition is in two of them"""
    storage: Mapping[str, str] | None = None
    """how paths that are URIs are reached, by the names of Spark's options without `storage.`, as `endpoint`; None:
    what the environment says"""

    def __post_init__(self) -> None:
        check_fields(self)
        check_values(self.values, self.schemas, self.key_schema, self.values_schema)
        if self.on_damage is not None:
            check_on_damage(self.on_damage)
        if self.columns is not None:
            force_setattr(self, "columns", tuple(self.columns))

    @property
    def selection(self) -> Selection:
        """The topics."""
        return Selection.of([self.topics] if isinstance(self.topics, str) else list(self.topics))
