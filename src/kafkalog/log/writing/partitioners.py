"""Hash functions and partitioners of Kafka's producers, which choose a partition for a key. `murmur2` is the hash of
the Java client since 0.8.2 (`Utils.murmur2`, `BuiltInPartitioner.partitionForKey`). The Scala producers, which existed
up to 1.1, used Java's hash code (`DefaultPartitioner`, `ByteArrayPartitioner`).
"""

from __future__ import annotations

from kafkalog.codec.common.errors import UsageError

__all__ = ["java_hash_code", "legacy_partition", "murmur2", "partition_for_key"]

_MASK = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF
_M = 0x5BD1E995
_R = 24
_SEED = 0x9747B28C


def murmur2(data: bytes) -> int:
    """Return the murmur2 hash of `data` with Kafka's seed, as an unsigned 32-bit number (Java's `Utils.murmur2` returns
    it signed).
    """
    length = len(data)
    h = (_SEED ^ length) & _MASK
    whole = length - length % 4
    for start in range(0, whole, 4):
        k = int.from_bytes(data[start : start + 4], "little") * _M & _MASK
        k = (k ^ k >> _R) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if whole < length:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_for_key(key: bytes, partitions: int) -> int:
    """Return the partition to which the Java client sends a key, among `partitions`.

    * `key`: the key as it is stored
    """
    return (murmur2(key) & _POSITIVE) % _count(partitions)


def java_hash_code(key: bytes | str) -> int:
    """Return Java's hash code of a key as a signed 32-bit number: `String.hashCode` for str, `Arrays.hashCode(byte[])`
    for bytes.
    """
    if isinstance(key, str):
        units = key.encode("utf-16-be", "surrogatepass")
        h = 0
        for position in range(0, len(units), 2):
            h = (31 * h + int.from_bytes(units[position : position + 2], "big")) & _MASK
    else:
        h = 1
        for byte in key:
            h = (31 * h + (byte - 256 if byte > 127 else byte)) & _MASK
    return h - (_MASK + 1) if h > _POSITIVE else h


def legacy_partition(key: bytes | str, partitions: int, *, before_0_8_2: bool = False) -> int:
    """Return the partition to which a Scala producer sent a key, which is text by default, or bytes. Up to 0.8.1 the
    sign bit of a negative hash was cleared; since 0.8.2 its absolute value was used (`Utils.abs`). The results differ.

    * `key`: text, or bytes
    * `partitions`: number of the topic's partitions
    * `before_0_8_2`: clear the sign bit, as producers up to 0.8.1 did
    """
    code = java_hash_code(key)
    if before_0_8_2:
        return (code & _POSITIVE) % _count(partitions)
    return (0 if code == -_POSITIVE - 1 else abs(code)) % _count(partitions)


def _count(partitions: int) -> int:
    if partitions < 1:
        raise UsageError(f"{partitions} partitions")
    return partitions
