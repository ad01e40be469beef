"""Java's hashes and the order of its hash tables, on which some of Kafka's results depend.

`String.hashCode`, Kafka's `Utils.abs`, `TopicPartition.hashCode`, and the iteration order of `HashMap` (buckets
ascending, insertion order within one, no tree bins).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from kafkalog.log.writing.partitioners import java_hash_code, legacy_partition

__all__ = ["coordinator_partition", "hash_order", "java_sorted", "signed", "string_hash", "topic_partition_hash"]

_T = TypeVar("_T")
_MASK = 0xFFFFFFFF


def signed(value: int) -> int:
    """The low 32 bits as a Java int."""
    value &= _MASK
    return value - (1 << 32) if value >> 31 else value


def string_hash(text: str) -> int:
    """`String.hashCode`, over UTF-16 code units."""
    return java_hash_code(text)


def topic_partition_hash(topic: str, partition: int) -> int:
    """`TopicPartition.hashCode`."""
    return signed(31 * (31 + partition) + string_hash(topic))


def coordinator_partition(identity: str, count: int) -> int:
    """Return the partition of a coordinator's topic to which a group id or transactional id belongs; `count` is the
    number of partitions. Keys of Scala producers are hashed in the same way.
    """
    return legacy_partition(identity, count)


def java_sorted(texts: Iterable[str]) -> list[str]:
    """Sort texts as `String.compareTo` does, by UTF-16 code units."""
    return sorted(texts, key=lambda text: text.encode("utf-16-be", "surrogatepass"))


def hash_order(items: Sequence[_T], hash_of: Callable[[_T], int], capacity: int = 16) -> list[_T]:
    """Return `items` in the order in which a Java `HashMap` (or `HashSet`) iterates over them if they are inserted in
    the given order. The items must be distinct. `hash_of` returns an item's `hashCode`. `capacity` is the argument of
    the constructor. As in Java, the table doubles when it is more than three quarters full.
    """
    table = 1
    while table < capacity:
        table *= 2
    while len(items) > table * 3 // 4:
        table *= 2

    def bucket(item: _T) -> int:
        value = hash_of(item) & _MASK
        return (value ^ value >> 16) & table - 1

    return sorted(items, key=bucket)
