"""Order in which a KRaft controller fences brokers whose sessions end together (`BrokerHeartbeatTracker`).

When a controller becomes active, it gives every unfenced broker a new session.  When all of them end, it fences brokers
in the order of its table of sessions, a `ConcurrentHashMap` by broker id and epoch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from kafkalog.cluster.kraft.metadata_image import BrokerImage, MetadataImage

__all__ = ["fencing_order", "software_level"]

_MASK = 0xFFFFFFFF
_TABLE = 16
_FIBONACCI = -7046029254386353131
_IN_A_TABLE_SINCE = 22
"""`metadata.version` of 4.0-IV0"""
_OBJECTS_HASH_UNTIL = 27
"""`metadata.version` of 4.1-IV1; up to it `BrokerIdAndEpoch` is a class that uses `Objects.hash`"""
_RECORD_SINCE = 30
"""`metadata.version` of 4.3-IV0; from it on `BrokerIdAndEpoch` is a record.  4.2 is unknown"""


def software_level(image: MetadataImage) -> int:
    """Return the highest `metadata.version` level that all registered controllers support, as far as they state one. If
    no controller states a level, return the highest that all brokers support. If no broker states one either, return
    the current `metadata.version` of the image, or 1 if it has none. The level is a lower bound of the controllers'
    release.
    """
    of_controllers = [
        feature["max_supported_version"]
        for controller in image.controllers.values()
        for feature in controller["features"]
        if feature["name"] == "metadata.version"
    ]
    of_brokers = [
        most for broker in image.brokers.values() for name, _, most in broker.features if name == "metadata.version"
    ]
    return min(of_controllers or of_brokers, default=image.features.get("metadata.version", 1))


def _hash(broker: BrokerImage, level: int) -> int:
    """Hash code of a broker in the table of sessions (`BrokerIdAndEpoch.hashCode`), as an unsigned 32-bit number.
    `level` is the controllers' release.
    """
    epoch = broker.epoch & 0xFFFFFFFFFFFFFFFF
    seed = 31 * 31 if level <= _OBJECTS_HASH_UNTIL else 0
    return (seed + 31 * broker.id + (epoch ^ epoch >> 32)) & _MASK


def fencing_order(brokers: Iterable[BrokerImage], level: int) -> tuple[frozenset[int], ...]:
    """Predict the order in which a controller fences brokers whose sessions end together. Return sets of broker ids, in
    order; the order within a set is unknown. For some releases all brokers are in one set. `brokers` are all registered
    brokers; those that are already fenced are left out, so the result is empty if all are. `level` is the controllers'
    release as `software_level` returns it.
    """
    registered = list(brokers)
    unfenced: Sequence[BrokerImage] = [image for image in registered if not image.fenced]
    if not unfenced:
        return ()
    if level < _IN_A_TABLE_SINCE or _OBJECTS_HASH_UNTIL < level < _RECORD_SINCE:
        return (frozenset(image.id for image in unfenced),)
    size = _TABLE
    while len(unfenced) >= size - size // 4:
        size *= 2
    buckets: dict[int, set[int]] = defaultdict(set)
    for broker_image in unfenced:
        hash_code = _hash(broker_image, level)
        buckets[(hash_code ^ hash_code >> 16) & size - 1].add(broker_image.id)
    groups = [frozenset(buckets[number]) for number in sorted(buckets)]
    if size > _TABLE:
        return tuple(groups)
    return tuple(part for group in groups for part in _as_put(group, len(registered)))


def _as_put(group: frozenset[int], count: int) -> list[frozenset[int]]:
    """Order the brokers of one hash bucket as the controller inserts them; return sets of broker ids, in order. The
    controller iterates over its `count` registrations in a `TimelineHashMap`, which may have the size for `count` or
    for `count` + 1 entries. If both sizes give the same order, each set has one broker. Otherwise the order is unknown,
    and a single set has all of them.
    """
    if len(group) == 1:
        return [group]
    places = {broker_id: tuple(_slot(broker_id, _slots(size)) for size in (count, count + 1)) for broker_id in group}
    ordered = sorted(group, key=lambda broker_id: places[broker_id])
    for broker, other in pairwise(ordered):
        if any(a >= b for a, b in zip(places[broker], places[other], strict=True)):
            return [group]
    return [frozenset({broker_id}) for broker_id in ordered]


def _slots(size: int) -> int:
    """Number of slots of a `BaseHashTable` for `size` expected elements."""
    slots = 2
    while size * 3 > slots * 4:
        slots *= 2
    return slots


def _slot(number: int, slots: int) -> int:
    """Slot of an Integer (`BaseHashTable.findSlot`)."""
    return (number * _FIBONACCI & 0xFFFFFFFFFFFFFFFF) >> (65 - slots.bit_length())
