"""Predict what retention deletes from a log, and when, by its segments and settings. Changes nothing.

The rules are those of `UnifiedLog.deleteOldSegments` (`log.storage.retention`): by the log start offset, by size, by
age, always the oldest segment first, so that a segment is deleted only if every older one may be. Nothing above the
high watermark is deleted, but that follows the end of a log within moments, so everything is assumed to be below it.

A broker takes the age of a segment from the last entry of its time index. It makes the indexes of a segment again only
if it recovers the segment: after a crash, if it ends beyond the recovery point.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Annotated

from msgspec import Struct

from kafkalog.cluster.rules.internal_topics import INTERNAL_TOPIC_SETTINGS
from kafkalog.codec.common.arguments import TIMES, Bounds
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.wording import moment_text
from kafkalog.codec.names import CLUSTER_METADATA_TOPIC, DELETED, FileKind
from kafkalog.log import LogDir, Partition, open_all
from kafkalog.log.directories.selection import ALL, Selection, unreadable_names
from kafkalog.log.disk.files import FileSource, PathLike
from kafkalog.log.storage.retention import below_start, beyond_size, last_indexed_timestamp
from kafkalog.log.walk.segment import Segment
from kafkalog.log.walk.summary import summarize
from kafkalog.recovery.facts.brokers import facts_of_each
from kafkalog.recovery.facts.cleaner_settings import CleanerConfig, known_settings
from kafkalog.recovery.facts.topic_facts import TopicFacts

__all__ = ["PartitionRetention", "Retention", "SegmentRetention", "foresee_retention", "retention"]

NEVER = 2**63 - 1


class SegmentRetention(Struct, frozen=True, kw_only=True):
    """A segment, and what becomes of it if nothing more is written."""

    base_offset: int
    """its first offset"""
    size: int
    """bytes of its log"""
    largest_timestamp: int
    """ms since 1970, as a broker takes it: by the time index, or by the records if a start makes the index again;
    without timestamps the time of the last change
    """
    goes_at: int | None
    """when a running broker may delete it, in ms since 1970; null if never by these settings"""
    reason: str | None
    """`start` (the log's), `size` or `time`; null if it does not go"""
    held_by: int | None
    """base offset of the older segment that it has to wait for; null if it waits for none"""


class PartitionRetention(Struct, frozen=True, kw_only=True):
    """Prediction for one partition."""

    path: str
    topic: str
    partition: int
    policy: str
    retention_ms: int
    retention_bytes: int
    """bytes; -1: no limit"""
    origins: Mapping[str, str]
    """source of each of these settings"""
    at: int
    """time to treat as now, ms since 1970"""
    segments: Sequence[SegmentRetention]
    findings: Sequence[Finding]

    @property
    def going(self) -> list[SegmentRetention]:
        """Segments that a broker would delete now."""
        return [segment for segment in self.segments if segment.goes_at is not None and segment.goes_at <= self.at]

    @property
    def segments_going(self) -> int:
        """Number of segments that a broker would delete now."""
        return len(self.going)

    @property
    def bytes_going(self) -> int:
        """Bytes of the logs that a broker would delete now."""
        return sum(segment.size for segment in self.going)

    @property
    def next_at(self) -> int | None:
        """Time (ms since 1970) at which the next segment is deleted that is not deleted now; None if none is."""
        later = [
            segment.goes_at for segment in self.segments if segment.goes_at is not None and segment.goes_at > self.at
        ]
        return min(later, default=None)

    @property
    def last_at(self) -> int | None:
        """Time (ms since 1970) at which the last present segment is deleted; None if some are never deleted, or the log
        is empty.
        """
        times = [segment.goes_at for segment in self.segments if segment.size]
        return None if not times or None in times else max([self.at, *(time for time in times if time is not None)])


class Retention(Struct, frozen=True, kw_only=True):
    """Prediction for the chosen partitions, in the order of the directories."""

    at: int
    """time to treat as now, ms since 1970"""
    partitions: tuple[PartitionRetention, ...]
    deleted: tuple[str, ...]
    """paths of segments that were deleted before; the next start removes them"""
    findings: tuple[Finding, ...]


def retention(
    *paths: PathLike,
    select: Selection = ALL,
    at: Annotated[int | None, Bounds(TIMES)] = None,
    started_with: Mapping[str, str] | None = None,
    instead: Mapping[str, str] | None = None,
) -> Retention:
    """Predict which segments a running broker would delete now, when it deletes the others, and which older segments
    delay them. Reads only.

    A directory that cannot be read is left out, with a finding. Raises `UsageError` if a path has no Kafka data, or is
    a partition directory or segment file outside of the other paths. Raises it also for a setting that does not exist
    or is invalid, and if everything selected is excluded. Raises `UnknownName` for a topic or partition that does not
    exist, `StorageError` for other I/O.

    * `paths`: log directories
    * `select`: the topic-partitions to predict
    * `at`: time to treat as now, ms since 1970; None: the clock's
    * `started_with`: settings of the broker's server.properties, used if neither the metadata nor Kafka itself (for its
      internal topics) sets them
    * `instead`: settings of topics to try out, which take precedence over everything
    """
    inventory = open_all(*paths, tolerant=True)
    if inventory.standalone:
        raise UsageError("retention looks at log directories, because settings belong to topics of a broker")
    keys = [key for log_dir in inventory.log_dirs for key in log_dir]
    select.check([*keys, *unreadable_names(inventory.all_unreadable)])
    known = facts_of_each([log_dir.path for log_dir in inventory.log_dirs])
    now = time.time_ns() // 1_000_000 if at is None else at
    partition_retentions = tuple(
        foreseen
        for log_dir in inventory.log_dirs
        for foreseen in foresee_retention(
            log_dir, at=now, facts=known[os.path.realpath(log_dir.path)], given=started_with, instead=instead,
            select=select,
        )
    )  # fmt: skip
    logs = [partition for log_dir in inventory.log_dirs for partition in log_dir.partitions]
    left = [path for log in logs if select.takes(log.topic, log.partition) for path in log.unfinished]
    return Retention(
        at=now,
        partitions=partition_retentions,
        deleted=tuple(path for path in left if path.endswith(f"{FileKind.LOG}{DELETED}")),
        findings=(
            *inventory.half_done, *select.of_unreadable(inventory.all_unreadable),
            *(finding for partition_retention in partition_retentions for finding in partition_retention.findings),
        ),
    )  # fmt: skip


def foresee_retention(
    log_dir: LogDir,
    *,
    at: int,
    facts: TopicFacts,
    given: Mapping[str, str] | None = None,
    instead: Mapping[str, str] | None = None,
    select: Selection = ALL,
) -> Iterator[PartitionRetention]:
    """Yield the prediction for each selected live partition of a log directory, except the metadata log.

    `facts` are the topics' settings in the cluster's metadata. `given` are settings of a broker, used if neither the
    metadata nor Kafka itself (for its internal topics) sets them. `instead` are settings to try out, which take
    precedence over everything. `at` is the time to treat as now, ms since 1970. Raises while iterating: `UsageError`
    for an unknown setting in `instead` or an invalid value, `StorageError` for I/O.
    """
    CleanerConfig.from_names(instead or {})  # a name that Kafka does not know is not passed over
    for topic, number in log_dir:
        if topic == CLUSTER_METADATA_TOPIC or not select.takes(topic, number):
            continue  # snapshots decide what goes of the metadata log
        for partition in log_dir.live(topic, number):
            settings, origins = _settings(topic, facts, given or {}, instead or {})
            point = log_dir.recovery_points.get((topic, number), 0)
            is_kept = partial(_keeps_indexes, recovery_point=NEVER if log_dir.clean_shutdown is not None else point)
            yield _of(partition, topic, number, settings, origins, at, is_kept)


def _settings(
    topic: str, facts: TopicFacts, given: Mapping[str, str], instead: Mapping[str, str]
) -> tuple[CleanerConfig, dict[str, str]]:
    """Return the effective settings of a topic, and for each retention setting its source: `default`,
    `server.properties`, `kafka`, `broker`, `topic` or `--config`. A later source in this list takes precedence. Raises
    `UsageError` for an invalid value.
    """
    layers = {
        "default": {"cleanup.policy": "delete", "retention.ms": "604800000", "retention.bytes": "-1"},
        "server.properties": known_settings(given),
        "kafka": INTERNAL_TOPIC_SETTINGS.get(topic, {}),
        "broker": facts.cleaner_broker_configs,
        "topic": facts.cleaner_configs.get(topic, {}),
        "--config": known_settings(instead),
    }
    values: dict[str, str] = {}
    origins: dict[str, str] = {}
    for origin, layer in layers.items():
        for name, value in layer.items():
            values[name] = value
            if name in layers["default"]:
                origins[name] = origin
    return CleanerConfig.from_names(values), origins


class _Facts(Struct, frozen=True):
    base_offset: int
    size: int
    largest_timestamp: int


def _of(
    partition: Partition,
    topic: str,
    number: int,
    settings: CleanerConfig,
    origins: Mapping[str, str],
    at: int,
    keeps_indexes: Callable[[Segment, Segment | None], bool],
) -> PartitionRetention:
    findings: list[Finding] = []
    facts: list[_Facts] = []
    for segment, following in zip_longest(partition.segments, partition.segments[1:]):
        seen = summarize(segment)
        findings += seen.findings
        by_records = seen.last_timestamp
        newest = _indexed(segment) if keeps_indexes(segment, following) else by_records
        if by_records is not None and newest is not None and newest != by_records:
            findings.append(_other_age(segment, newest, by_records))
        modified = segment.modified_ns // 1_000_000
        facts.append(_Facts(segment.base_offset, segment.size, modified if newest is None else newest))
    policies = {"compact": settings.is_compacted, "delete": settings.deletes_old}
    return PartitionRetention(
        path=partition.path,
        topic=topic,
        partition=number,
        policy=",".join(name for name, is_one in policies.items() if is_one),
        retention_ms=settings.retention_ms,
        retention_bytes=settings.retention_bytes,
        origins=origins,
        at=at,
        segments=_foreseen(facts, settings, partition.log_start_offset, at),
        findings=findings,
    )


def _keeps_indexes(segment: Segment, following: Segment | None, *, recovery_point: int) -> bool:
    """Whether a start keeps the indexes of a segment: the next one begins at or below the recovery point, or the point
    is `NEVER` because the broker stopped in order. A segment without offset index is recovered in any case.
    """
    is_below = recovery_point == NEVER or (following is not None and following.base_offset <= recovery_point)
    return is_below and FileKind.OFFSET_INDEX in segment.files


def _indexed(segment: Segment) -> int | None:
    """Return the timestamp (ms) of the last entry of a segment's time index. None if there is no index, or if a broker
    does not use the timestamp (`last_indexed_timestamp`) and takes the modification time of the log. Raises
    `StorageError` if the index cannot be read.
    """
    path = segment.files.get(FileKind.TIME_INDEX)
    if path is None:
        return None
    with FileSource(path) as index:
        return last_indexed_timestamp(index)


def _other_age(segment: Segment, by_index: int, by_records: int) -> Finding:
    detail = (
        f"the last entry is of {moment_text(by_index)}, the newest record of {moment_text(by_records)}: a broker goes "
        "by the index until a full recovery (`kafkalog recover --full`) makes it again"
    )
    path = segment.files[FileKind.TIME_INDEX]
    return Finding(FindingCode.INDEX_ENTRY_MISMATCH, Severity.ERROR, detail=detail, file=path)


def _foreseen(facts: Sequence[_Facts], settings: CleanerConfig, log_start: int, at: int) -> list[SegmentRetention]:
    by_start = below_start(facts, log_start)
    by_size = by_start
    if settings.deletes_old:
        by_size += beyond_size(facts[by_start:], settings.retention_bytes)
    segment_retentions: list[SegmentRetention] = []
    waits_until, holder = 0, None
    for place, each in enumerate(facts):
        is_empty_end = place == len(facts) - 1 and each.size == 0
        own = NEVER if is_empty_end else at if place < by_size else _by_age(each, settings)
        reason = "start" if place < by_start else "size" if place < by_size else "time"
        goes = max(own, waits_until)
        segment_retentions.append(
            SegmentRetention(
                base_offset=each.base_offset,
                size=each.size,
                largest_timestamp=each.largest_timestamp,
                goes_at=None if goes == NEVER else goes,
                reason=None if goes == NEVER else reason,
                held_by=holder if waits_until > max(own, at) else None,
            )
        )
        if own > waits_until:
            waits_until, holder = own, each.base_offset
    return segment_retentions


def _by_age(segment: _Facts, settings: CleanerConfig) -> int:
    if not settings.deletes_old or settings.retention_ms < 0:
        return NEVER
    return max(segment.largest_timestamp + settings.retention_ms + 1, 0)
