"""Counts for each topic-partition of a log directory: records that can be read, that a way keeps, and that it loses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from kafkalog.classes import dataclass
from kafkalog.codec.findings import Finding, Severity
from kafkalog.codec.model import NO_END
from kafkalog.codec.names import CLUSTER_METADATA_TOPIC, DirectoryState
from kafkalog.log.directories.missing_segments import missing_segments
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.broker.manager import BrokerResult, LoadedPartition
from kafkalog.recovery.damage.census import Census, census
from kafkalog.recovery.decide.remote_part import held_remotely
from kafkalog.recovery.decide.ways import Measured, PartitionFacts, RecoveryRequest, logs_of, measure
from kafkalog.recovery.decide.written_end import written
from kafkalog.recovery.facts.recovery_request import Rules
from kafkalog.recovery.modes.spec import WaySpec
from kafkalog.recovery.modes.table import REPLICA, WAYS, Mode
from kafkalog.recovery.safe.normalize import Checkpoints, partitions_of, read_high_watermarks
from kafkalog.recovery.safe.result import SafeResult
from kafkalog.tiers.tiering import tier_gap

__all__ = ["Comparer", "CountedPartition", "TopicPartitions", "WayResult", "are_counted"]

_COUNTED_BYTES = 1 << 30
"""Of logs that no way touches: if there are more, the records in them are not counted."""


@dataclass(slots=True)
class CountedPartition:
    """Counts for one topic-partition: what can be read, and what this recovery and a broker's start keep and lose."""

    facts: PartitionFacts
    census: Census | None
    """None: neither changes its logs, and there are too many to read them all"""
    is_untouched: bool
    """both leave its logs as they are"""
    by_own: Measured
    by_kafka: Measured

    @property
    def name(self) -> str:
        """Name of its first directory."""
        return self.facts.name


@dataclass(slots=True, kw_only=True)
class WayResult:
    """Result of one way: the tree that it leaves, and what it keeps and loses of each partition."""

    request: RecoveryRequest | None
    """None: no recovery, but the start of a broker that fetches"""
    tree: Tree | None
    """None: a broker would not start"""
    partitions: Mapping[str, LoadedPartition] = field(default_factory=dict)
    refusals: Mapping[str, str] = field(default_factory=dict)
    """partition directory -> why it is left as it is"""
    measured: dict[str, Measured] = field(default_factory=dict)
    """by partition, as far as they were measured"""
    copies: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """by partition, the directories from which something comes"""

    @classmethod
    def of_kafka(cls, result: BrokerResult) -> WayResult:
        """The result of a broker's start."""
        tree = result.tree if result.is_loaded else None
        return cls(request=RecoveryRequest(mode=Mode.KAFKA), tree=tree, partitions=result.partitions)

    @classmethod
    def of_safe(cls, request: RecoveryRequest, result: SafeResult) -> WayResult:
        """The result of a recovery."""
        return cls(request=request, tree=result.tree, partitions=result.partitions, refusals=result.refusals)

    @property
    def way(self) -> WaySpec:
        """Which of the ways it is."""
        return REPLICA if self.request is None else self.request.way

    @property
    def is_full(self) -> bool:
        """Whether segments below the recovery point are examined only because of this way."""
        return self.request is not None and self.request.full

    @property
    def is_both(self) -> bool:
        """Whether it is salvage, helped by bit repair."""
        return self.request is not None and self.request.is_both

    @property
    def order(self) -> tuple[int, bool, bool]:
        """The order in which the ways are listed."""
        return list(WAYS).index(self.way.name), *((True, True) if self.request is None else self.request.order)

    def refusal_of(self, partitions: Iterable[PartitionFacts]) -> str | None:
        """Why nothing is done for any of these topic-partitions; None if something is done for one of them."""
        refusals = [
            next((self.refusals[each] for each in partition.directories if each in self.refusals), None)
            for partition in partitions
        ]
        return refusals[0] if refusals and None not in refusals else None

    def log_start(self, partition: PartitionFacts) -> int:
        """Where the log begins then."""
        loaded = (self.partitions[each] for each in partition.directories if each in self.partitions)
        return next((each.log_start_offset for each in loaded), partition.log_start)

    def log_end(self, partition: PartitionFacts) -> int:
        """Where a broker goes on: what lies from there on nobody reads, and is written again; `NO_END` if not known."""
        loaded = self.partitions.get(partition.name)
        return NO_END if loaded is None or loaded.stray is not None else loaded.log_end_offset

    def makes_stray(self, partition: PartitionFacts) -> bool:
        """Whether a live partition with records is renamed to `-stray`, which no broker serves."""
        loaded = self.partitions.get(partition.name)
        return partition.is_live and loaded is not None and loaded.stray is not None and loaded.log_end_offset > 0

    def touches(self, partition: PartitionFacts, before: Tree) -> bool:
        """Whether it leaves other logs, or begins them elsewhere."""
        if self.tree is None or self.log_start(partition) != partition.log_start:
            return True
        return logs_of(self.tree, partition.directories) != logs_of(before, partition.directories)


