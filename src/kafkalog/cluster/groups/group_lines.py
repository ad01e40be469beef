"""Groups and committed offsets as objects under the names of Kafka's admin client: one line of JSON, one row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkalog.cluster.assignors.assignors import Assignment
from kafkalog.cluster.groups.groups import Group, Member
from kafkalog.cluster.groups.growth import Growth
from kafkalog.cluster.groups.offsets import CommittedOffset
from kafkalog.cluster.groups.rederive import assignment_of, verdict
from kafkalog.cluster.groups.share_state import SharePartition

__all__ = [
    "Line",
    "group_line",
    "group_state",
    "member_line",
    "names_by_member",
    "names_of",
    "offset_line",
    "share_line",
]

Line = dict[str, object]


def _place(number: int) -> int | None:
    return None if number < 0 else number


def offset_line(commit: CommittedOffset, *, pending: bool = False) -> Line:
    """One committed offset; `source` says where it is stored, `zxid` by which transaction if that is ZooKeeper."""
    line: Line = {
        "group": commit.key.group,
        "topic": commit.key.topic,
        "partition": commit.key.partition,
        "offset": commit.offset,
        "metadata": commit.metadata,
        "leaderEpoch": None if commit.leader_epoch < 0 else commit.leader_epoch,
        "commitTimestamp": commit.commit_timestamp,
        "expireTimestamp": None if commit.expire_timestamp < 0 else commit.expire_timestamp,
        "topicId": commit.topic_id,
        "logPartition": _place(commit.log_partition),
        "logOffset": _place(commit.log_offset),
        "source": commit.source,
        "zxid": commit.zxid,
        "chroot": commit.chroot,
        "producerId": None if commit.producer_id < 0 else commit.producer_id,
    }
    return {**line, "pending": True} if pending else line


def share_line(state: SharePartition) -> Line:
    """What a share group has of one partition."""
    return {
        "group": state.group,
        "topic": state.topic,
        "partition": state.partition,
        "topicId": state.topic_id,
        "startOffset": None if state.start_offset < 0 else state.start_offset,
        "batches": [
            {
                "firstOffset": each.first_offset,
                "lastOffset": each.last_offset,
                "deliveryState": each.state,
                "deliveryCount": each.delivery_count,
            }
            for each in state.batches
        ],
        "settled": state.settled,
        "deliveryCompleteCount": None if state.delivery_complete_count < 0 else state.delivery_complete_count,
        "snapshotEpoch": state.snapshot_epoch,
        "stateEpoch": None if state.state_epoch < 0 else state.state_epoch,
        "leaderEpoch": None if state.leader_epoch < 0 else state.leader_epoch,
        "writeTimestamp": None if state.write_timestamp < 0 else state.write_timestamp,
        "logPartition": state.log_partition,
        "logOffset": state.log_offset,
        "source": "share",
    }


def names_of(partitions: Iterable[tuple[str, int]] | None) -> list[str] | None:
    """`topic-partition` of each, ordered."""
    return None if partitions is None else [f"{topic}-{number}" for topic, number in sorted(partitions)]


def member_line(member: Member) -> Line:
    """One member of a group."""
    subscription = member.subscription
    return {
        "memberId": member.member_id,
        "instance": member.instance_id,
        "clientId": member.client_id,
        "host": member.client_host,
        "assignment": names_of(member.assignment),
        "subscription": None if subscription is None else list(subscription.topics),
        "rack": member.rack_id,
        "memberEpoch": member.epoch,
        "targetAssignment": names_of(member.target),
        "unresolvedTopicIds": list(member.unresolved),
    }


def names_by_member(assignment: Assignment | None) -> dict[str, list[str] | None] | None:
    """The names of what each member has."""
    return None if assignment is None else {member: names_of(found) for member, found in sorted(assignment.items())}


def group_line(
    group: Group,
    counts: Mapping[str, int],
    without: str | None = None,
    joining: str | None = None,
    growth: Growth | None = None,
) -> Line:
    """One group, and whether its assignor would assign the same; `without`, `joining` and `growth` are what-ifs."""
    found = verdict(group, counts)
    line = group_state(group)
    line["shareState"] = [share_line(each) for each in group.share]
    line["assignmentAsDerived"] = found.same
    line["derivedAssignment"] = names_by_member(found.derived) if found.same is False else None
    line["assignmentProblems"] = list(found.problems)
    if without is not None:
        line["assignmentWithout"] = names_by_member(assignment_of(group, counts, without=without))
    if joining is not None:
        line["assignmentWith"] = names_by_member(assignment_of(group, counts, joining=joining))
    if growth is not None:
        line["assignmentGrown"] = names_by_member(growth.assignment_of(group, counts))
    return line


def group_state(group: Group) -> Line:
    """What is known of a group; whether its assignment is as derived is left out."""
    return {
        "group": group.group_id,
        "state": group.state,
        "type": group.type,
        "groupEpoch": group.epoch,
        "assignor": group.assignor,
        "members": [member_line(each) for each in group.members],
        "offsets": [
            {
                "tp": f"{commit.key.topic}-{commit.key.partition}",
                "offset": commit.offset,
                "metadata": commit.metadata,
                "leaderEpoch": None if commit.leader_epoch < 0 else commit.leader_epoch,
            }
            for commit in group.offsets
        ],
        "protocolType": group.protocol_type,
        "generation": group.generation,
        "leader": group.leader,
        "assignmentEpoch": group.assignment_epoch,
        "stateTimestamp": group.state_timestamp,
        "logPartition": _place(group.log_partition),
        "expectedPartition": _place(group.expected_partition),
        "coordinator": group.coordinator,
        "pendingOffsets": len(group.pending),
    }
