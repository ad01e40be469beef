"""What retention will take of a log, and when: foreseen from its segments and settings, nothing is changed.

The rules are those of `UnifiedLog.deleteOldSegments` (`log.storage.retention`): by the log's start, by size, by age,
always the oldest segment first.  So a segment goes when everything older than it may go too.  Nothing above the high
watermark goes, but that follows the end of a log within moments, so everything is taken to be below it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from kafkalog.cluster.rules.internal_topics import INTERNAL_TOPIC_SETTINGS
from kafkalog.codec.findings import Finding
from kafkalog.codec.names import CLUSTER_METADATA_TOPIC
from kafkalog.log import LogDir, Partition
from kafkalog.log.directories.selection import ALL, Selection
from kafkalog.log.storage import retention
from kafkalog.log.walk.summary import summarize
from kafkalog.recovery.facts.cleaner_settings import CleanerConfig, known_settings
from kafkalog.recovery.facts.topic_facts import TopicFacts

__all__ = ["PartitionRetention", "SegmentRetention", "foresee_retention"]

NEVER = 2**63 - 1


class SegmentRetention(Struct, frozen=True):
    """A segment, and what becomes of it if nothing more is written."""

    base_offset: int
    """its first offset"""
    size: int
    """bytes of its log"""
    largest_timestamp: int
    """ms since 1970; without timestamps the time of the last change"""
    goes_at: int | None
    """when a running broker may delete it, in ms since 1970; null if never by these settings"""
    reason: str | None
    """`start` (the log's), `size` or `time`; null if it does not go"""
    held_by: int | None
    """base offset of the older segment that it has to wait for; null if it waits for none"""


class PartitionRetention(Struct, frozen=True):
    """What retention will take of one partition."""

    path: str
    topic: str
    partition: int
    policy: str
    retention_ms: int
    retention_bytes: int
    """-1: no limit"""
    origins: Mapping[str, str]
    """where each of these settings is from"""
    at: int
    """ms: the time to treat as now"""
    segments: Sequence[SegmentRetention]
    findings: Sequence[Finding]

    @property
    def going(self) -> list[SegmentRetention]:
        """The segments that a broker would delete now."""
        return [each for each in self.segments if each.goes_at is not None and each.goes_at <= self.at]

    @property
    def segments_going(self) -> int:
        """Number of segments that a broker would delete now."""
        return len(self.going)

    @property
    def bytes_going(self) -> int:
        """Bytes of their logs."""
        return sum(each.size for each in self.going)

    @property
    def next_at(self) -> int | None:
        """When the next segment goes that does not go now; None if none does."""
        later = [each.goes_at for each in self.segments if each.goes_at is not None and each.goes_at > self.at]
        return min(later, default=None)

    @property
    def last_at(self) -> int | None:
        """When the last of what is there is gone; None if not all goes."""
        times = [each.goes_at for each in self.segments if each.size]
        return None if not times or None in times else max([self.at, *(each for each in times if each is not None)])


def foresee_retention(
    log_dir: LogDir,
    *,
    at: int,
    facts: TopicFacts,
    given: Mapping[str, str] | None = None,
    instead: Mapping[str, str] | None = None,
    select: Selection = ALL,
) -> Iterator[PartitionRetention]:
    """What retention will take of each live partition of a log directory.

    `facts` is what the cluster's metadata says of the topics; `given` are settings of a broker, which count where the
    cluster said nothing; `instead` are settings that are tried out, and count before everything.  `at` is ms.  Raises
    `UsageError` for a setting that Kafka does not know, `StorageError` for I/O.
    """
    CleanerConfig.from_names(instead or {})  # a name that Kafka does not know is not passed over
    for topic, number in log_dir:
        if topic == CLUSTER_METADATA_TOPIC or not select.takes(topic, number):
            continue  # snapshots decide what goes of the metadata log
        for partition in log_dir.live(topic, number):
            settings, origins = _settings(topic, facts, given or {}, instead or {})
            yield _of(partition, topic, number, settings, origins, at)


def _settings(
    topic: str, facts: TopicFacts, given: Mapping[str, str], instead: Mapping[str, str]
) -> tuple[CleanerConfig, dict[str, str]]:
    """By precedence, the strongest last; and where each is from."""
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
) -> PartitionRetention:
    findings: list[Finding] = []
    facts: list[_Facts] = []
    for segment in partition.segments:
        seen = summarize(segment)
        findings += seen.findings
        largest = -1 if seen.last_timestamp is None else seen.last_timestamp
        newest = largest if largest >= 0 else segment.modified_ns // 1_000_000
        facts.append(_Facts(segment.base_offset, segment.size, newest))
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


def _foreseen(facts: Sequence[_Facts], settings: CleanerConfig, log_start: int, at: int) -> list[SegmentRetention]:
    by_start = retention.below_start(facts, log_start)
    by_size = by_start
    if settings.deletes_old:
        by_size += retention.beyond_size(facts[by_start:], settings.retention_bytes)
    found: list[SegmentRetention] = []
    waits_until, holder = 0, None
    for place, each in enumerate(facts):
        is_empty_end = place == len(facts) - 1 and each.size == 0
        own = NEVER if is_empty_end else at if place < by_size else _by_age(each, settings)
        reason = "start" if place < by_start else "size" if place < by_size else "time"
        goes = max(own, waits_until)
        found.append(
            SegmentRetention(
                each.base_offset,
                each.size,
                each.largest_timestamp,
                None if goes == NEVER else goes,
                None if goes == NEVER else reason,
                holder if waits_until > max(own, at) else None,
            )
        )
        if own > waits_until:
            waits_until, holder = own, each.base_offset
    return found


def _by_age(each: _Facts, settings: CleanerConfig) -> int:
    if not settings.deletes_old or settings.retention_ms < 0:
        return NEVER
    return max(each.largest_timestamp + settings.retention_ms + 1, 0)
