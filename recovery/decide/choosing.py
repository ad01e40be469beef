"""The ways of one log directory side by side: which there are, what each would leave, and which loses least.

The broker's start and the mode that was asked for are known already.  The others are carried out, in the virtual tree,
for the partitions that lose something: for the rest there is nothing to choose.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace

from kafkalog.classes import dataclass
from kafkalog.codec.names import CLUSTER_METADATA_TOPIC, parse_partition_directory
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.broker.manager import BrokerResult, StartResult
from kafkalog.recovery.damage.bit_repair import Proof
from kafkalog.recovery.damage.soundness import log_segments
from kafkalog.recovery.decide.choice import RecoveryChoice
from kafkalog.recovery.decide.counting import Comparer, Counted, Units, WayResult
from kafkalog.recovery.decide.ways import How, Measured, RecoveryWay, Unit, WayName, recommended, total
from kafkalog.recovery.facts.modes import Mode
from kafkalog.recovery.facts.rules import Rules
from kafkalog.recovery.safe.result import SafeResult
from kafkalog.tiers.tiering import EVENTS

__all__ = ["CopiesOf", "compare_ways"]

_ALIVE = ", alive and leading before this one starts"
_SHOWN = 3
Safely = Callable[[Tree, Rules], SafeResult]
"""Recovers a tree by rules."""
CopiesOf = Callable[[Unit], list[str]]
"""Directories of a partition that the other copies are, or hold, that were given."""


def compare_ways(
    before: Tree,
    rules: Rules,
    kafka: BrokerResult,
    own: SafeResult | None,
    safely: Safely,
    copies_of: CopiesOf = lambda unit: [],
    counted: Sequence[Counted] | None = None,
    highest_commit: Callable[[str, int], int] = lambda topic, partition: 0,
) -> RecoveryChoice:
    """Count what each way leaves.  `own` is the result of the plan itself, None if that is the broker's.

    `counted` is what was counted of every topic-partition by itself; `highest_commit` gives the highest offset that a
    group has committed of a topic-partition, and is asked only for those with a damaged end.
    """
    known = Units(before, rules)
    comparer = Comparer(before, kafka, own, rules.facts)
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
    units, hurt = _with_commits(units, comparer, highest_commit), _with_commits(hurt, comparer, highest_commit)
    level = Proof.STRUCTURE if rules.repair_bits is None else min(rules.repair_bits, Proof.STRUCTURE)
    part = before.part(*_directories(before, hurt))
    asked = _asked(rules)
    is_plain = own is not None and asked == _SAFE
    outcomes = [_WayForecast(How(mode=Mode.KAFKA), comparer.of_kafka)]
    if is_plain or not hurt:
        own_result = comparer.of_own if own is not None else WayResult(before, {})
        outcomes.append(_WayForecast(asked if is_plain else _SAFE, own_result))
    elif asked != _SAFE and asked.mode not in _NOT_CARRIED_OUT:
        outcomes.append(_WayForecast(asked, comparer.of_own))

    def carry_out(how: How) -> SafeResult | None:
        if any(each.how == how for each in outcomes):
            return None
        result = safely(part.copy(), how.applied_to(rules))
        if how.proof is None or result.repairs:
            outcomes.append(_WayForecast(how, WayResult.of_safe(result)))
        return result

    if hurt:
        carry_out(_SAFE)
        repaired = carry_out(How(proof=level))
        if repaired is None or repaired.repairs:  # beside other damage, which it does not help with
            carry_out(How(mode=Mode.SALVAGE, proof=level))
        carry_out(How(mode=Mode.SALVAGE))
        if not rules.full and any(comparer.measured(unit, _safe(outcomes).result).leaves_to_mend for unit in hurt):
            carry_out(How(proof=level, full=True))  # what is wrong may lie below the recovery point
    elsewhere = [_left_to_remote(part, rules, comparer, own, safely, hurt), merging]
    return _compared(comparer, units, hurt, outcomes, [each for each in elsewhere if each is not None])


_SAFE = How()
_NOT_CARRIED_OUT = (Mode.KAFKA, Mode.SET_ASIDE, Mode.MERGE, Mode.REMOTE)
"""What is an outcome already, or one only where it is offered."""


def _with_commits(
    units: Sequence[Unit], comparer: Comparer, highest_commit: Callable[[str, int], int]
) -> list[Unit]:
    """The units; one whose log ends in damage was written at least as far as groups have committed offsets of it."""
    found = []
    for unit in units:
        original = comparer.originals[unit.name]
        if original is not None and unit.is_live and original.ends_in_damage:
            end = highest_commit(unit.topic, unit.partition)
            if end > unit.written.end:
                unit = replace(unit, written=replace(unit.written, end=end))
                comparer.forget(unit)
        found.append(unit)
    return found


def _merging(
    before: Tree,
    rules: Rules,
    comparer: Comparer,
    own: SafeResult | None,
    safely: Safely,
    copies: Mapping[str, list[str]],
    units: Sequence[Unit],
) -> _WayForecast | None:
    """What the partitions would be that other copies help; None if they help none."""
    helped = [unit for unit in units if copies[unit.name]]
    if not helped:
        return None
    how = How(mode=Mode.MERGE)
    if own is not None and rules.mode is Mode.MERGE:
        made, result = own, comparer.of_own
    else:
        made = safely(before.part(*_directories(before, helped)), how.applied_to(rules))
        result = WayResult.of_safe(made)
    found = {unit.name: comparer.measured(unit, result) for unit in helped if unit.name in made.merged}
    return _WayForecast(how, result, found, copies) if found else None


def _left_to_remote(
    part: Tree, rules: Rules, comparer: Comparer, own: SafeResult | None, safely: Safely, hurt: Sequence[Unit]
) -> _WayForecast | None:
    """What the partitions would be of which the remote tier has what is damaged here; None if it has none of that."""
    if not any(rules.facts.tiering.is_tiered((unit.topic, unit.partition)) for unit in hurt):
        return None
    how = How(mode=Mode.REMOTE)
    if own is not None and rules.mode is Mode.REMOTE:
        made, result = own, comparer.of_own
    else:
        made = safely(part.copy(), how.applied_to(rules))
        result = WayResult.of_safe(made)
    found = {unit.name: comparer.measured(unit, result) for unit in hurt if unit.name in made.left_to_remote}
    return _WayForecast(how, result, found) if found else None


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
class _WayForecast:
    """What one way would leave."""

    how: How | None
    """None: no recovery, but the start of a broker that fetches"""
    result: WayResult
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
        """The order in which the ways are listed."""
        return list(WayName).index(self.way), *((True, True) if self.how is None else self.how.order)


def _compared(
    comparer: Comparer,
    units: Sequence[Unit],
    hurt: Sequence[Unit],
    outcomes: Sequence[_WayForecast],
    with_others: Sequence[_WayForecast],
) -> RecoveryChoice:
    """`with_others` are ways that help only the partitions that they have measured: something else has them too."""
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
        candidates.append(_WayForecast(None, safe.result, {**safe.measured, **elsewhere}))
    if anew:
        candidates.append(_WayForecast(How(mode=Mode.SET_ASIDE), safe.result, {**safe.measured, **anew}))
    helped: dict[WayName, dict[str, Measured]] = {}
    for other in with_others:
        own_part = {name: each for name, each in other.measured.items() if name in names}
        if own_part:
            helped[other.way] = own_part
            copies = {name: other.copies[name] for name in own_part if name in other.copies}
            candidates.append(_WayForecast(other.how, other.result, {**safe.measured, **own_part}, copies))
    candidates.sort(key=lambda each: each.order)
    words = _Words(comparer, hurt)
    partly = {WayName.REPLICA: elsewhere, WayName.SET_ASIDE: anew, **helped}
    by_partition = {
        unit.name: [
            words.way(each, each.measured[unit.name], [unit])
            for each in candidates
            if unit.name in partly.get(each.way, each.measured)
        ]
        for unit in hurt
    }
    return RecoveryChoice(
        ways=[words.way(each, total(each.measured.values()), hurt) for each in candidates],
        by_partition=by_partition,
        own=total(own.values()),
        own_by_partition=own,
        kafka_by_partition=by_kafka,
        missing=comparer.missing(units),
        damaged=comparer.damaged(units),
        loses_metadata=any(_loses_metadata(comparer, unit, by_partition[unit.name]) for unit in hurt),
    )


def _loses_metadata(comparer: Comparer, unit: Unit, ways: Sequence[RecoveryWay]) -> bool:
    """Whether this is a metadata log with damage worse than a torn end, and none of the ways keeps all of it."""
    original = comparer.originals[unit.name]
    if unit.topic != CLUSTER_METADATA_TOPIC or original is None:
        return False
    best = recommended(ways)
    is_worse = any(not each.is_tail for each in original.damages) or bool(original.missing)
    return is_worse and (best is None or best.measured.records_lost != 0)


def _safe(outcomes: Sequence[_WayForecast]) -> _WayForecast:
    return next((each for each in outcomes if each.way is WayName.SAFE), outcomes[0])


def _gains(both: _WayForecast, others: Sequence[_WayForecast]) -> bool:
    """Two options together lose less than one of them."""
    lost = total(both.measured.values()).records_lost
    single = [total(each.measured.values()).records_lost for each in others if not each.is_both]
    return lost is not None and all(each is None or lost < each for each in single)


def _mends(full: _WayForecast, others: Sequence[_WayForecast]) -> bool:
    """Bits corrected in all segments leave less damage, or lose less, than those in some; and drop nothing sound."""
    whole = total(full.measured.values())
    part = [total(each.measured.values()) for each in others if each.way is full.way and not each.is_full]
    return not whole.sound_lost and all(_harm(whole) < _harm(each) for each in part)


def _harm(found: Measured) -> tuple[int, int]:
    return found.out_of_reach or 0, found.damage_left


class _Words:
    """What ways need and mean, in plain words."""

    def __init__(self, comparer: Comparer, hurt: Sequence[Unit]) -> None:
        self._kafka = comparer.kafka
        self._before = comparer.before
        self._others = tuple(sorted({each for unit in hurt for each in comparer.others(unit)}))

    @property
    def _leaders(self) -> str:
        return f"broker {' or '.join(map(str, self._others))}"

    def way(self, outcome: _WayForecast, found: Measured, units: Sequence[Unit]) -> RecoveryWay:
        """One way with its words, for the topic-partitions in which the ways differ."""
        refusal = None if outcome.way in (WayName.MERGE, WayName.SET_ASIDE) else outcome.result.refusal_of(units)
        how = outcome.how
        if outcome.way is WayName.KAFKA and self._kafka.outcome != StartResult.LOADED:
            how = None
        if how is not None and outcome.copies:
            paths = (path for unit in units for path in outcome.copies.get(unit.name, ()))
            how = replace(how, copies=tuple(dict.fromkeys(paths)))
        strays = any(outcome.result.makes_stray(unit) for unit in units)
        drops = strays or bool(found.sound_lost or found.markers_lost)
        consent = outcome.way is WayName.SET_ASIDE or (drops and how is not None and how.mode is not Mode.KAFKA)
        waits = outcome.way in (WayName.REPLICA, WayName.SET_ASIDE)
        consequence = self._consequence(outcome, found, units) if refusal is None else "it is left as it is"
        return RecoveryWay(outcome.way, found, how, consent, self._others if waits else (), consequence, refusal)

    def _left_to_remote(self, outcome: _WayForecast, units: Sequence[Unit]) -> str:
        """The offsets that are then no longer local."""
        told = []
        for unit in units:
            after = log_segments(outcome.result.tree, unit.name) if outcome.result.tree is not None else []
            before = log_segments(self._before, unit.name)
            if after and before and before[0][0] < after[0][0]:
                told.append(f"offsets {before[0][0]} to {after[0][0] - 1} of {unit.name}")
        more = f" and of {len(told) - _SHOWN} more" if len(told) > _SHOWN else ""
        return f"{', '.join(told[:_SHOWN])}{more} are in the remote tier, by {EVENTS}"

    def _consequence(self, outcome: _WayForecast, found: Measured, units: Sequence[Unit]) -> str:
        match outcome.way:
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
            case WayName.REMOTE:
                elsewhere = self._left_to_remote(outcome, units)
                return f"nothing is lost: {elsewhere}; the damaged local segments go to quarantine"
            case WayName.MERGE:
                return "each range of offsets comes from a copy in which it is sound, in place of what is here now"
            case WayName.SET_ASIDE:
                return f"the partition goes to quarantine, and all of it is fetched again from {self._leaders}{_ALIVE}"
            case WayName.REPLICA:
                return "this broker's start cuts its log at the damage; it fetches the rest again from the other broker"
            case _:
                return self._of_kafka(found)

    def _of_kafka(self, found: Measured) -> str:
        if self._kafka.outcome == StartResult.START_FAILS:
            return f"the broker does not start: {self._kafka.exception}: {self._kafka.message}"
        if self._kafka.outcome == StartResult.DIR_OFFLINE:
            return f"the broker takes the directory offline: {self._kafka.exception}: {self._kafka.message}"
        return "the broker's own start deletes what it does not keep" if found.bytes_cut else "the broker starts"
