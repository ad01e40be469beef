"""The state of share groups, as `groups` and `offsets` print it."""

from __future__ import annotations

from collections.abc import Sequence

from kafkalog.cli.clusters.log_ends import LogEnds
from kafkalog.cli.lines import partitions_with
from kafkalog.cli.tables import Column, Kind, print_table
from kafkalog.cluster.groups.share_state import SharePartition
from kafkalog.cluster.records.coordinator_records import CONSUMER_OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC
from kafkalog.codec.findings import Finding
from kafkalog.log.directories.partition import Partition

__all__ = ["groups_in", "print_share_state", "share_lag"]

_SHOWN = 6
"""state batches of one partition"""


def groups_in(logs: Sequence[str], replica: str | None, findings: list[Finding]) -> tuple[Partition, ...]:
    """All partitions in log directories that hold a coordinator's partition of groups; none without directories."""
    if not logs:
        return ()
    return partitions_with(logs, CONSUMER_OFFSETS_TOPIC, replica, findings, or_topic=SHARE_GROUP_STATE_TOPIC)


def share_lag(state: SharePartition, end: int | None) -> int | None:
    """Offsets of a log that ends at `end` that are still to be settled; None if start or end is unknown."""
    return None if end is None or state.start_offset < 0 else end - state.start_offset - state.settled


def _batches(state: SharePartition) -> str:
    """`5-9 acknowledged x1, 12-12 available x2`."""
    words = [
        f"{each.first_offset}-{each.last_offset} {each.state} x{each.delivery_count}" for each in state.batches[:_SHOWN]
    ]
    more = len(state.batches) - _SHOWN
    return ", ".join(words) + (f" and {more} more" if more > 0 else "")


def print_share_state(states: Sequence[SharePartition], ends: LogEnds | None = None) -> None:
    """A table of share-partitions; nothing if there are none."""
    if not states:
        return
    columns: list[str | Column] = [
        "group",
        "topic",
        "partition",
        "start",
        Column("log end", if_any=True),
        Column("lag", if_any=True),
        Column("batches", wraps=True, if_any=True),
        Column("written", Kind.TIME, drop=1),
        Column("in", drop=3),
        Column("at", drop=2),
    ]
    rows = []
    for each in states:
        end = None if ends is None or each.topic is None else ends.of_partition(each.topic, each.partition)
        rows.append([
            each.group,
            each.topic or each.topic_id,
            each.partition,
            each.start_offset if each.start_offset >= 0 else None,
            end,
            share_lag(each, end),
            _batches(each),
            each.write_timestamp if each.write_timestamp >= 0 else None,
            each.log_partition,
            each.log_offset,
        ])  # fmt: skip
    print_table("share groups", columns, rows)
