"""The ways of one log directory side by side: which there are, what each would leave, and which loses least.

The broker's start and the mode that was asked for are known already.  The others are carried out, in the virtual tree,
for the partitions that lose something: for the rest there is nothing to choose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kafkalog.codec.advice import Advice, Ask
from kafkalog.codec.findings import Finding, Severity
from kafkalog.codec.names import CLUSTER_METADATA_TOPIC, DirectoryState, parse_partition_directory
from kafkalog.codec.wording import counted
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.bitrepair import Proof
from kafkalog.recovery.broker.manager import BrokerResult, Outcome, PartitionResult
from kafkalog.recovery.census import Census, census
from kafkalog.recovery.losses import sentence_of_lost
from kafkalog.recovery.lost_start import LocalStarts
from kafkalog.recovery.metadata_copies import OTHER_COPIES
from kafkalog.recovery.missing_segments import missing_segments
from kafkalog.recovery.modes import Mode
from kafkalog.recovery.normalize import Checkpoints, partitions_of, read_high_watermarks
from kafkalog.recovery.rules import Rules
from kafkalog.recovery.safe import SafeResult
from kafkalog.recovery.soundness import log_segments
from kafkalog.recovery.topic_facts import TopicFacts
from kafkalog.recovery.ways import (
    How,
    LostRange,
    Measured,
    Unit,
    Way,
    WayName,
    logs_of,
    measure,
    recommended,
    total,
)
from kafkalog.recovery.written_to import written

__all__ = [
    "Choice",
    "CopiesOf",
    "Counted",
    "Units",
    "advice_on_loss",
    "are_counted",
    "compare_ways",
    "count_apart",
    "ranges_text",
    "sentence_of_loss",
]

_COUNTED_BYTES = 1 << 30
"""Of logs that no way touches: if there are more, the records in them are not counted."""

_ALIVE = ", alive and leading before this one starts"
Safely = Callable[[Tree, Rules], SafeResult]
"""Recovers a tree by rules."""
CopiesOf = Callable[[Unit], list[str]]
"""Directories of a partition that the other copies are, or hold, that were given."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The ways of a log directory in all, and of each partition in which they differ."""

    ways: list[Way] = field(default_factory=list)
    by_partition: dict[str, list[Way]] = field(default_factory=dict)
    own: Measured = field(default_factory=Measured)
    """what the plan loses that this was made for"""
    own_by_partition: dict[str, Measured] = field(default_factory=dict)
    kafka_by_partition: dict[str, Measured] = field(default_factory=dict)
    missing: list[Finding] = field(default_factory=list)
    """where segments are gone that no way brings back"""
    damaged: list[Finding] = field(default_factory=list)
    """places in the logs that cannot be read, whether a way touches them or not"""
    loses_metadata: bool = False
    """no way keeps all of a metadata log, of which other nodes have copies"""

    def lost_by_kafka(self) -> dict[str, int]:
        """Partition directory -> sound records that the broker's own start would take, where it would any."""
        return {name: found.sound_lost for name, found in self.kafka_by_partition.items() if found.sound_lost}

    @property
    def recommended(self) -> Way | None:
        """The way that loses least; None where it would take metadata that other nodes have."""
        return None if self.loses_metadata else recommended(self.ways)


def sentence_of_loss(comparison: Choice) -> str:
    """Why recovery asks for consent."""
    own = comparison.own
    hurt = {name: each for name, each in comparison.own_by_partition.items() if each.sound_lost or each.markers_lost}
    name, worst = max(hurt.items(), key=lambda item: (item[1].sound_lost, item[1].markers_lost))
    where = f"{name}: {ranges_text(worst.lost) or 'no record'}" + (
        f", and {len(hurt) - 1} more partitions" if len(hurt) > 1 else ""
    )
    what = []
    if own.sound_lost:
        what.append(f"{counted(own.sound_lost, 'record')} that can still be read")
    if own.markers_lost:
        what.append(f"{counted(own.markers_lost, 'sound marker')} of the end of a transaction")
    text = f"this would drop {' and '.join(what)} ({where})"
    return f"{text}; {OTHER_COPIES}" if comparison.loses_metadata else text


