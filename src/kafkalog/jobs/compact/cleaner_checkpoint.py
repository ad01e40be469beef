"""Read and write `cleaner-offset-checkpoint`: the offset up to which each log was cleaned
(`LogCleanerManager.updateCheckpoints`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kafkalog.codec.common.errors import RecoveryRefused
from kafkalog.codec.files.text import OffsetCheckpointEntry, encode_offset_checkpoint
from kafkalog.codec.names import CLEANER_OFFSET_CHECKPOINT
from kafkalog.log.storage.checkpoint_file import read_offset_checkpoint
from kafkalog.log.storage.java import JavaError, TooLargeError
from kafkalog.log.storage.tree import Tree

__all__ = ["CleanerCheckpoint"]

Key = tuple[str, int]

_LOAD = 0.75
_FIRST_BUCKETS = 16


class CleanerCheckpoint:
    """Entries of `cleaner-offset-checkpoint`, which a broker reads and rewrites with every change. `known` are (topic,
    partition) of the existing logs. Rows have the order of a Java hash map; entries of unknown logs are dropped at the
    first change. Raises `RecoveryRefused` if the file cannot be parsed or is not a file.
    """

    def __init__(self, tree: Tree, known: Collection[Key]) -> None:
        self._tree = tree
        self._known = known
        self._entries = _hashed(_read(tree))

    def offset(self, key: Key) -> int | None:
        """Offset up to which a log was cleaned; None if it never was."""
        return self._entries.get(key)

    def put(self, key: Key, offset: int) -> None:
        """Set the offset up to which the log `key` was cleaned. Then write the whole file to the tree in memory,
        without the entries of unknown logs.
        """
        kept = _hashed({known_key: value for known_key, value in self._entries.items() if known_key in self._known})
        buckets = _copied_buckets(len(kept)) if kept else _FIRST_BUCKETS
        copied = dict(sorted(kept.items(), key=lambda item: _bucket(item[0], buckets)))
        copied[key] = offset
        while len(copied) > buckets * _LOAD:
            buckets *= 2
        self._entries = dict(sorted(copied.items(), key=lambda item: _bucket(item[0], buckets)))
        self._tree.write(CLEANER_OFFSET_CHECKPOINT, encode_offset_checkpoint(_rows(self._entries.items())))
        self._entries = _hashed(self._entries)

    def create(self) -> None:
        """Create an empty file in the tree if it is missing, as a broker with a cleaner does."""
        if CLEANER_OFFSET_CHECKPOINT not in self._tree.files:
            self._tree.create(CLEANER_OFFSET_CHECKPOINT)


def _read(tree: Tree) -> dict[Key, int]:
    if CLEANER_OFFSET_CHECKPOINT not in tree.files:
        if CLEANER_OFFSET_CHECKPOINT in tree.directories or CLEANER_OFFSET_CHECKPOINT in tree.links:
            raise _refused("it is not a file")
        return {}
    try:
        return read_offset_checkpoint(CLEANER_OFFSET_CHECKPOINT, tree.read(CLEANER_OFFSET_CHECKPOINT))
    except (JavaError, TooLargeError) as error:
        raise _refused(str(error)) from error


def _refused(why: str) -> RecoveryRefused:
    return RecoveryRefused(
        f"{CLEANER_OFFSET_CHECKPOINT} cannot be read ({why}), and a broker would take the directory offline: move it "
        "away, and every log counts as never cleaned",
        reason="checkpoint",
    )


def _rows(entries: Iterable[tuple[Key, int]]) -> list[OffsetCheckpointEntry]:
    return [OffsetCheckpointEntry(topic, partition, offset) for (topic, partition), offset in entries]


def _hashed(entries: dict[Key, int]) -> dict[Key, int]:
    """Return the entries in the iteration order of a Java `HashMap` to which they were added one by one."""
    buckets = _FIRST_BUCKETS
    while len(entries) > buckets * _LOAD:
        buckets *= 2
    return dict(sorted(entries.items(), key=lambda item: _bucket(item[0], buckets)))


def _copied_buckets(count: int) -> int:
    """Return the number of buckets, a power of two, of a `HashMap` that was copied from a map with `count` entries
    (`HashMap.tableSizeFor`).
    """
    wanted, buckets = int(count / _LOAD + 1.0), 1
    while buckets < wanted:
        buckets *= 2
    return buckets


def _bucket(key: Key, buckets: int) -> int:
    """Return the index of the bucket in which a Java `HashMap` keeps the key, from `TopicPartition.hashCode` with its
    bits spread. `buckets` is the number of buckets, a power of two.
    """
    topic, partition = key
    text = topic.encode("utf-16-be", "surrogatepass")
    of_topic = 0
    for index in range(0, len(text), 2):
        of_topic = (31 * of_topic + int.from_bytes(text[index : index + 2], "big")) & 0xFFFFFFFF
    mixed = (31 * (31 + partition) + of_topic) & 0xFFFFFFFF
    return (mixed ^ mixed >> 16) & (buckets - 1)
