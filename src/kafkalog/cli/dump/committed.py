"""`-G`: the committed offsets of a group, from the partitions of `__consumer_offsets` among the paths."""

from __future__ import annotations

from collections.abc import Sequence

from kafkalog.cli.dump.bounds import Committed
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.findings import Finding
from kafkalog.codec.common.unknown import not_known, unknown
from kafkalog.codec.names import CONSUMER_OFFSETS_TOPIC
from kafkalog.log import Partition

__all__ = ["committed_of"]


def committed_of(group: str, at_hand: Sequence[Partition], findings: list[Finding]) -> Committed:
    """Return the committed offsets of a group by (topic, partition), from the partitions of `__consumer_offsets` among
    `at_hand`; empty if the group has none. If the group's partition of `__consumer_offsets` could not be read
    completely, the findings about all these partitions are added to `findings`.

    Raises `UsageError` if there is no such partition. Raises `UnknownName` if no group that can be read has this id.
    Raises `StorageError` if a file cannot be read.
    """
    from kafkalog.cluster.groups.groups import read_groups

    if not any(partition.topic == CONSUMER_OFFSETS_TOPIC for partition in at_hand):
        raise UsageError(f"-G {group[:100]} needs {CONSUMER_OFFSETS_TOPIC}, and no partition of it is in the paths")
    read = read_groups(at_hand)
    groups = [each for each in read.groups if each.group_id == group]
    names = [each.group_id for each in read.groups]
    why = read.logs.why_unknown(group, read.partition_count)
    if not groups and why is not None:
        raise not_known("group", group, why, names)
    if not groups:
        raise unknown("group", group, names)
    if any(not read.logs.is_whole(each.log_partition) for each in groups):
        findings += read.findings
    return {(offset.key.topic, offset.key.partition): offset.offset for one in groups for offset in one.offsets}