def advice_on_loss(comparison: Choice) -> Iterator[Advice]:
    """What would lose less, and the consent."""
    best = comparison.recommended
    if best is not None and _lost(best.measured) < _lost(comparison.own):
        text = f"{best.way} loses least, {sentence_of_lost(best.measured)}"
        yield Advice(f"{text}, and needs {{}}", Ask.WAY, best.as_dict())
    yield Advice("to drop them anyway, add {}", Ask.ACCEPT_LOSS)


def _lost(found: Measured) -> tuple[int, int]:
    return found.out_of_reach or 0, found.markers_out_of_reach


def ranges_text(lost: Sequence[LostRange], most: int = 3) -> str:
    """Ranges of offsets for a sentence; with their partitions where those are several."""
    several = len({each.partition for each in lost}) > 1
    words = [(f"{each.partition}: " if several else "") + _range(each) for each in lost[:most]]
    more = len(lost) - most
    return ", ".join(words) + (f" and {counted(more, 'more range')}" if more > 0 else "")


def _range(lost: LostRange) -> str:
    if lost.last is None:
        return f"offset {lost.first} and an unknown number after it"
    return f"offset {lost.first}" if lost.first == lost.last else f"offsets {lost.first} to {lost.last}"


@dataclass(slots=True)
class _Result:
    """What one way leaves; no tree where the broker would not start."""

    tree: Tree | None
    partitions: Mapping[str, PartitionResult]
    measured: dict[str, Measured] = field(default_factory=dict)
    """by partition, once it was asked for"""
    refusals: Mapping[str, str] = field(default_factory=dict)
    """partition directory -> why it is left as it is"""

    @classmethod
    def of_kafka(cls, result: BrokerResult) -> _Result:
        started = result.outcome == Outcome.LOADED
        return cls(result.tree if started else None, {each.name: each for each in result.partitions})

    @classmethod
    def of_safe(cls, result: SafeResult) -> _Result:
        return cls(result.tree, {each.name: each for each in result.partitions}, refusals=result.refusals)

    def refusal_of(self, units: Sequence[Unit]) -> str | None:
        """Why nothing is done for these topic-partitions; None if something is done for one of them."""
        found = [next((self.refusals[each] for each in unit.directories if each in self.refusals), None)
                 for unit in units]  # fmt: skip
        return found[0] if found and None not in found else None

    def log_start(self, unit: Unit) -> int:
        found = [self.partitions[each].log_start_offset for each in unit.directories if each in self.partitions]
        return found[0] if found else unit.log_start

    def touches(self, unit: Unit, before: Tree) -> bool:
        """It leaves other logs, or begins them elsewhere."""
        if self.tree is None:
            return True
        if self.log_start(unit) != unit.log_start:
            return True
        return logs_of(self.tree, unit.directories) != logs_of(before, unit.directories)


