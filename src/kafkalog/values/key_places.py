"""The partition in which a key must be, if the caller states the partitioner. The first records of each partition are
compared with it.

A log does not tell which partitioner its producers used, and if the number of partitions of a topic has grown, older
keys are in the partition that the old number gives. Therefore the caller must state the partitioner, and the first keys
of each partition are compared with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from msgspec import Struct

from kafkalog.cluster.kraft.cluster_facts import cluster_facts
from kafkalog.codec.common.errors import UsageError
from kafkalog.log.directories.inventory import Inventory
from kafkalog.log.directories.partition import Partition
from kafkalog.log.walk.on_damage import STOP
from kafkalog.log.writing.choosing_partitions import ByKey, Partitioner, by_key

__all__ = ["KeyPlaces"]

_LOOKED_AT = 100
"""records of each partition"""


class KeyPlaces(Struct, frozen=True):
    """Map from each key of some topics to its partition."""

    place: ByKey
    counts: Mapping[str | None, int]
    """topic -> how many partitions it has"""

    @classmethod
    def of(
        cls, inventory: Inventory, partitions: Sequence[Partition], partitioner: Partitioner, count: int | None
    ) -> KeyPlaces:
        """Return the map from keys to partitions for the topics of `partitions`. `partitioner` is the rule by which
        producers chose partitions. `count` is the number of partitions of each topic; None: it is read from the
        cluster's metadata in `inventory`. The first 100 records of each partition are read, up to damage, and their
        keys compared with the rule.

        Raises `UsageError` for an unknown partitioner, or if a key is in another partition than the partitioner
        chooses. Raises it also if the number of partitions is unknown or not above a partition's number. Raises
        `StorageError` if a file cannot be read.
        """
        known = {} if count is not None else cluster_facts(inventory).topics
        counts: dict[str | None, int] = {}
        for each in partitions:
            partition_count = count if count is not None else known.get(each.topic or "", ("", 0))[1]
            if not partition_count or (each.partition or 0) >= partition_count:
                raise UsageError(
                    f"how many partitions topic {each.topic!r} has is not known here: give partition_count, or leave "
                    "out partitioner"
                )
            counts[each.topic] = partition_count
        key_places = cls(by_key(partitioner), counts)
        for each in partitions:
            key_places._compare(each)
        return key_places

    def _compare(self, partition: Partition) -> None:
        for record in islice(partition.records(on_damage=STOP), _LOOKED_AT):
            if record.key is not None and not self.may_hold(partition, [record.key]):
                raise UsageError(
                    f"the key of offset {record.offset} in {partition.path} does not lie where the partitioner puts it "
                    f"among {self.counts[partition.topic]} partitions: leave out partitioner"
                )

    def may_hold(self, partition: Partition, keys: Sequence[bytes]) -> bool:
        """Whether any of the keys can be in a partition. True for a key for which the partitioner chooses no
        partition.
        """
        count = self.counts[partition.topic]
        return any(self.place(key, key, count) in (None, partition.partition) for key in keys)
