"""Conversion of committed offsets from ZooKeeper to `__consumer_offsets` and back, as for a change of
`offsets.storage`.

No data is changed in place: offsets for Kafka are written into a new log directory, and for ZooKeeper a script for
`zkCli.sh` is generated. Follows `ZookeeperConsumerConnector.commitOffsets` and `commit_offsets`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from msgspec import Struct

from kafkalog.cluster.groups.commit_offsets import commit_offsets
from kafkalog.cluster.groups.offsets import CommittedOffset, OffsetKey
from kafkalog.cluster.records.coordinator_records import CONSUMER_OFFSETS_TOPIC
from kafkalog.cluster.zookeeper.kafka_nodes import replicas_of
from kafkalog.cluster.zookeeper.tree import Tree
from kafkalog.codec.common.errors import UsageError
from kafkalog.log.disk.files import PathLike, scan_directory
from kafkalog.log.writing.broker_directories import made_log_directory

__all__ = ["Migrated", "elsewhere", "into_kafka", "offsets_partitions", "zookeeper_script"]


class Migrated(Struct, frozen=True):
    """With `--migrate kafka`: one consumer group whose committed offsets were written."""

    group: str
    """consumer group id"""
    log_partition: int
    """partition of __consumer_offsets that received the offsets"""
    offsets: int
    """number of committed offsets that were written"""


def elsewhere(mine: Iterable[CommittedOffset], others: Iterable[CommittedOffset]) -> dict[OffsetKey, int]:
    """Return the offsets that both sides have with different values, with the value of `others`."""
    known = {other.key: other.offset for other in others}
    return {offset.key: known[offset.key] for offset in mine if known.get(offset.key, offset.offset) != offset.offset}


def offsets_partitions(tree: Tree, chroot: str, given: int | None) -> int | None:
    """Return the number of partitions of `__consumer_offsets`: from ZooKeeper's topic node, else `given`; None if both
    are unknown.

    Raises `UsageError` if both are known and differ.
    """
    node = tree.nodes.get(f"{chroot}/brokers/topics/{CONSUMER_OFFSETS_TOPIC}")
    count = len(replicas_of(node.data)) if node is not None else 0
    if count and given not in (None, count):
        raise UsageError(
            f"{CONSUMER_OFFSETS_TOPIC} has {count} partitions according to ZooKeeper, and {given} were asked for"
        )
    return count or given


def into_kafka(offsets: Iterable[CommittedOffset], into: PathLike, partitions: int | None) -> list[Migrated]:
    """Write committed offsets into a new or empty log directory; return one `Migrated` per group, sorted by group id.

    `Migrated` has the group id, the partition of `__consumer_offsets`, and the number of offsets written. `partitions`
    is the number of partitions of `__consumer_offsets`, None means 50. Of several offsets for one partition of a group
    the last counts. Commits get the current time, because brokers expire offsets by commit time. Nothing is created if
    there are no offsets. Raises `UsageError` if `into` exists and is not an empty directory, or would be created inside
    a log directory, or if an offset is negative; nothing is written then. It is raised later for an empty group id or
    `partitions` below 1. Raises `StorageError` for I/O errors; groups that were written before stay.
    """
    by_group: dict[str, dict[tuple[str, int], int]] = {}
    for offset in offsets:
        if offset.offset < 0:
            raise UsageError(
                f"group {offset.key.group} has offset {offset.offset} for {offset.key.topic}-{offset.key.partition}"
            )
        by_group.setdefault(offset.key.group, {})[offset.key.topic, offset.key.partition] = offset.offset
    if os.path.lexists(into) and (not os.path.isdir(into) or any(scan_directory(os.fspath(into)))):
        raise UsageError(f"{os.fspath(into)} already exists; migrated offsets go into a directory that is new or empty")
    if by_group:
        made_log_directory(into)
    return [
        Migrated(
            group,
            commit_offsets(into, group, dict(group_offsets), offsets_topic_num_partitions=partitions),
            len(group_offsets),
        )
        for group, group_offsets in sorted(by_group.items())
    ]


def _name(text: str) -> str:
    if not text or "/" in text or text in (".", "..") or not text.isprintable():
        raise UsageError(f"{text!r} cannot be the name of a node in ZooKeeper")
    return text


def _word(path: str) -> str:
    """Quote a path for a `zkCli.sh` command line; unchanged if it has neither spaces nor quotes.

    `zkCli.sh` accepts quotes of both kinds but no escapes. Raises `UsageError` if the path has both kinds of quotes.
    """
    if not any(character.isspace() or character in "\"'" for character in path):
        return path
    if '"' in path and "'" in path:
        raise UsageError(f"{path} has quotes of both kinds, which zkCli.sh cannot read")
    return f"'{path}'" if '"' in path else f'"{path}"'


def zookeeper_script(offsets: Iterable[CommittedOffset], tree: Tree | None, chroot: str = "") -> Iterator[str]:
    """Yield command lines for `zkCli.sh` that store these offsets in ZooKeeper, sorted by group, topic and partition.
    Paths begin with `chroot`.

    `tree` has the present nodes. Only missing nodes are then created, and only nodes with other values are set. If it
    is None, each offset gets a command that creates its node and one that sets it; creating an existing node fails
    without harm. Raises `UsageError` while iterating for a group or topic that cannot be the name of a ZooKeeper node
    or be quoted.
    """
    nodes = tree.nodes if tree is not None else {}
    created: set[str] = set()
    for offset in sorted(offsets, key=lambda commit: commit.key):
        parts = ["consumers", _name(offset.key.group), "offsets", _name(offset.key.topic), str(offset.key.partition)]
        path = chroot
        for part in parts[:-1]:
            path = f"{path}/{part}"
            if path not in nodes and path not in created:
                created.add(path)
                yield f'create {_word(path)} ""'
        path = f"{path}/{parts[-1]}"
        there = nodes.get(path)
        if there is None:
            yield f"create {_word(path)} {offset.offset}"
        if (tree is None and there is None) or (there is not None and there.data != str(offset.offset).encode()):
            yield f"set {_word(path)} {offset.offset}"