class Units:
    """The topic-partitions of a tree that a broker would have a log of, by what its checkpoints say of them."""

    def __init__(self, tree: Tree, cluster_metadata: bool) -> None:
        self._points, self._watermarks = Checkpoints.read(tree), read_high_watermarks(tree)
        self._local_starts = LocalStarts(tree.directories, self._points.log_starts)
        self._directories: dict[tuple[str, int], list[str]] = {}
        for directory, name in partitions_of(tree, cluster_metadata):
            if name.state is DirectoryState.LIVE:
                self._directories.setdefault((name.topic, name.partition), []).append(directory)

    def all(self, tree: Tree) -> list[Unit]:
        """All of them."""
        return [self._unit(tree, key) for key in self._directories]

    def among(self, tree: Tree, directories: Iterable[str]) -> list[Unit]:
        """Those of some directories, in a tree that may hold nothing else."""
        names = (parse_partition_directory(each) for each in directories)
        keys = dict.fromkeys((name.topic, name.partition) for name in names if name is not None)
        return [self._unit(tree, key) for key in keys if key in self._directories]

    def in_order(self, units: Iterable[Unit]) -> list[Unit]:
        """As `all` has them."""
        found = {(unit.topic, unit.partition): unit for unit in units}
        return [found[key] for key in self._directories]

    def _unit(self, tree: Tree, key: tuple[str, int]) -> Unit:
        directories = self._directories[key]
        return Unit(
            *key,
            tuple(sorted(directories, key=len)),
            0 if key[0] == CLUSTER_METADATA_TOPIC else max(self._points.log_starts.get(key, 0), 0),
            self._watermarks.get(key),
            written(tree, directories, key, self._points, self._local_starts),
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
    comparer = _Comparer(before, kafka, own, topics)
    comparer.count([unit])
    original = comparer.originals[unit.name]
    if original is None:
        raise AssertionError(unit.name)
    by_own, by_kafka = (comparer.measured(unit, each) for each in (comparer.of_own, comparer.of_kafka))
    return Counted(unit, original, unit.name in comparer.untouched, by_own, by_kafka)


def are_counted(sizes: Iterable[int]) -> bool:
    """Logs of these sizes are counted, whether a way touches them or not."""
    return sum(sizes) <= _COUNTED_BYTES


class _Comparer:
    def __init__(self, before: Tree, kafka: BrokerResult, own: SafeResult | None, topics: TopicFacts) -> None:
        self.before = before
        self.kafka = kafka
        self.topics = topics
        self.of_kafka = _Result.of_kafka(kafka)
        self.of_own = self.of_kafka if own is None else _Result.of_safe(own)
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
            if (found := self.originals[unit.name]) is not None and len(unit.directories) == 1
            for finding in missing_segments(
                unit.name,
                [*unit.written.lost_start, *found.missing],
                unit.log_start,
                (base for base, _ in log_segments(self.before, unit.name)),
            )
        ]

    def damaged(self, units: Sequence[Unit]) -> list[Finding]:
        """What cannot be read, but for what an append leaves that was cut short."""
        return [
            Finding(each.code, Severity.ERROR, each.position, each.first_offset, each.detail, each.path)
            for unit in units
            if (found := self.originals[unit.name]) is not None
            for each in found.damages
            if not each.is_tail and each.reaches(unit.log_start)
        ]

    def measured(self, unit: Unit, result: _Result) -> Measured:
        """What a way makes of one partition; what it declines stays as it is."""
        if unit.name not in result.measured:
            result.measured[unit.name] = self._measured_before(unit, result) or self._measure(unit, result)
        return result.measured[unit.name]

    def _measured_before(self, unit: Unit, result: _Result) -> Measured | None:
        """What the other of these two makes of a partition, where both make the same of it."""
        original = self.originals[unit.name]
        if unit.name not in self.untouched or original is None or original.hidden:
            return None
        if result is self.of_own:
            return self.of_kafka.measured.get(unit.name)
        return self.of_own.measured.get(unit.name) if result is self.of_kafka else None

    def _measure(self, unit: Unit, result: _Result) -> Measured:
        original = self.originals[unit.name]
        if result.tree is None:
            return Measured()
        if original is None:
            return Measured(records_lost=0, bytes_cut=0)
        return measure(unit, self.before, original, result.tree, result.log_start(unit))

    def is_hurt(self, unit: Unit) -> bool:
        """Something is lost or damaged, or recovery declines: there is something to choose."""
        original = self.originals[unit.name]
        if unit.name in self.refused:
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
        above = 0 if original.end_offset <= watermark else _records_above(self.before, unit, watermark)
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
        in_sync = self.topics.in_sync.get((unit.topic, unit.partition), ())
        return tuple(each for each in in_sync if each != self.topics.node_id)


def _records_above(before: Tree, unit: Unit, offset: int) -> int:
    return census(before, unit.directories, max(offset, unit.log_start)).records


