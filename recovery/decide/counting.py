"""The topic-partitions of one log directory, what can be read of each, and what a way of recovering makes of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from kafkalog.classes import dataclass
from kafkalog.codec.findings import Finding, Severity
from kafkalog.codec.model import NO_END
from kafkalog.codec.names import CLUSTER_METADATA_TOPIC, DirectoryState
from kafkalog.log.directories.missing_segments import missing_segments
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.broker.manager import BrokerResult, LoadedPartition, StartResult
from kafkalog.recovery.damage.census import Census, census
from kafkalog.recovery.damage.soundness import log_segments
from kafkalog.recovery.decide.remote_part import held_remotely
from kafkalog.recovery.decide.ways import Measured, Unit, logs_of, measure
from kafkalog.recovery.decide.written_to import written
from kafkalog.recovery.facts.rules import Rules
from kafkalog.recovery.facts.topic_facts import TopicFacts
from kafkalog.recovery.safe.normalize import Checkpoints, partitions_of, read_high_watermarks
from kafkalog.recovery.safe.result import SafeResult
from kafkalog.tiers.tiering import tier_gap

__all__ = ["Comparer", "Counted", "Units", "WayResult", "are_counted", "count_apart"]

_COUNTED_BYTES = 1 << 30
"""Of logs that no way touches: if there are more, the records in them are not counted."""


@dataclass(slots=True)
class WayResult:
    """What one way leaves; no tree where the broker would not start."""

    tree: Tree | None
    partitions: Mapping[str, LoadedPartition]
    measured: dict[str, Measured] = field(default_factory=dict)
    """by partition, once it was asked for"""
    refusals: Mapping[str, str] = field(default_factory=dict)
    """partition directory -> why it is left as it is"""

    @classmethod
    def of_kafka(cls, result: BrokerResult) -> WayResult:
        """The result of a broker's start."""
        started = result.outcome == StartResult.LOADED
        return cls(result.tree if started else None, {each.name: each for each in result.partitions})

    @classmethod
    def of_safe(cls, result: SafeResult) -> WayResult:
        """The result of a recovery."""
        return cls(result.tree, {each.name: each for each in result.partitions}, refusals=result.refusals)

    def refusal_of(self, units: Sequence[Unit]) -> str | None:
        """Why nothing is done for these topic-partitions; None if something is done for one of them."""
        found = [next((self.refusals[each] for each in unit.directories if each in self.refusals), None)
                 for unit in units]  # fmt: skip
        return found[0] if found and None not in found else None

    def log_start(self, unit: Unit) -> int:
        """Where the log begins then."""
        found = [self.partitions[each].log_start_offset for each in unit.directories if each in self.partitions]
        return found[0] if found else unit.log_start

    def log_end(self, unit: Unit) -> int:
        """Where a broker goes on: what lies from there on nobody reads, and is written again; `NO_END` if not known."""
        found = self.partitions.get(unit.name)
        return NO_END if found is None or found.stray is not None else found.log_end_offset

    def makes_stray(self, unit: Unit) -> bool:
        """Whether a live partition with records is renamed to `-stray`, which no broker serves."""
        found = self.partitions.get(unit.name)
        return unit.is_live and found is not None and found.stray is not None and found.log_end_offset > 0

    def touches(self, unit: Unit, before: Tree) -> bool:
        """Whether it leaves other logs, or begins them elsewhere."""
        if self.tree is None:
            return True
        if self.log_start(unit) != unit.log_start:
            return True
        return logs_of(self.tree, unit.directories) != logs_of(before, unit.directories)


class Units:
    """The topic-partitions of a tree whose records count, by what its checkpoints say of them.

    A `-future` copy beside its replica holds nothing by itself, and what waits for deletion is meant to go.
    """

    def __init__(self, tree: Tree, rules: Rules) -> None:
        self._points, self._watermarks = Checkpoints.read(tree), read_high_watermarks(tree)
        self._tiering = rules.facts.tiering.with_checkpoint(tree.directories, self._points.log_starts)
        self._directories: dict[tuple[str, int, str], list[str]] = {}
        self._keys: dict[str, tuple[str, int, str]] = {}
        """directory -> the unit it belongs to, as a key of `_directories`"""
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

    def all(self, tree: Tree) -> list[Unit]:
        """All units of a tree."""
        return [self._unit(tree, key) for key in self._directories]

    def among(self, tree: Tree, directories: Iterable[str]) -> list[Unit]:
        """The units of some directories, in a tree that may hold nothing else."""
        keys = dict.fromkeys(self._keys[each] for each in directories if each in self._keys)
        return [self._unit(tree, key) for key in keys]

    def in_order(self, units: Iterable[Unit]) -> list[Unit]:
        """Units in the order that `all` has."""
        found = {unit.key: unit for unit in units}
        return [found[key] for key in self._directories]

    def _unit(self, tree: Tree, key: tuple[str, int, str]) -> Unit:
        topic, partition, put_away = key
        directories, named = self._directories[key], (topic, partition)
        if put_away:  # the checkpoints speak of the replica, if there is one
            return Unit(topic, partition, tuple(directories), 0, None, is_live=False)
        return Unit(
            topic,
            partition,
            tuple(sorted(directories, key=len)),
            0 if topic == CLUSTER_METADATA_TOPIC else max(self._points.log_starts.get(named, 0), 0),
            self._watermarks.get(named),
            written(tree, directories, named, self._points, self._tiering),
        )


