"""Types of the lines of `kafkalog offsets --json`."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from kafkalog.cluster.groups.group_lines import OffsetFields, ShareStateJson
from kafkalog.cluster.groups.migration import Migrated

__all__ = ["CommittedLine", "Line", "OffsetLine", "RemovedLine", "ShareLine"]


class OffsetLine(OffsetFields, frozen=True, kw_only=True, rename="camel"):
    """Committed offset of a consumer group for one partition."""

    timestamp: UnsetType = UNSET
    previous: UnsetType = UNSET
    log_end_offset: int | None
    """log end offset of the partition: offset of its next record; null if its log was not found or cannot be read, and
    for a past moment
    """
    lag: int | None
    """log end offset minus committed offset; negative if the log ends below the committed offset; null if the log end
    offset is unknown or the committed offset is negative
    """
    elsewhere: int | None
    """committed offset in the other storage (Kafka or ZooKeeper) if it differs; null if it is equal or missing"""


class ShareLine(ShareStateJson, frozen=True, kw_only=True, rename="camel"):
    """State of a share group for one partition."""

    log_end_offset: int | None
    """log end offset of the partition: offset of its next record; null if its log was not found or cannot be read, and
    for a past moment
    """
    lag: int | None
    """number of offsets from `startOffset` to the log end offset that are neither acknowledged nor archived; null if
    `logEndOffset` or `startOffset` is null
    """


class CommittedLine(OffsetFields, frozen=True, kw_only=True, rename="camel", tag_field="kind", tag="committed"):
    """With `--history`: one commit that took effect. Commits are sorted by group, topic and partition, then oldest
    first.
    """

    timestamp: int
    """timestamp of the record in __consumer_offsets, in ms since 1970"""
    previous: int | None
    """committed offset before the change; null if none or unknown"""
    pending: UnsetType = UNSET


class RemovedLine(Struct, frozen=True, kw_only=True, rename="camel", tag_field="kind", tag="removed"):
    """With `--history`: removal of a committed offset that expired or whose group was deleted."""

    timestamp: int
    """timestamp of the tombstone in __consumer_offsets, in ms since 1970"""
    previous: int | None
    """committed offset before the change; null if none or unknown"""
    group: str
    """consumer group id"""
    topic: str
    """topic"""
    partition: int
    """partition number"""
    log_partition: int | None
    """partition of __consumer_offsets with the tombstone; never null"""
    log_offset: int | None
    """offset of the tombstone in that partition of __consumer_offsets; never null"""


Line = OffsetLine | ShareLine | Migrated | CommittedLine | RemovedLine
"""One line for each group, topic and partition; with `--history` for each commit or removal; with `--migrate kafka` for
each group. Fields of offsets have the names that Kafka's admin client uses.
"""