def compare_ways(
    before: Tree,
    rules: Rules,
    kafka: BrokerResult,
    own: SafeResult | None,
    safely: Safely,
    copies_of: CopiesOf = lambda unit: [],
    counted: Sequence[Counted] | None = None,
) -> Choice:
    """Count what each way leaves.  `own` is the result of the plan itself, None if that is the broker's.

    `counted` is what was counted of every topic-partition by itself.
    """
    known = Units(before, rules.cluster_metadata)
    comparer = _Comparer(before, kafka, own, rules.facts)
    if counted is None:
        units = known.all(before)
        comparer.count(units)
    else:
        units = known.in_order(each.unit for each in counted)
        for each in counted:
            comparer.take(each)
    merging = _merging(before, rules, comparer, own, safely, {unit.name: copies_of(unit) for unit in units}, units)
    merged = {} if merging is None else merging.measured
    hurt = [unit for unit in units if comparer.is_hurt(unit) or comparer.has_less(unit, merged.get(unit.name))]
    level = Proof.STRUCTURE if rules.repair_bits is None else min(rules.repair_bits, Proof.STRUCTURE)
    part = before.part(*_directories(before, hurt))
    asked = _asked(rules)
    is_plain = own is not None and asked == _SAFE
    outcomes = [_Outcome(How(mode=Mode.KAFKA), comparer.of_kafka)]
    if is_plain or not hurt:
        own_result = comparer.of_own if own is not None else _Result(before, {})
        outcomes.append(_Outcome(asked if is_plain else _SAFE, own_result))
    elif asked != _SAFE and asked.mode not in _NOT_CARRIED_OUT:
        outcomes.append(_Outcome(asked, comparer.of_own))

    def carry_out(how: How) -> SafeResult | None:
        if any(each.how == how for each in outcomes):
            return None
        result = safely(part.copy(), how.applied_to(rules))
        if how.proof is None or result.repairs:
            outcomes.append(_Outcome(how, _Result.of_safe(result)))
        return result

    if hurt:
        carry_out(_SAFE)
        repaired = carry_out(How(proof=level))
        if repaired is None or repaired.repairs:  # beside other damage, which it does not help with
            carry_out(How(mode=Mode.SALVAGE, proof=level))
        carry_out(How(mode=Mode.SALVAGE))
        if not rules.full and any(comparer.measured(unit, _safe(outcomes).result).damage_left for unit in hurt):
            carry_out(How(proof=level, full=True))  # the damage may lie below the recovery point
    return _compared(comparer, units, hurt, outcomes, merging)


_SAFE = How()
_NOT_CARRIED_OUT = (Mode.KAFKA, Mode.SET_ASIDE, Mode.MERGE)
"""What is an outcome already, or one only where it is offered."""


def _merging(
    before: Tree,
    rules: Rules,
    comparer: _Comparer,
    own: SafeResult | None,
    safely: Safely,
    copies: Mapping[str, list[str]],
    units: Sequence[Unit],
) -> _Outcome | None:
    """What the partitions would be that other copies help; None if they help none."""
    helped = [unit for unit in units if copies[unit.name]]
    if not helped:
        return None
    how = How(mode=Mode.MERGE)
    if own is not None and rules.mode is Mode.MERGE:
        made, result = own, comparer.of_own
    else:
        made = safely(before.part(*_directories(before, helped)), how.applied_to(rules))
        result = _Result.of_safe(made)
    found = {unit.name: comparer.measured(unit, result) for unit in helped if unit.name in made.merged}
    return _Outcome(how, result, found, copies) if found else None


def _asked(rules: Rules) -> How:
    """Which of the ways recovery by these rules is; mode strict leaves what mode safe does, or nothing."""
    if rules.mode in _NOT_CARRIED_OUT:
        return How(mode=rules.mode)
    mode = Mode.SALVAGE if rules.mode is Mode.SALVAGE else Mode.SAFE
    return How(mode=mode, proof=rules.repair_bits)


def _directories(tree: Tree, units: Sequence[Unit]) -> list[str]:
    """All directories of some topic-partitions, `-future` copies too."""
    keys = {(unit.topic, unit.partition) for unit in units}
    found = []
    for name in tree.subdirectories():
        parsed = parse_partition_directory(name)
        if parsed is not None and (parsed.topic, parsed.partition) in keys:
            found.append(name)
    return found


