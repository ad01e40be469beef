"""`-G`: where a group has committed, from the `__consumer_offsets` that is at hand."""

from __future__ import annotations

from collections.abc import Sequence

from kafkalog.cli.dump.bounds import Committed
from kafkalog.codec.errors import UsageError
from kafkalog.codec.names import CONSUMER_OFFSETS_TOPIC
from kafkalog.codec.unknown import unknown
from kafkalog.log import Partition

__all__ = ["committed_of"]


def committed_of(group: str, at_hand: Sequence[Partition]) -> Committed:
    """The offsets of a group; `UsageError` without the topic, `UnknownName` for a group that is not in it."""
    from kafkalog.cluster.groups.groups import read_groups

    if not any(each.topic == CONSUMER_OFFSETS_TOPIC for each in at_hand):
        raise UsageError(f"-G {group[:100]} needs {CONSUMER_OFFSETS_TOPIC}, and no partition of it is in the paths")
    groups = read_groups(at_hand).groups
    found = [each for each in groups if each.group_id == group]
    if not found:
        raise unknown("group", group, [each.group_id for each in groups])
    return {(each.key.topic, each.key.partition): each.offset for one in found for each in one.offsets}
