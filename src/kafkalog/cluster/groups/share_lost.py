"""Share-partitions that a share group has initialized, and whose state `__share_group_state` no longer has.

A group coordinator writes a partition to `ShareGroupStatePartitionMetadata` in `__consumer_offsets` after its state was
written. Share coordinators of 4.1.1 and 4.3.0 declined to read state that was not there: members get no record until
the offsets are reset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from kafkalog.cluster.coordinator_logs import CoordinatorLogs
from kafkalog.cluster.groups.group_types import RESET_SHARE_OFFSETS
from kafkalog.cluster.groups.share_state import SharePartition
from kafkalog.cluster.rules.java import coordinator_partition
from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.common.wording import first_of
from kafkalog.codec.names import SHARE_GROUP_STATE_TOPIC

__all__ = ["Initialized", "initialized_by", "without_state"]

_NAMED = 3


class Initialized(Struct, frozen=True, kw_only=True):
    """A partition that a share group has initialized."""

    group: str
    topic: str
    topic_id: str
    partition: int

    def place(self, count: int) -> int:
        """Return the partition of `__share_group_state` with its state (`SharePartitionKey.asCoordinatorKey`); `count`
        is the number of these partitions.
        """
        return coordinator_partition(f"{self.group}:{self.topic_id}:{self.partition}", count)


def initialized_by(group: str, value: Mapping[str, Any]) -> list[Initialized]:
    """Return the initialized partitions in the decoded value of a `ShareGroupStatePartitionMetadata` record, in its
    order.
    """
    return [
        Initialized(group=group, topic=topic["topic_name"], topic_id=topic["topic_id"], partition=number)
        for topic in value["initialized_topics"]
        for number in topic["partitions"]
    ]


def without_state(
    initialized: Iterable[Initialized], share: Iterable[SharePartition], logs: CoordinatorLogs
) -> list[Finding]:
    """Return a warning for each group with initialized partitions whose state is lost, in the order of `initialized`. A
    state is lost if it is not in `share`, the states that were read. Its partition of `__share_group_state` must also
    have been read completely, or be known to be missing. `logs` are the partitions of this topic. Empty if their number
    is unknown.
    """
    known = {(state.group, state.topic_id, state.partition) for state in share}
    if not logs.count:
        return []
    lost: dict[str, list[str]] = {}
    for each in initialized:
        place = each.place(logs.count)
        is_lost = place in logs.lost or logs.is_whole(place)
        if is_lost and (each.group, each.topic_id, each.partition) not in known:
            lost.setdefault(each.group, []).append(f"{each.topic}-{each.partition}")
    findings = []
    for group, names in lost.items():
        detail = (
            f"share group {group} has initialized {first_of(names, _NAMED)}, and {SHARE_GROUP_STATE_TOPIC} has "
            f"no state of that: its members get no record from there until {RESET_SHARE_OFFSETS}"
        )
        findings.append(Finding.of(FindingCode.SHARE_STATE_MISSING, None, None, detail))
    return findings