@dataclass(slots=True)
class _Outcome:
    """What one way would leave."""

    how: How | None
    """None: no recovery, but the start of a broker that fetches"""
    result: _Result
    measured: dict[str, Measured] = field(default_factory=dict)
    """by partition"""
    copies: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """by partition, the directories from which something comes"""
    way: WayName = field(init=False)

    def __post_init__(self) -> None:
        self.way = WayName.REPLICA if self.how is None else self.how.name

    @property
    def is_full(self) -> bool:
        """Segments below the recovery point are examined only because of this way."""
        return self.how is not None and self.how.full

    @property
    def is_both(self) -> bool:
        """Salvage, helped by bit repair."""
        return self.how is not None and self.how.is_both

    @property
    def order(self) -> tuple[int, bool, bool]:
        """As the ways are listed."""
        return list(WayName).index(self.way), *((True, True) if self.how is None else self.how.order)


def _compared(
    comparer: _Comparer,
    units: Sequence[Unit],
    hurt: Sequence[Unit],
    outcomes: Sequence[_Outcome],
    merging: _Outcome | None,
) -> Choice:
    names = {unit.name for unit in hurt}
    own = {unit.name: comparer.measured(unit, comparer.of_own) for unit in units}
    for outcome in outcomes:
        is_whole = outcome.result is comparer.of_own or outcome.result is comparer.of_kafka
        outcome.measured = {
            unit.name: comparer.measured(unit, outcome.result) if is_whole or unit.name in names else own[unit.name]
            for unit in units
        }
    by_kafka = outcomes[0].measured
    outcomes = [each for each in outcomes if not each.is_both or _gains(each, outcomes)]
    outcomes = [each for each in outcomes if not each.is_full or _mends(each, outcomes)]
    safe = _safe(outcomes)
    candidates = list(outcomes)
    held = {unit.name: found for unit in hurt if (found := comparer.replica(unit)) is not None}
    elsewhere = {unit.name: held[unit.name] for unit in hurt if unit.name in held and comparer.is_fetched_again(unit)}
    anew = {name: found for name, found in held.items() if name not in elsewhere}
    if elsewhere:
        candidates.append(_Outcome(None, safe.result, {**safe.measured, **elsewhere}))
    if anew:
        candidates.append(_Outcome(How(mode=Mode.SET_ASIDE), safe.result, {**safe.measured, **anew}))
    merged = {} if merging is None else {name: each for name, each in merging.measured.items() if name in names}
    if merging is not None and merged:
        copies = {name: merging.copies[name] for name in merged}
        candidates.append(_Outcome(merging.how, merging.result, {**safe.measured, **merged}, copies))
    candidates.sort(key=lambda each: each.order)
    words = _Words(comparer, hurt)
    partly = {WayName.REPLICA: elsewhere, WayName.SET_ASIDE: anew, WayName.MERGE: merged}
    by_partition = {
        unit.name: [
            words.way(each, each.measured[unit.name], [unit])
            for each in candidates
            if unit.name in partly.get(each.way, each.measured)
        ]
        for unit in hurt
    }
    return Choice(
        ways=[words.way(each, total(each.measured.values()), hurt) for each in candidates],
        by_partition=by_partition,
        own=total(own.values()),
        own_by_partition=own,
        kafka_by_partition=by_kafka,
        missing=comparer.missing(units),
        damaged=comparer.damaged(units),
        loses_metadata=any(_loses_metadata(comparer, unit, by_partition[unit.name]) for unit in hurt),
    )


def _loses_metadata(comparer: _Comparer, unit: Unit, ways: Sequence[Way]) -> bool:
    """It is a metadata log, with damage worse than a torn end, and none of the ways keeps all of it."""
    original = comparer.originals[unit.name]
    if unit.topic != CLUSTER_METADATA_TOPIC or original is None:
        return False
    best = recommended(ways)
    is_worse = any(not each.is_tail for each in original.damages) or bool(original.missing)
    return is_worse and (best is None or best.measured.records_lost != 0)


