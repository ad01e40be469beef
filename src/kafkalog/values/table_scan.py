"""The request for a table of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import force_setattr

from kafkalog.codec.common.arguments import check_fields
from kafkalog.log.directories.selection import Selection
from kafkalog.log.disk.files import PathLike
from kafkalog.log.reading.record_filter import EVERY_RECORD, RecordFilter
from kafkalog.log.walk.on_damage import RAISE, check_on_damage
from kafkalog.log.writing.choosing_partitions import Partitioner
from kafkalog.values.column_schema import NamedSchema
from kafkalog.values.registry import SchemaRegistry
from kafkalog.values.sources import check_values

__all__ = ["TableScan"]


class TableScan(Struct, frozen=True, kw_only=True):
    """Request to `KafkaTable`.

    Raises `UsageError` for fields that do not go together.
    """

    topics: str | Sequence[str] = ()
    """names or patterns of topics; empty: all but Kafka's internal topics"""
    columns: Iterable[str] | None = None
    """names of columns as in `Partition.to_arrow`; None: its default"""
    filter: RecordFilter = EVERY_RECORD
    """records to read; its offsets apply to every partition"""
    values: str = "bytes"
    """`bytes`, or `auto` to decode keys and values, which need the same types in all partitions"""
    schemas: SchemaRegistry | None = None
    """schemas for `auto`; None: those in the log directories. This field and the next two are as in `DecodedValues`"""
    key_schema: NamedSchema | None = None
    values_schema: NamedSchema | None = None
    on_damage: str = RAISE
    """`raise`, `stop` or `skip`, as in `Partition.to_arrow`. With `stop` a query's lower bounds of offset and time are
    not handed down: reading would begin behind the damage
    """
    partitioner: Partitioner | None = None
    """how the producers assigned keys to `partition_count` partitions: `murmur2` (`kafkalog.partition_for_key`), `hash`
    (`legacy_partition`), or a function of key and number. If a query's filter names keys, only their partitions are
    read. A log does not tell the partitioner: leave it out if the topic's number of partitions has grown or its
    producers used different ones"""
    partition_count: int | None = None
    """number of partitions of each topic; None: as in the cluster's metadata in the paths"""
    replica: PathLike | None = None
    """directory to read if a topic-partition is in two of them"""
    storage: Mapping[str, str] | None = None
    """options of object stores, such as `endpoint`: Spark's options without `storage.`; None: from the environment"""

    def __post_init__(self) -> None:
        check_fields(self)
        check_values(self.values, self.schemas, self.key_schema, self.values_schema)
        check_on_damage(self.on_damage)
        if self.columns is not None:
            force_setattr(self, "columns", tuple(self.columns))

    @property
    def selection(self) -> Selection:
        """Selection of the topics; all topics if `topics` is empty."""
        return Selection.of([self.topics] if isinstance(self.topics, str) else list(self.topics))