class TopicPartitions:
    """The topic-partitions of a tree whose records count, by what its checkpoints say of them.

    A `-future` copy beside its replica holds nothing by itself, and what waits for deletion is meant to go.
    """

    def __init__(self, tree: Tree, rules: Rules) -> None:
        self._points, self._watermarks = Checkpoints.read(tree), read_high_watermarks(tree)
        self._tiering = rules.facts.tiering.with_checkpoint(tree.directories, self._points.log_starts)
        self._directories: dict[tuple[str, int, str], list[str]] = {}
        self._keys: dict[str, tuple[str, int, str]] = {}
        """directory -> its topic-partition, as a key of `_directories`"""
        found = partitions_of(tree, rules.cluster_metadata)
        live = {(name.topic, name.partition) for _directory, name in found if name.state is DirectoryState.LIVE}
        if any(name.state is DirectoryState.FUTURE for _directory, name in found):
            live |= rules.facts.live_partitions()  # a move to another disk: the replica is in the other directory
        for directory, name in found:
            topic_partition, state = (name.topic, name.partition), name.state
            if state is DirectoryState.LIVE:
                self._directories.setdefault((*topic_partition, ""), []).append(directory)
            elif state is DirectoryState.STRAY or (state is DirectoryState.FUTURE and topic_partition not in live):
                self._directories[*topic_partition, directory] = [directory]
        for key, directories in self._directories.items():
            self._keys.update(dict.fromkeys(directories, key))

    def facts(self, tree: Tree) -> list[PartitionFacts]:
        """Facts about every topic-partition."""
        return [self._facts(tree, key) for key in self._directories]

    def facts_among(self, tree: Tree, directories: Iterable[str]) -> list[PartitionFacts]:
        """Facts about the topic-partitions in some directories; the tree need not hold more than these."""
        keys = dict.fromkeys(self._keys[each] for each in directories if each in self._keys)
        return [self._facts(tree, key) for key in keys]

    def in_order(self, counted: Iterable[CountedPartition]) -> list[CountedPartition]:
        """The partitions in the order that `facts` has."""
        by_key = {each.facts.key: each for each in counted}
        return [by_key[key] for key in self._directories]

    def _facts(self, tree: Tree, key: tuple[str, int, str]) -> PartitionFacts:
        topic, partition, put_away = key
        directories, named = self._directories[key], (topic, partition)
        if put_away:  # the checkpoints speak of the replica, if there is one
            return PartitionFacts(topic, partition, tuple(directories), 0, None, is_live=False)
        return PartitionFacts(
            topic,
            partition,
            tuple(sorted(directories, key=len)),
            0 if topic == CLUSTER_METADATA_TOPIC else max(self._points.log_starts.get(named, 0), 0),
            self._watermarks.get(named),
            written(tree, directories, named, self._points, self._tiering),
        )


def are_counted(sizes: Iterable[int]) -> bool:
    """Logs of these sizes are counted, whether a way touches them or not."""
    return sum(sizes) <= _COUNTED_BYTES