@dataclass(frozen=True, slots=True)
class Counted:
    """What was counted of one topic-partition by itself."""

    unit: Unit
    original: Census
    is_untouched: bool
    by_own: Measured
    by_kafka: Measured


def count_apart(unit: Unit, before: Tree, kafka: BrokerResult, own: SafeResult, topics: TopicFacts) -> Counted:
    """Count one topic-partition, in trees that may hold nothing else; `kafka` is a start that went well."""
    comparer = Comparer(before, kafka, own, topics)
    comparer.count([unit])
    original = comparer.originals[unit.name]
    if original is None:
        raise AssertionError(unit.name)
    by_own, by_kafka = (comparer.measured(unit, each) for each in (comparer.of_own, comparer.of_kafka))
    return Counted(unit, original, unit.name in comparer.untouched, by_own, by_kafka)


def are_counted(sizes: Iterable[int]) -> bool:
    """Logs of these sizes are counted, whether a way touches them or not."""
    return sum(sizes) <= _COUNTED_BYTES


class Comparer:
    """What is left of each topic-partition by a broker's start, by the plan itself, and by every other way."""

    def __init__(self, before: Tree, kafka: BrokerResult, own: SafeResult | None, topics: TopicFacts) -> None:
        self.before = before
        self.kafka = kafka
        self.topics = topics
        self.of_kafka = WayResult.of_kafka(kafka)
        self.of_own = self.of_kafka if own is None else WayResult.of_safe(own)
        self.refused = {} if own is None else own.refusals
        self.originals: dict[str, Census | None] = {}
        self.untouched: set[str] = set()
        """partitions of which a broker's start and the plan itself leave the logs as they are"""

    def count(self, units: Sequence[Unit]) -> None:
        """What can be read now; logs that nobody touches only if there are not too many of them."""
        left = _COUNTED_BYTES
        for unit in units:
            touched = self.of_kafka.touches(unit, self.before) or self.of_own.touches(unit, self.before)
            if not touched:
                self.untouched.add(unit.name)
                left -= sum(
                    self.before.files[path].size
                    for each in unit.directories
                    for _base, path in log_segments(self.before, each)
                )
            counted = touched or left >= 0
            found = census(self.before, unit.directories, unit.log_start) if counted else None
            if found is not None and self.topics.is_compacted(unit.topic):
                found.missing = []
            self.originals[unit.name] = found

    def take(self, counted: Counted) -> None:
        """What was counted elsewhere."""
        name = counted.unit.name
        self.originals[name] = counted.original
        if counted.is_untouched:
            self.untouched.add(name)
        self.of_own.measured[name], self.of_kafka.measured[name] = counted.by_own, counted.by_kafka

    def missing(self, units: Sequence[Unit]) -> list[Finding]:
        """Where segments are gone."""
        return [
            finding
            for unit in units
            if (found := self.originals[unit.name]) is not None and len(unit.directories) == 1 and unit.is_live
            for finding in self._missing_of(unit, found)
        ]

    def _missing_of(self, unit: Unit, original: Census) -> Iterator[Finding]:
        begins = unit.written.local_start
        missing = list(original.missing)
        if begins is not None and begins.lost is not None and begins.is_tiered:
            yield tier_gap(unit.name, begins)
        else:
            missing = [*unit.written.lost_start, *missing]
        bases = (base for base, _ in log_segments(self.before, unit.name))
        yield from missing_segments(unit.name, missing, unit.log_start, bases)

    def damaged(self, units: Sequence[Unit]) -> list[Finding]:
        """What cannot be read, but for what an append leaves that was cut short."""
        return [
            Finding(each.code, Severity.ERROR, each.position, each.first_offset, each.detail, each.path)
            for unit in units
            if (found := self.originals[unit.name]) is not None
            for each in found.damages
            if not each.is_tail and each.reaches(unit.log_start)
        ]

    def measured(self, unit: Unit, result: WayResult) -> Measured:
        """What a way makes of one partition; what it declines stays as it is."""
        if unit.name not in result.measured:
            result.measured[unit.name] = self._measured_before(unit, result) or self._measure(unit, result)
        return result.measured[unit.name]

    def forget(self, unit: Unit) -> None:
        """Measure a partition again when it is asked for next: more is known of it."""
        for result in (self.of_own, self.of_kafka):
            result.measured.pop(unit.name, None)

    def _measured_before(self, unit: Unit, result: WayResult) -> Measured | None:
        """What the other of these two makes of a partition, where both make the same of it."""
        original = self.originals[unit.name]
        if unit.name not in self.untouched or original is None or original.hidden:
            return None
        if min(self.of_kafka.log_end(unit), self.of_own.log_end(unit)) < original.end_offset:
            return None
        if result is self.of_own:
            return self.of_kafka.measured.get(unit.name)
        return self.of_own.measured.get(unit.name) if result is self.of_kafka else None

    def _measure(self, unit: Unit, result: WayResult) -> Measured:
        original = self.originals[unit.name]
        if result.tree is None:
            return Measured()
        if original is None:
            return Measured(records_lost=0, bytes_cut=0)
        found = measure(unit, self.before, original, result.tree, result.log_start(unit), result.log_end(unit))
        return found.held_elsewhere() if self._is_held_remotely(unit, found, result.tree) else found

    def _is_held_remotely(self, unit: Unit, found: Measured, after: Tree) -> bool:
        """All that is lost lies below the local part of what is left, and the remote tier has it."""
        key, tiering = (unit.topic, unit.partition), self.topics.tiering
        there = [each for each in unit.directories if each in after.directories]
        bases = [base for each in there for base, _path in log_segments(after, each)]
        if not (found.lost and unit.is_live and bases and tiering.is_tiered(key)):
            return False
        held = held_remotely(self.before, unit.name, key, tiering)
        return all(
            each.last is not None and each.last < min(bases) and held.covers(each.first, each.last)
            for each in found.lost
        )

    def is_hurt(self, unit: Unit) -> bool:
        """Whether something is lost, damaged or made stray, or recovery declines: there is something to choose."""
        original = self.originals[unit.name]
        if unit.name in self.refused or self.of_own.makes_stray(unit):
            return True
        if original is not None and (
            original.missing or original.hidden or original.epoch_falls or original.is_damaged
        ):
            return True
        return bool(self.measured(unit, self.of_own).records_lost or self.measured(unit, self.of_kafka).records_lost)

    def has_less(self, unit: Unit, merged: Measured | None) -> bool:
        """Other copies hold more than this one ever will."""
        original = self.originals[unit.name]
        if merged is None or merged.records_kept is None or original is None:
            return False
        return merged.records_kept > original.records

    def replica(self, unit: Unit) -> Measured | None:
        """What other brokers have, as far as the metadata and the high watermark tell."""
        original = self.originals[unit.name]
        if original is None or not self.others(unit):
            return None
        held = original.records + sum(each.records or 0 for each in original.damages)
        watermark = unit.high_watermark
        if watermark is None:
            return Measured()
        above = 0
        if original.end_offset > watermark:
            above = census(self.before, unit.directories, max(watermark, unit.log_start)).records
        return Measured(
            records_kept=held - above, records_lost=above, is_exact=True, bytes_cut=0, below_high_watermark=False
        )

    def is_fetched_again(self, unit: Unit) -> bool:
        """A start cuts the log before all that is wrong, and a follower fetches what comes after its log's end.

        Damage below the recovery point stays, as do gaps, because no broker looks there (`LogLoader.recoverLog`).
        """
        found = self.of_kafka.partitions.get(unit.name)
        if found is None or self.of_kafka.tree is None or found.stray is not None:
            return False
        left = self.measured(unit, self.of_kafka)
        is_whole = not (left.damage_left or left.records_hidden or left.epoch_falls)
        return is_whole and all(each.first >= found.log_end_offset for each in left.lost)

    def others(self, unit: Unit) -> tuple[int, ...]:
        """Other brokers that were in sync when the metadata beside the log was written."""
        in_sync = self.topics.in_sync.get((unit.topic, unit.partition), ()) if unit.is_live else ()
        return tuple(each for each in in_sync if each != self.topics.node_id)
