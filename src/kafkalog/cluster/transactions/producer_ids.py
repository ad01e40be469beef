"""Comparison of producer ids in the logs with the blocks of ids that the cluster has allocated.

A block is recorded before one of its ids is used: `ProducerIdsRecord` in the metadata log (`ProducerIdControlManager`),
`/latest_producer_id_block` in ZooKeeper (`ZkProducerIdManager`). Therefore an id at or above the start of the next
block comes from another cluster, or the metadata is older than the log.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.common.wording import first_of
from kafkalog.codec.names import parse_java_long

if TYPE_CHECKING:
    from kafkalog.cluster.transactions.producers import PartitionProducers
    from kafkalog.cluster.zookeeper.tree import Tree

__all__ = ["next_block_of_zookeeper", "not_given_out", "used_again"]

Place = TypeVar("Place")


def next_block_of_zookeeper(tree: Tree, chroot: str = "") -> int | None:
    """Return the first id of the next producer id block in ZooKeeper; 0 if no block was allocated yet.

    None if the node is missing, as before 0.11, or cannot be parsed.
    """
    from kafkalog.cluster.zookeeper.kafka_nodes import json_object  # most starts ask no ZooKeeper

    node = tree.nodes.get(f"{chroot}/latest_producer_id_block")
    if node is None:
        return None
    if not node.data:
        return 0
    end = (json_object(node.data) or {}).get("block_end")
    number = parse_java_long(end) if isinstance(end, str) else end
    return number + 1 if isinstance(number, int) and number >= 0 else None


def used_again(producer_ids: Iterable[tuple[Place, int]], next_block: int) -> list[tuple[Place, int]]:
    """Return the (place, producer id) pairs, in their order, whose id the cluster will hand out again because it is at
    or above `next_block`, the first id that is not allocated yet. With -1 no block was allocated, so all are returned.
    """
    return [(place, producer_id) for place, producer_id in producer_ids if producer_id >= max(next_block, 0)]


def not_given_out(places: Iterable[PartitionProducers], next_block: int) -> list[Finding]:
    """Return a METADATA_INCONSISTENT finding for each partition that has producer ids at or above `next_block`, the
    first id that is not allocated yet.

    A `next_block` of -1 means that no block was allocated, so that any id is too high.
    """
    findings = []
    for place in places:
        ids = ((place, producer.producer_id) for producer in place.producers)
        above = [producer_id for _place, producer_id in used_again(ids, next_block)]
        if above:
            detail = (
                f"producer id {first_of([*map(str, above)], 1)} in {place.partition.name}, and the next block to be "
                f"allocated begins at {max(next_block, 0)}: ids of another cluster, or the metadata is older than the "
                "log"
            )
            path = place.partition.path
            findings.append(Finding.of(FindingCode.METADATA_INCONSISTENT, None, None, detail, path))
    return findings