class Comparer:
    """Counts the records that a broker's start, the recovery that was asked for and other ways keep and lose."""

    def __init__(self, before: Tree, kafka: BrokerResult, own: SafeResult | None, rules: Rules) -> None:
        self.before = before
        self.topics = rules.facts
        self.start = kafka
        self.kafka = WayResult.of_kafka(kafka)
        self.own = self.kafka if own is None else WayResult.of_safe(RecoveryRequest.of(rules), own)

    def count(self, partitions: Iterable[PartitionFacts]) -> list[CountedPartition]:
        """Count each partition; one whose logs nothing changes has no census once 1 GiB of such logs is passed."""
        left, counted = _COUNTED_BYTES, []
        for facts in partitions:
            is_untouched = not (self.kafka.touches(facts, self.before) or self.own.touches(facts, self.before))
            if is_untouched:
                paths = (path for each in facts.directories for _base, path in self.before.logs(each))
                left -= sum(self.before.files[path].size for path in paths)
            found = None if is_untouched and left < 0 else census(self.before, facts.directories, facts.log_start)
            if found is not None and self.topics.is_compacted(facts.topic):
                found.missing = []
            counted.append(self.counted(facts, found, is_untouched=is_untouched))
        return counted

    def counted(self, facts: PartitionFacts, original: Census | None, *, is_untouched: bool) -> CountedPartition:
        """Counts for one partition by its census, None if its logs were not read."""
        is_same = is_untouched and original is not None and not original.hidden and (
            min(self.kafka.log_end(facts), self.own.log_end(facts)) >= original.end_offset
        )  # fmt: skip
        by_own = self._measure(facts, original, self.own)
        by_kafka = by_own if is_same or self.own is self.kafka else self._measure(facts, original, self.kafka)
        return CountedPartition(facts, original, is_untouched, by_own, by_kafka)

    def measured(self, partition: CountedPartition, way: WayResult) -> Measured:
        """Counts of a way for one partition; a way that declines it leaves it as it is."""
        if way is self.own or way is self.kafka:
            return partition.by_own if way is self.own else partition.by_kafka
        name = partition.name
        if name not in way.measured:
            way.measured[name] = self._measure(partition.facts, partition.census, way)
        return way.measured[name]

    def _measure(self, facts: PartitionFacts, original: Census | None, way: WayResult) -> Measured:
        if way.tree is None:
            return Measured()
        if original is None:
            return Measured(records_lost=0, bytes_cut=0)
        found = measure(facts, self.before, original, way.tree, way.log_start(facts), way.log_end(facts))
        return found.held_elsewhere() if self._is_held_remotely(facts, found, way.tree) else found

    def _is_held_remotely(self, facts: PartitionFacts, found: Measured, after: Tree) -> bool:
        """All that is lost lies below the local part of what is left, and the remote tier has it."""
        key, tiering = (facts.topic, facts.partition), self.topics.tiering
        there = [each for each in facts.directories if each in after.directories]
        bases = [base for each in there for base, _path in after.logs(each)]
        if not (found.lost and facts.is_live and bases and tiering.is_tiered(key)):
            return False
        held = held_remotely(self.before, facts.name, key, tiering)
        return all(
            each.last is not None and each.last < min(bases) and held.covers(each.first, each.last)
            for each in found.lost
        )

    def missing(self, partitions: Iterable[CountedPartition]) -> list[Finding]:
        """Where segments are gone."""
        return [
            finding
            for each in partitions
            if each.census is not None and len(each.facts.directories) == 1 and each.facts.is_live
            for finding in self._missing_of(each.facts, each.census)
        ]

    def _missing_of(self, facts: PartitionFacts, original: Census) -> Iterator[Finding]:
        begins = facts.written.local_start
        missing = list(original.missing)
        if begins is not None and begins.lost is not None and begins.is_tiered:
            yield tier_gap(facts.name, begins)
        else:
            missing = [*facts.written.lost_start, *missing]
        bases = (base for base, _ in self.before.logs(facts.name))
        yield from missing_segments(facts.name, missing, facts.log_start, bases)

    @staticmethod
    def damaged(partitions: Iterable[CountedPartition]) -> list[Finding]:
        """What cannot be read, but for what an append leaves that was cut short."""
        return [
            Finding(damage.code, Severity.ERROR, damage.position, damage.first_offset, damage.detail, damage.path)
            for each in partitions
            if each.census is not None
            for damage in each.census.damages
            if not damage.is_tail and damage.reaches(each.facts.log_start)
        ]

    def is_hurt(self, partition: CountedPartition) -> bool:
        """Whether something is lost, damaged or made stray, or recovery declines: there is something to choose."""
        original = partition.census
        if partition.name in self.own.refusals or self.own.makes_stray(partition.facts):
            return True
        if original is not None and (
            original.missing or original.hidden or original.epoch_falls or original.is_damaged
        ):
            return True
        return bool(partition.by_own.records_lost or partition.by_kafka.records_lost)

    def replica(self, partition: CountedPartition) -> Measured | None:
        """What other brokers have, as far as the metadata and the high watermark tell."""
        facts, original = partition.facts, partition.census
        if original is None or not self.others(facts):
            return None
        held = original.records + sum(each.records or 0 for each in original.damages)
        watermark = facts.high_watermark
        if watermark is None:
            return Measured()
        above = 0
        if original.end_offset > watermark:
            above = census(self.before, facts.directories, max(watermark, facts.log_start)).records
        return Measured(
            records_kept=held - above, records_lost=above, is_exact=True, bytes_cut=0, below_high_watermark=False
        )

    def is_fetched_again(self, partition: CountedPartition) -> bool:
        """A start cuts the log before all that is wrong, and a follower fetches what comes after its log's end.

        Damage below the recovery point stays, as do gaps, because no broker looks there (`LogLoader.recoverLog`).
        """
        loaded, left = self.kafka.partitions.get(partition.name), partition.by_kafka
        if loaded is None or self.kafka.tree is None or loaded.stray is not None:
            return False
        is_whole = not (left.damage_left or left.records_hidden or left.epoch_falls)
        return is_whole and all(each.first >= loaded.log_end_offset for each in left.lost)

    def others(self, facts: PartitionFacts) -> tuple[int, ...]:
        """Other brokers that were in sync when the metadata beside the log was written."""
        in_sync = self.topics.in_sync.get((facts.topic, facts.partition), ()) if facts.is_live else ()
        return tuple(each for each in in_sync if each != self.topics.node_id)
