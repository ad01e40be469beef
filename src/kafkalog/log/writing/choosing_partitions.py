"""Choose the partition of a record: by its key, or for a record without a key the same one for a number of bytes or a
time (sticky partitioner). The rules are those of `BuiltInPartitioner` and `RecordAccumulator` (KIP-480, KIP-794), and
for the old hash those of `DefaultEventHandler.getPartition`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from kafkalog.codec.common.arguments import shown
from kafkalog.codec.common.errors import UsageError
from kafkalog.log.writing.partitioners import legacy_partition, partition_for_key

__all__ = ["PARTITIONERS", "ByKey", "Partitioner", "StickyPartitions", "by_key", "random_number"]

Partitioner = str | Callable[[Any, int], int]
"""One of `PARTITIONERS`, or a function of the key as passed to `send` and the number of partitions."""
ByKey = Callable[[Any, bytes | None, int], int | None]
"""Function that returns a partition number; None if any will do. Its arguments are the key as the caller passed it, the
key's bytes and the number of partitions.
"""
PARTITIONERS = ("murmur2", "hash", "sticky")
_REFRESH_MS = 600_000
"""Time for which records without a key keep one partition, in ms (`topic.metadata.refresh.interval.ms` of the Scala
producer).
"""


def random_number() -> int:
    """Return a random number from 0 to 2^31 - 1."""
    return secrets.randbits(31)


def _murmur2(_: Any, key: bytes | None, partitions: int) -> int | None:
    return None if key is None else partition_for_key(key, partitions)


def _hash(given: Any, key: bytes | None, partitions: int) -> int | None:
    if key is None:
        return None
    return legacy_partition(given if isinstance(given, str) else key, partitions)


def _sticky(_given: Any, _key: bytes | None, _partitions: int) -> int | None:
    return None


_NAMED: dict[str, ByKey] = {"murmur2": _murmur2, "hash": _hash, "sticky": _sticky}


def by_key(partitioner: Partitioner) -> ByKey:
    """Return the function that chooses the partition of a record by its key. Its arguments are the key as the caller
    passed it, the key's bytes (None without a key) and the number of partitions. It returns a partition number, or None
    if any partition will do.

    `partitioner` is a name, or a function of the key as passed and the number of partitions. That function is called
    for every record, even if the key is None. Raises `UsageError` for an unknown name. The returned function raises it
    if the caller's function does not return a valid partition number.
    """
    if isinstance(partitioner, str):
        if partitioner not in _NAMED:
            raise UsageError(f"partitioner {partitioner!r} is not one of {', '.join(PARTITIONERS)}")
        return _NAMED[partitioner]

    def asked(key: Any, _key: bytes | None, partitions: int) -> int:
        partition = partitioner(key, partitions)
        if not isinstance(partition, int) or not 0 <= partition < partitions:
            raise UsageError(f"the partitioner returned {shown(partition)}, but there are {partitions} partitions")
        return int(partition)

    return asked


class _Stuck:
    """Current sticky partition of a topic, with the bytes sent to it and the time when it was chosen (ms)."""

    __slots__ = ("partition", "produced", "since_ms")

    def __init__(self, partition: int, since_ms: int) -> None:
        self.partition = partition
        self.produced = 0
        self.since_ms = since_ms


class StickyPartitions:
    """Current partition of each topic for records without a key. A new one, perhaps the same, is chosen at random after
    `batch_size` bytes if the current batch is full, and at the latest after twice as many. With `by_time` (the rule of
    the Scala producer) a partition is kept for ten minutes instead.
    """

    def __init__(self, batch_size: int, random: Callable[[], int], *, by_time: bool = False) -> None:
        self._batch_size = max(batch_size, 1)
        self._random = random
        self._by_time = by_time
        self._stuck: dict[str, _Stuck] = {}

    def current(self, topic: str, partitions: int, now_ms: int) -> int:
        """Return the partition of the next record of a topic, from 0 to `partitions` - 1. One is chosen at random if
        the topic has none, or, with `by_time`, if it is older than ten minutes at `now_ms`.
        """
        stuck = self._stuck.get(topic)
        if stuck is None or (self._by_time and now_ms - stuck.since_ms > _REFRESH_MS):
            stuck = self._next(topic, partitions, now_ms)
        return stuck.partition

    def produced(self, topic: str, partitions: int, size: int, now_ms: int, *, may_switch: bool) -> bool:
        """Count `size` bytes sent to the topic's current partition. Choose a partition at random, perhaps the same, if
        the bytes since the last choice reach `batch_size` and `may_switch` is True. Without `may_switch`, twice as many
        bytes are needed; it is False if the last batch is not full. Return whether a partition was chosen. Return False
        with `by_time`, or for a topic without a current partition.
        """
        stuck = self._stuck.get(topic)
        if stuck is None or self._by_time:
            return False
        stuck.produced += size
        if (stuck.produced >= self._batch_size and may_switch) or stuck.produced >= 2 * self._batch_size:
            self._next(topic, partitions, now_ms)
            return True
        return False

    def _next(self, topic: str, partitions: int, now_ms: int) -> _Stuck:
        stuck = self._stuck[topic] = _Stuck(self._random() % partitions, now_ms)
        return stuck
