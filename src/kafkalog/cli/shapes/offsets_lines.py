"""Lines of `kafkalog offsets`."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from kafkalog.cluster.groups.group_lines import OffsetFields, ShareStateJson

__all__ = ["CommittedLine", "Line", "MigratedLine", "OffsetLine", "RemovedLine", "ShareLine"]


class OffsetLine(OffsetFields, frozen=True, kw_only=True, rename="camel"):
    """A committed offset."""

    timestamp: UnsetType = UNSET
    previous: UnsetType = UNSET
    log_end_offset: int | None
    """where the partition's log ends; null if it is not available, and for a view of the past"""
    lag: int | None
    """offsets from the commit to the end of the log; negative if the log ends below it, null if unknown"""
    elsewhere: int | None
    """the offset that the other place (Kafka or ZooKeeper) has; null if there is none"""


class ShareLine(ShareStateJson, frozen=True, kw_only=True, rename="camel"):
    """What a share group has of one partition."""

    log_end_offset: int | None
    """where the partition's log ends; null if it is not available, and for a view of the past"""
    lag: int | None
    """offsets up to there that are still to be settled; null if unknown"""


class MigratedLine(Struct, frozen=True, kw_only=True):
    """With --migrate kafka: what was written."""

    group: str
    """consumer group"""
    log_partition: int
    """partition of __consumer_offsets"""
    offsets: int
    """number of them"""


class CommittedLine(OffsetFields, frozen=True, kw_only=True, rename="camel", tag_field="kind", tag="committed"):
    """With --history: a commit that counted, oldest first for each group, topic and partition."""

    timestamp: int
    """of the record in __consumer_offsets, in ms since 1970"""
    previous: int | None
    """the offset before; null if there was none, or it is not known any more"""
    pending: UnsetType = UNSET


class RemovedLine(Struct, frozen=True, kw_only=True, rename="camel", tag_field="kind", tag="removed"):
    """With --history: an offset that was removed, because it expired or its group was deleted."""

    timestamp: int
    """of the record in __consumer_offsets, in ms since 1970"""
    previous: int | None
    """the offset before; null if there was none, or it is not known any more"""
    group: str
    """consumer group"""
    topic: str
    """topic"""
    partition: int
    """its number"""
    log_partition: int | None
    """partition of __consumer_offsets; null for an offset in ZooKeeper"""
    log_offset: int | None
    """offset of the record there; null for an offset in ZooKeeper"""


Line = OffsetLine | ShareLine | MigratedLine | CommittedLine | RemovedLine
"""One line for each group, topic and partition; under the names of Kafka's admin client."""
