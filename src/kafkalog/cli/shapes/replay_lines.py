"""Lines of `kafkalog replay`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from kafkalog.codec.common.shapes import shaped

if TYPE_CHECKING:
    from kafkalog.cluster.transactions.undecided import Waiting
    from kafkalog.replay.planning import ReplayPlan
    from kafkalog.replay.run import ReplayResult

__all__ = ["Line", "plan_lines", "result_lines"]


class TopicLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="topic"):
    """A topic, and what becomes of it."""

    topic: str
    """its name in the source"""
    target_topic: str
    """its name in the target"""
    partitions: list[int]
    """those whose logs are here"""
    partition_count: int
    """how many the topic has"""
    bytes: int
    """of its logs"""
    would_expire: int
    """offsets that a broker would delete at once under the old settings"""
    would_be_compacted: bool
    """whether the old settings would have records removed whose key comes again"""
    settings: Mapping[str, str]
    """what the topic is made with"""
    old_settings: Mapping[str, str]
    """settings that were different in the source: to be put back when the records may go"""
    left_out: Mapping[str, str]
    """old settings that no other cluster can take over"""


class ProgressLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="progress"):
    """The topic that is made in the target to say how far the replay has come."""

    target_topic: str
    """its name in the target"""


class TransactionLine(Struct, frozen=True, kw_only=True):
    """A transaction that is open."""

    producer_id: int
    """whose transaction is open"""
    transactional_id: str | None
    """its name; null if no coordinator's log here knows it"""
    state: str | None
    """what the coordinator wrote last; null if that is not known"""
    first_offset: int
    """where the transaction begins"""
    records: int
    """in the transaction; they are not written if it is aborted"""


class WaitingLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="waiting"):
    """What is left behind in a partition, because transactions before it are open and nobody has decided them."""

    topic: str
    """in the source"""
    partition: int
    """of both"""
    from_offset: int
    """of the first record in the source that is not written"""
    records: int
    """of other producers that wait from there on"""
    transactions: list[TransactionLine]
    """those that are open, in the order in which they begin"""


class PartitionLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="partition"):
    """A partition that was replayed; earlier runs are included."""

    topic: str
    """in the source"""
    partition: int
    """of both"""
    records: int
    """that were written"""
    end: int
    """the offset after the last of them in the target"""
    without_time: int
    """records that this run gave the time of the replay, because they had none"""


class OffsetLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="offset"):
    """A committed offset that was set for a group."""

    group: str
    """the consumer group"""
    topic: str
    """in the source"""
    target_topic: str
    """in the target"""
    partition: int
    """of both"""
    offset: int
    """what the group had committed in the source"""
    target_offset: int
    """where the same record is in the target"""


class OffsetLeftLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="offset_left"):
    """A committed offset that was not set: the group has committed in the target already."""

    group: str
    """the consumer group"""
    topic: str
    """in the source"""
    target_topic: str
    """in the target"""
    partition: int
    """of both"""
    offset: int
    """what the group had committed in the source"""
    target_offset: int
    """where the same record is in the target"""


class ReplayedLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="replayed"):
    """What this run did."""

    records: int
    """that it wrote"""
    bytes: int
    """of their keys, values and headers, and about 70 for each"""
    topics_made: list[str]
    """names in the target"""
    offsets_set: int
    """of groups"""
    records_left_behind: int
    """of other producers, which wait behind open transactions"""
    map: str
    """the file with every record's old and new offset"""


Line = TopicLine | ProgressLine | WaitingLine | PartitionLine | OffsetLine | OffsetLeftLine | ReplayedLine
"""The plan: a line for each topic. When it was carried out: a line for each partition and for each offset of a group,
and one at the end."""


def plan_lines(plan: ReplayPlan) -> Iterator[Line]:
    """What would be written, and what would be left behind."""
    for topic in plan.topics:
        settings = topic.settings
        yield TopicLine(
            topic=topic.name,
            target_topic=topic.target,
            partitions=sorted(topic.partitions),
            partition_count=topic.partition_count,
            bytes=sum(partition.size for partition in topic.partitions.values()),
            would_expire=settings.expired,
            would_be_compacted=settings.is_compacted,
            settings=settings.written,
            old_settings=settings.put_back,
            left_out=settings.left_out,
        )
    yield ProgressLine(target_topic=plan.progress_topic)
    for waiting in plan.waiting:
        yield WaitingLine(
            topic=waiting.topic,
            partition=waiting.partition,
            from_offset=waiting.first_offset,
            records=waiting.records,
            transactions=shaped(waiting.producers, list[TransactionLine]),
        )


def result_lines(result: ReplayResult, waiting: Sequence[Waiting]) -> Iterator[Line]:
    """What was written."""
    for (topic, partition), offset_map in sorted(result.maps.items()):
        yield PartitionLine(
            topic=topic,
            partition=partition,
            records=offset_map.records,
            end=offset_map.runs[-1].target + offset_map.runs[-1].count if offset_map.runs else 0,
            without_time=result.without_time.get((topic, partition), 0),
        )
    for shape, offsets in ((OffsetLine, result.moved), (OffsetLeftLine, result.left)):
        for offset in offsets:
            yield shape(
                group=offset.group, topic=offset.source_topic, target_topic=offset.topic, partition=offset.partition,
                offset=offset.source_offset, target_offset=offset.offset,
            )  # fmt: skip
    yield ReplayedLine(
        records=result.records,
        bytes=result.bytes,
        topics_made=list(result.made),
        offsets_set=len(result.moved),
        records_left_behind=sum(each.records for each in waiting),
        map=os.path.abspath(result.map_path),
    )