def _safe(outcomes: Sequence[_Outcome]) -> _Outcome:
    return next((each for each in outcomes if each.way is WayName.SAFE), outcomes[0])


def _gains(both: _Outcome, others: Sequence[_Outcome]) -> bool:
    """Two options together lose less than one of them."""
    lost = total(both.measured.values()).records_lost
    single = [total(each.measured.values()).records_lost for each in others if not each.is_both]
    return lost is not None and all(each is None or lost < each for each in single)


def _mends(full: _Outcome, others: Sequence[_Outcome]) -> bool:
    """Bits corrected in all segments leave less damage, or lose less, than those in some; and drop nothing sound."""
    whole = total(full.measured.values())
    part = [total(each.measured.values()) for each in others if each.way is full.way and not each.is_full]
    return not whole.sound_lost and all(_harm(whole) < _harm(each) for each in part)


def _harm(found: Measured) -> tuple[int, int]:
    return found.out_of_reach or 0, found.damage_left


class _Words:
    """What ways need and mean, in plain words."""

    def __init__(self, comparer: _Comparer, hurt: Sequence[Unit]) -> None:
        self._kafka = comparer.kafka
        self._others = tuple(sorted({each for unit in hurt for each in comparer.others(unit)}))

    @property
    def _leaders(self) -> str:
        return f"broker {' or '.join(map(str, self._others))}"

    def way(self, outcome: _Outcome, found: Measured, units: Sequence[Unit]) -> Way:
        """One way with its words, for the topic-partitions in which the ways differ."""
        refusal = None if outcome.way in (WayName.MERGE, WayName.SET_ASIDE) else outcome.result.refusal_of(units)
        how = outcome.how
        if outcome.way is WayName.KAFKA and self._kafka.outcome != Outcome.LOADED:
            how = None
        if how is not None and outcome.copies:
            paths = (path for unit in units for path in outcome.copies.get(unit.name, ()))
            how = replace(how, copies=tuple(dict.fromkeys(paths)))
        drops = bool(found.sound_lost or found.markers_lost)
        consent = outcome.way is WayName.SET_ASIDE or (drops and how is not None and how.mode is not Mode.KAFKA)
        waits = outcome.way in (WayName.REPLICA, WayName.SET_ASIDE)
        consequence = self._consequence(outcome.way, found) if refusal is None else "it is left as it is"
        return Way(outcome.way, found, how, consent, self._others if waits else (), consequence, refusal)

    def _consequence(self, way: WayName, found: Measured) -> str:
        match way:
            case WayName.SAFE:
                if not found.bytes_cut:
                    return "no log is cut"
                rest = "what comes after it goes" if found.sound_lost or found.markers_lost else "the rest goes"
                return f"everything up to the damage is kept, {rest} to quarantine"
            case WayName.REPAIR_BITS:
                return "flipped bits are corrected where checksum and content prove which they are"
            case WayName.SALVAGE:
                if not found.bytes_cut:
                    return "no log is cut"
                gap = ", on both sides of the damage, with a gap in the offsets" if found.lost else ""
                return f"everything sound is kept{gap}"
            case WayName.MERGE:
                return "each range of offsets comes from a copy in which it is sound, in place of what is here now"
            case WayName.SET_ASIDE:
                return f"the partition goes to quarantine, and all of it is fetched again from {self._leaders}{_ALIVE}"
            case WayName.REPLICA:
                return "this broker's start cuts its log at the damage; it fetches the rest again from the other broker"
            case _:
                return self._of_kafka(found)

    def _of_kafka(self, found: Measured) -> str:
        if self._kafka.outcome == Outcome.START_FAILS:
            return f"the broker does not start: {self._kafka.exception}: {self._kafka.message}"
        if self._kafka.outcome == Outcome.DIR_OFFLINE:
            return f"the broker takes the directory offline: {self._kafka.exception}: {self._kafka.message}"
        return "the broker's own start deletes what it does not keep" if found.bytes_cut else "the broker starts"
