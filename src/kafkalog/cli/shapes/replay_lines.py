"""JSON lines of `kafkalog replay`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from kafkalog.cluster.transactions.undecided import OpenProducer

if TYPE_CHECKING:
    from kafkalog.cluster.transactions.undecided import Waiting
    from kafkalog.replay.planning import ReplayPlan
    from kafkalog.replay.run import ReplayResult

__all__ = ["Line", "plan_lines", "result_lines"]


class TopicLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="topic"):
    """Plan for a topic that is to be replayed."""

    topic: str
    """name of the topic in the source"""
    target_topic: str
    """name of the topic in the target cluster"""
    partitions: list[int]
    """numbers of the partitions that are replayed: they are selected and their logs are in the given directories"""
    partition_count: int
    """number of partitions of the topic in the source; the target gets as many"""
    bytes: int
    """total size of the segments of the replayed partitions, in bytes, including records that are not replayed"""
    would_expire: int
    """number of offsets that a broker would delete at once by age if the topic had its old settings in the target"""
    would_be_compacted: bool
    """whether the old settings would compact the topic in the target (`cleanup.policy`)"""
    settings: Mapping[str, str]
    """topic settings with which the topic is created, if it does not exist in the target yet: name -> value"""
    old_settings: Mapping[str, str]
    """source values of settings that differ in the target, for restoring them later: name -> value; Kafka's default if
    the source has no value
    """
    left_out: Mapping[str, str]
    """source settings that are not applied in the target, because they are obsolete or apply to one cluster only: name
    -> value
    """


class ProgressLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="progress"):
    """Topic in the target cluster in which the replay records its progress."""

    target_topic: str
    """name of the progress topic in the target cluster"""


class WaitingLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="waiting"):
    """Partition with an undecided transaction: records from the transaction's start on are not replayed."""

    topic: str
    """name of the topic in the source"""
    partition: int
    """partition number (same in source and target)"""
    from_offset: int
    """first source offset that is not replayed (inclusive)"""
    records: int
    """number of records of other producers from this offset on, which are not replayed; without the records of the open
    transactions
    """
    transactions: list[OpenProducer]
    """open transactions of the partition, in the order of their first offsets"""


class PartitionLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="partition"):
    """Result for a replayed partition, including earlier interrupted executions of the same replay."""

    topic: str
    """name of the topic in the source"""
    partition: int
    """partition number (same in source and target)"""
    records: int
    """number of records written to the target, by this and earlier executions"""
    end: int
    """offset after the last replayed record in the target; 0 if no record was replayed"""
    without_time: int
    """number of records without a timestamp that this execution wrote with the time of the replay"""


class OffsetLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="offset"):
    """Committed offset that was set for a consumer group in the target."""

    group: str
    """id of the consumer group"""
    topic: str
    """name of the topic in the source"""
    target_topic: str
    """name of the topic in the target"""
    partition: int
    """partition number (same in source and target)"""
    offset: int
    """committed offset of the group in the source"""
    target_offset: int
    """committed offset of the group in the target: first replayed record at or after the source offset, else the offset
    after the last replayed record; 0 if no record was replayed
    """


class OffsetLeftLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="offset_left"):
    """Committed offset that was not set, because the group has already committed another offset in the target."""

    group: str
    """id of the consumer group"""
    topic: str
    """name of the topic in the source"""
    target_topic: str
    """name of the topic in the target"""
    partition: int
    """partition number (same in source and target)"""
    offset: int
    """committed offset of the group in the source"""
    target_offset: int
    """target offset that corresponds to the source offset and was not committed: first replayed record at or after the
    source offset, else the offset after the last replayed record; 0 if no record was replayed
    """


class ReplayedLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="replayed"):
    """Totals of this execution of the replay."""

    records: int
    """number of records that this execution wrote"""
    bytes: int
    """total size of the written keys, values and headers, plus 70 bytes per record, in bytes"""
    topics_made: list[str]
    """names of the topics that were created in the target, without the progress topic"""
    offsets_set: int
    """number of committed offsets that were set for consumer groups"""
    records_left_behind: int
    """number of records of other producers that are not replayed, because they come after the start of an open
    transaction
    """
    map: str
    """absolute path of the Parquet file that maps source offsets to target offsets"""


Line = TopicLine | ProgressLine | WaitingLine | PartitionLine | OffsetLine | OffsetLeftLine | ReplayedLine
"""Plan: a line for each topic, one for the progress topic, and one for each partition with an undecided transaction.
Result: a line for each partition and each committed offset, and one with totals.
"""


def plan_lines(plan: ReplayPlan) -> Iterator[Line]:
    """Yield the lines of the plan: one per topic, and one for the topic that records progress. Then comes one for each
    partition in which records are not replayed because of an open transaction.
    """
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
            transactions=list(waiting.producers),
        )


def result_lines(result: ReplayResult, waiting: Sequence[Waiting]) -> Iterator[Line]:
    """Yield the lines of the result: one per partition, sorted; one for each committed offset that was set; one for
    each offset that was left unchanged; last the totals. `waiting` are the partitions with records of open
    transactions, which were not replayed.
    """
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
