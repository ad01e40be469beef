"""Find the partition in which a key must be, if the caller states the partitioner; first records are compared with it.

No log says who wrote it with which partitioner, and a topic whose number of partitions has grown has its older keys
where the old number put them.  So it has to be asked for; the first keys of each partition are compared with it.
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
        """Return the map for the topics of `partitions`; `partitioner` is the rule by which producers chose partitions,
        and `count` the number of partitions (None: taken from the cluster's metadata in `inventory`). Reads the first
        records of each partition. Raises `UsageError` if the number of partitions is unknown or not above a partition's
        number, or if a key is not in the partition where the partitioner puts it.
        """
        known = {} if count is not None else cluster_facts(inventory).topics
        counts: dict[str | None, int] = {}
        for each in partitions:
            found = count if count is not None else known.get(each.topic or "", ("", 0))[1]
            if not found or (each.partition or 0) >= found:
                raise UsageError(
                    f"how many partitions topic {each.topic!r} has is not known here: give partition_count, or leave "
                    "out partitioner"
                )
            counts[each.topic] = found
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
        """Whether any of the keys can be in a partition."""
        count = self.counts[partition.topic]
        return any(self.place(key, key, count) in (None, partition.partition) for key in keys)
