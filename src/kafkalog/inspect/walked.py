"""Walk over every partition once: maps of its segments, its offsets and times, and a chart of appends over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from kafkalog.codec.common.findings import Finding, Severity, Unread
from kafkalog.codec.common.limits import Limits
from kafkalog.codec.model import codec_label
from kafkalog.inspect.facts import Examined, PartitionFacts, TopicFacts
from kafkalog.inspect.stretches import BatchFacts, Kind, SegmentMap, segment_maps
from kafkalog.inspect.timeline import Timeline
from kafkalog.log.directories.partition import Partition
from kafkalog.recovery.checks.report import PartitionReport

__all__ = ["MOST_CLEAN", "MOST_DAMAGED", "MOST_HOLES", "walk_over"]

MOST_DAMAGED = 120
_FINE_CLEAN = 60
"""Most stretches in which a sound segment is drawn."""
MOST_HOLES = 100
"""Most gaps of a partition for which the times around them are kept."""
MOST_CLEAN = 240
"""Most sound segments that are drawn too, those of partitions with damage first."""


class _PartitionWalk:
    """Receives all batches of one partition and adds them up."""

    def __init__(self, topic: str, timeline: Timeline) -> None:
        self._topic = topic
        self._timeline = timeline
        self.first_offset: int | None = None
        self.last_offset: int | None = None
        self.first_timestamp: int | None = None
        self.last_timestamp: int | None = None
        self.batches = self.records = 0
        self.codecs: Counter[int] = Counter()
        self.unread: list[Unread] = []
        self._before: BatchFacts | None = None

    def batch(self, facts: BatchFacts) -> None:
        """Add one batch to the totals, to the range of offsets, to the range of times (ms since 1970; a negative time
        is ignored), and to the timeline. A range of offsets that is missing after the previous batch is added to
        `unread`, which holds at most `MOST_HOLES` ranges.
        """
        self.batches += 1
        self.records += facts.records
        self.codecs[facts.codec] += 1
        self._look_for_a_hole(facts)
        if self.first_offset is None:
            self.first_offset = facts.first_offset
        self.last_offset = max(facts.last_offset, self.last_offset or facts.last_offset)
        time = facts.timestamp
        if time >= 0:
            self.first_timestamp = time if self.first_timestamp is None else min(self.first_timestamp, time)
            self.last_timestamp = time if self.last_timestamp is None else max(self.last_timestamp, time)
        self._timeline.add(self._topic, time, facts.records, facts.size)

    def _look_for_a_hole(self, facts: BatchFacts) -> None:
        before, self._before = self._before, facts
        if before is None or len(self.unread) == MOST_HOLES or facts.first_offset <= before.last_offset + 1:
            return
        times = (time if time >= 0 else None for time in (before.timestamp, facts.begins))
        self.unread.append(Unread(before.last_offset + 1, facts.first_offset - 1, *times))


class _Gallery:
    """The segment maps that the report will draw, preferably the worst; all other segments are only counted."""

    def __init__(self) -> None:
        self._by_rank: dict[int, list[tuple[PartitionFacts, SegmentMap]]] = {}
        self._beside: list[tuple[PartitionFacts, SegmentMap]] = []
        self._clean: list[tuple[PartitionFacts, SegmentMap]] = []
        self.segments = self.not_sound = 0

    def add(self, partition: PartitionFacts, maps: Sequence[SegmentMap], not_sound: int) -> None:
        """Count a partition's segments; `not_sound` of them are not sound. Keep some of `maps` for drawing, at most so
        many of all partitions together:

        * `MOST_DAMAGED` segments that are not sound, for each `worst` kind
        * `MOST_CLEAN` sound segments in partitions that also have others
        * `MOST_CLEAN` segments in partitions with only sound ones
        """
        self.not_sound += not_sound
        self.segments += partition.segments
        for segment_map in maps:
            if not segment_map.is_sound:
                alike = self._by_rank.setdefault(segment_map.worst.rank, [])
                if len(alike) < MOST_DAMAGED:
                    alike.append((partition, segment_map))
            elif not_sound and len(self._beside) < MOST_CLEAN:
                self._beside.append((partition, segment_map))
            elif not not_sound and len(self._clean) < MOST_CLEAN:
                self._clean.append((partition, segment_map))

    def drawn(self) -> tuple[tuple[PartitionFacts, SegmentMap], ...]:
        """Return the (partition, map) pairs to draw. They are the worst segments that are not sound (at most
        `MOST_DAMAGED`), and the sound segments that were kept for the same partitions. If the latter are fewer than
        `MOST_CLEAN`, sound segments of partitions with only sound ones are added up to this number. Partitions with a
        drawn segment that is not sound come first; then the order is by path and base offset.
        """
        worst_first = [each for rank in sorted(self._by_rank, reverse=True) for each in self._by_rank[rank]]
        damaged = worst_first[:MOST_DAMAGED]
        hurt = {partition.path for partition, _map in damaged}
        beside = [each for each in self._beside if each[0].path in hurt]
        room = max(MOST_CLEAN - len(beside), 0)
        found = [*damaged, *beside, *self._clean[:room]]
        return tuple(
            sorted(found, key=lambda each: (each[0].path not in hurt, each[0].path, each[1].segment.base_offset))
        )


def walk_over(
    partitions: Iterable[tuple[str, Partition]],
    findings: Mapping[str, Sequence[Finding]],
    verified: Mapping[str, PartitionReport],
    limits: Limits,
    on_bytes: Callable[[int], None],
) -> Examined:
    """Read all batches of the partitions, and return totals, facts per partition, maps of some segments, and a
    timeline. Each item of `partitions` is a log directory and a partition in it. A limited number of segments get a
    map, preferably damaged ones; the others are only counted. Bytes that cannot be read raise no error; a map shows
    them.

    `findings` are the findings of `verify` by log file, `verified` its reports by partition directory. `on_bytes` is
    called with the number of bytes read.
    """
    timeline, gallery = Timeline(), _Gallery()
    partition_facts: list[PartitionFacts] = []
    damaged_segments = damaged_partitions = 0
    for directory, partition in partitions:
        topic = partition.topic or partition.path
        walk = _PartitionWalk(topic, timeline)
        kept: list[SegmentMap] = []
        not_sound, damaged, worst = 0, 0, {}
        for whole in segment_maps(partition.segments, findings, walk, limits=limits, on_bytes=on_bytes):
            segment_map = whole.at_most(_FINE_CLEAN) if whole.is_sound else whole
            if not segment_map.is_sound:
                not_sound += 1
                damaged += segment_map.is_damaged
                for stretch in segment_map.stretches:
                    worst[stretch.kind] = True
            if len(kept) < MOST_CLEAN or (not segment_map.is_sound and not_sound <= MOST_DAMAGED):
                kept.append(segment_map)
        report = verified.get(partition.path) or PartitionReport(
            path=partition.path, log_end_offset=partition.log_start_offset
        )
        serious = [finding for finding in report.findings if finding.severity is not Severity.INFO]
        serious.sort(key=lambda each: each.severity is not Severity.ERROR)
        facts = PartitionFacts(
            path=partition.path,
            directory=directory,
            topic=topic,
            number=partition.partition,
            state=partition.state.value or "live",
            segments=len(partition.segments),
            size=partition.size,
            log_start_offset=partition.log_start_offset,
            log_end_offset=report.log_end_offset,
            first_offset=walk.first_offset,
            last_offset=walk.last_offset,
            first_timestamp=walk.first_timestamp,
            last_timestamp=walk.last_timestamp,
            batches=walk.batches,
            records=walk.records,
            codecs=tuple((codec_label(codec), count) for codec, count in sorted(walk.codecs.items())),
            words=tuple(dict.fromkeys(str(finding.code) for finding in serious))
            or ((Kind.UNREAD.words,) if Kind.UNREAD in worst else ()),
            unread=tuple(walk.unread),
        )
        partition_facts.append(facts)
        gallery.add(facts, kept, not_sound)
        damaged_segments += damaged
        damaged_partitions += damaged > 0
    drawn = gallery.drawn()
    drawn_damaged = sum(not each.is_sound for _partition, each in drawn)
    return Examined(
        partitions=tuple(partition_facts),
        topics=_topics(partition_facts),
        maps=drawn,
        clean_not_drawn=gallery.segments - gallery.not_sound - (len(drawn) - drawn_damaged),
        damaged_not_drawn=gallery.not_sound - drawn_damaged,
        damaged_segments=damaged_segments,
        damaged_partitions=damaged_partitions,
        segments=gallery.segments,
        size=sum(each.size for each in partition_facts),
        records=sum(each.records for each in partition_facts),
        series=timeline.series(),
    )


def _topics(partitions: Sequence[PartitionFacts]) -> tuple[TopicFacts, ...]:
    """Return totals by topic, sorted by bytes (most first) and then by name. If a partition has several copies, it
    counts as one partition, but the bytes and records of all copies are added.
    """
    by_name: dict[str, list[PartitionFacts]] = {}
    for facts in partitions:
        by_name.setdefault(facts.topic, []).append(facts)
    topic_facts = [
        TopicFacts(
            name=name,
            partitions=len({facts.number for facts in several}),
            size=sum(facts.size for facts in several),
            records=sum(facts.records for facts in several),
            first_timestamp=min(
                (facts.first_timestamp for facts in several if facts.first_timestamp is not None), default=None
            ),
            last_timestamp=max(
                (facts.last_timestamp for facts in several if facts.last_timestamp is not None), default=None
            ),
        )
        for name, several in by_name.items()
    ]
    return tuple(sorted(topic_facts, key=lambda facts: (-facts.size, facts.name)))
