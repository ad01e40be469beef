"""Groups of records by topic, partition, key, producer or time: the question, and its result."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from kafkalog.codec.common.arguments import check_fields
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.findings import Finding

__all__ = ["TopBy", "TopGroup", "TopGroups", "TopQuestion"]


class TopBy(enum.StrEnum):
    """Properties by which records are grouped."""

    TOPIC = "topic"
    PARTITION = "partition"
    KEY = "key"
    PRODUCER = "producer"
    HOUR = "hour"
    MINUTE = "minute"
    REPEAT = "repeat"
    """equal key and value in one topic; only records that occur more than once form a group"""


class TopGroup(Struct, frozen=True, kw_only=True):
    """Records with equal values of the properties that they are grouped by; other properties are None."""

    records: int
    size: int
    """bytes of their keys and values, uncompressed"""
    first_timestamp: int | None
    last_timestamp: int | None
    """ms since 1970; None if no record has a time that a table can hold"""
    topic: str | None = None
    partition: int | None = None
    key: bytes | None = None
    producer_id: int | None = None
    time: int | None = None
    """start of the hour or minute in ms since 1970; None also for records without a timestamp"""
    disk_size: int | None = None
    """bytes of the log files; None if groups are not whole partitions"""

    @property
    def records_per_minute(self) -> float | None:
        """Mean rate between the first and last timestamp; None if they are equal or unknown."""
        if self.first_timestamp is None or self.last_timestamp is None or self.last_timestamp <= self.first_timestamp:
            return None
        return self.records * 60_000 / (self.last_timestamp - self.first_timestamp)


class TopGroups(Struct, frozen=True, kw_only=True):
    """The largest groups first, totals of all records, and the precision of the counts."""

    groups: Sequence[TopGroup]
    records: int
    size: int
    """bytes of keys and values, uncompressed"""
    missed_bytes: int
    """0 if every group was counted; else groups below this many bytes may be missing, and counts too low
    by this much
    """
    findings: Sequence[Finding]
    open_transactions: Sequence[str] = ()
    """one sentence for each partition whose committed data ends before its log"""
    disk_size: int | None = None
    """bytes of the log files of all partitions; None if groups are not whole partitions"""


class TopQuestion(Struct, frozen=True, kw_only=True):
    """How records are grouped and which are counted. Raises `UsageError` for hour and minute together."""

    by: Sequence[TopBy] = (TopBy.TOPIC,)
    """properties of a group, one or several"""
    order: Literal["bytes", "records"] = "bytes"
    """measure of the largest groups; bytes are those of the log files if groups are whole topics or partitions"""
    most: int | None = 20
    """how many groups are returned, the largest first; None: all"""
    start_time: int | None = None
    """ms since 1970; records before it, and records without a timestamp, are left out"""
    end_time: int | None = None
    """ms since 1970; records at or after it, and records without a timestamp, are left out"""
    isolation_level: str = "read_uncommitted"
    """`read_uncommitted` or `read_committed`"""

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.by or {TopBy.HOUR, TopBy.MINUTE} <= set(self.by):
            raise UsageError("group by something, and by the hour or by the minute")
