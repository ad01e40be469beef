"""In which order a KRaft controller fences brokers whose sessions end together (`BrokerHeartbeatTracker`).

An active controller gives every broker that its log shows unfenced a fresh session.  When all of these end, it fences
the first that its table of sessions lists, then the next.  The table is a `ConcurrentHashMap` by broker id and epoch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from kafkalog.cluster.metadata_image import Broker, MetadataImage

__all__ = ["fencing_order", "software_level"]

_MASK = 0xFFFFFFFF
_TABLE = 16
_IN_A_TABLE_SINCE = 22
"""`metadata.version` of 4.0-IV0"""
_OBJECTS_HASH_UNTIL = 27
"""of 4.1-IV1: up to there `BrokerIdAndEpoch` is a class with `Objects.hash`"""
_RECORD_SINCE = 30
"""of 4.3-IV0: from there on it is a record; 4.2 is not known"""


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


def _hash(broker: Broker, level: int) -> int:
    """`BrokerIdAndEpoch.hashCode`."""
    epoch = broker.epoch & 0xFFFFFFFFFFFFFFFF
    seed = 31 * 31 if level <= _OBJECTS_HASH_UNTIL else 0
    return (seed + 31 * broker.id + (epoch ^ epoch >> 32)) & _MASK


def fencing_order(brokers: Iterable[Broker], level: int) -> tuple[frozenset[int], ...]:
    """The unfenced of some brokers, first fenced first; which of a set comes first cannot be told.

    `level` is that of the controllers (`software_level`).
    """
    unfenced: Sequence[Broker] = [each for each in brokers if not each.fenced]
    if not unfenced:
        return ()
    if level < _IN_A_TABLE_SINCE or _OBJECTS_HASH_UNTIL < level < _RECORD_SINCE:
        return (frozenset(each.id for each in unfenced),)
    size = _TABLE
    while len(unfenced) >= size - size // 4:
        size *= 2
    buckets: dict[int, set[int]] = defaultdict(set)
    for each in unfenced:
        found = _hash(each, level)
        buckets[(found ^ found >> 16) & size - 1].add(each.id)
    return tuple(frozenset(buckets[number]) for number in sorted(buckets))
