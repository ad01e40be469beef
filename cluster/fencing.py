"""In which order a KRaft controller fences brokers whose sessions end together (`BrokerHeartbeatTracker`).

An active controller gives every broker that its log shows unfenced a fresh session.  When all of these end, it fences
the first that its table of sessions lists, then the next.  The table is a `ConcurrentHashMap` by broker id and epoch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from kafkalog.cluster.java import signed
from kafkalog.cluster.metadata_image import Broker, MetadataImage

__all__ = ["SESSIONS_IN_A_TABLE_SINCE", "fencing_order", "software_level"]

_MASK = 0xFFFFFFFF
_TABLE = 16
SESSIONS_IN_A_TABLE_SINCE = 22
"""`metadata.version` of 4.0-IV0; who is registered with support for it runs 4.0 or later"""


def software_level(image: MetadataImage) -> int:
    """The highest `metadata.version` that all controllers, or else all brokers, support: at least their release."""
    of_controllers = [
        each["max_supported_version"]
        for controller in image.controllers.values()
        for each in controller["features"]
        if each["name"] == "metadata.version"
    ]
    of_brokers = [
        most for broker in image.brokers.values() for name, _, most in broker.features if name == "metadata.version"
    ]
    return min(of_controllers or of_brokers, default=image.features.get("metadata.version", 1))


def _hash(broker: Broker) -> int:
    """Of `BrokerIdAndEpoch`, a Java record of an int and a long."""
    epoch = broker.epoch & 0xFFFFFFFFFFFFFFFF
    return signed(31 * broker.id + signed((epoch ^ epoch >> 32) & _MASK)) & _MASK


def fencing_order(brokers: Iterable[Broker], *, in_a_table: bool = True) -> tuple[frozenset[int], ...]:
    """The unfenced of some brokers, first fenced first; which of a set comes first cannot be told.

    Without `in_a_table` (before 4.0) nothing can be told.
    """
    unfenced: Sequence[Broker] = [each for each in brokers if not each.fenced]
    if not unfenced:
        return ()
    if not in_a_table:
        return (frozenset(each.id for each in unfenced),)
    size = _TABLE
    while len(unfenced) >= size - size // 4:
        size *= 2
    buckets: dict[int, set[int]] = defaultdict(set)
    for each in unfenced:
        found = _hash(each)
        buckets[(found ^ found >> 16) & size - 1].add(each.id)
    return tuple(frozenset(buckets[number]) for number in sorted(buckets))
