"""Compare the ways of recovering one log directory: which ways there are, what each leaves, and which loses least.

The broker's start and the requested mode are already simulated. The other ways are simulated on a tree in memory, but
only for the partitions that lose something; for the rest there is nothing to choose.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import structs
from msgspec.structs import replace

from kafkalog.codec.names import CLUSTER_METADATA_TOPIC, parse_partition_directory
from kafkalog.log.storage.java import as_printed
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.broker.manager import StartResult
from kafkalog.recovery.damage.bit_repair import Proof
from kafkalog.recovery.damage.census import overlaps
from kafkalog.recovery.decide.aftermath import LossConsequence, consequences, held_back
from kafkalog.recovery.decide.choice import RecoveryChoice
from kafkalog.recovery.decide.counting import Comparer, CountedPartition, WayResult
from kafkalog.recovery.decide.forecasts import Forecasts, SurveyedDirectory
from kafkalog.recovery.decide.ways import (
    Measured,
    PartitionFacts,
    RecoveryRequest,
    RecoveryWay,
    recommended,
    total,
)  # fmt: skip
from kafkalog.recovery.modes.spec import Help
from kafkalog.recovery.modes.table import MODES, REPLICA, Mode
from kafkalog.recovery.safe.result import SafeResult
from kafkalog.tiers.tiering import EVENTS

__all__ = ["compare_ways"]

_SHOWN = 3
_SAFE = RecoveryRequest()


def compare_ways(directory: SurveyedDirectory, forecasts: Forecasts) -> RecoveryChoice:
    """Simulate the ways of recovering that are not simulated yet, and compare all: the records that each keeps and
    loses, in total and for each partition in which they may differ. Nothing on disk is changed.

    `forecasts` must have counts, else `AssertionError` is raised. Reads the partitions' logs and other copies of them;
    raises `StorageError` if that fails, `UsageError` as `consequences` does.
    """
    if forecasts.counted is None:
        raise AssertionError(directory.survey.root)
    counted = forecasts.counted
    comparer = Comparer(directory.survey.tree(), forecasts.kafka, forecasts.own, directory.rules)
    copies = {partition.name: directory.copies_of(partition.facts) for partition in counted}
    from_copies = [partition for partition in counted if copies[partition.name]]
    merging = _with_help(Mode.MERGE, directory, forecasts, comparer, from_copies, copies)
    merged = {} if merging is None else merging.measured
    names = {partition.name for partition in counted if comparer.is_hurt(partition) or _has_less(partition, merged)}
    counted = _with_commits(counted, comparer, directory)
    hurt = [partition for partition in counted if partition.name in names]
    for partition in hurt:
        comparer.note_ends_of_copies(partition, copies[partition.name])
    ways = _carried_out(directory, forecasts, comparer, hurt)
    tiering = directory.rules.facts.tiering
    is_tiered = any(tiering.is_tiered((partition.facts.topic, partition.facts.partition)) for partition in hurt)
    remote = _with_help(Mode.REMOTE, directory, forecasts, comparer, hurt) if is_tiered else None
    with_help = [result for result in (remote, merging) if result is not None]
    return _compared(directory, comparer, counted, hurt, ways, with_help)


def _has_less(partition: CountedPartition, merged: Mapping[str, Measured]) -> bool:
    """Whether merging with other copies would keep more records than this copy has. False if one of the numbers is
    unknown.
    """
    kept = merged[partition.name].records_kept if partition.name in merged else None
    return kept is not None and partition.census is not None and kept > partition.census.records


def _carried_out(
    directory: SurveyedDirectory, forecasts: Forecasts, comparer: Comparer, hurt: Sequence[CountedPartition]
) -> list[WayResult]:
    """Return the results of the broker's start, which comes first, and of the recoveries that use neither other copies
    nor the remote tier. The other recoveries are simulated in memory, only for the partitions in `hurt`, and the
    requested one is among them if plans compare its mode. If `hurt` is empty, nothing is simulated, because mode safe
    would leave what the requested recovery leaves: that is then the result for mode safe. If mode kafka was requested,
    it is the unchanged tree.

    A simulated recovery with bit repair is left out if it repairs nothing. Examination below the recovery point
    (`full`) is simulated only if it was not requested, and mode safe leaves something that it could repair. Raises
    `StorageError` if a file cannot be read.
    """
    rules, own = directory.rules, forecasts.own
    asked = RecoveryRequest.of(rules)
    ways = [comparer.kafka]
    if own is not None and asked == _SAFE:
        ways.append(comparer.own)
    elif not hurt:  # mode safe would leave what this one does
        leaves = WayResult(request=_SAFE, tree=comparer.before)
        ways.append(leaves if own is None else replace(comparer.own, request=_SAFE))
    elif asked != _SAFE and asked.mode.spec.is_compared:
        ways.append(comparer.own)
    if not hurt:
        return ways
    part = comparer.before.part(*_directories(comparer.before, hurt))

    def carry_out(request: RecoveryRequest) -> SafeResult | None:
        if any(way.request == request for way in ways):
            return None
        result = directory.recover(part.copy(), request.applied_to(rules))
        if request.proof is None or result.repairs:
            ways.append(WayResult.of_safe(request, result))
        return result

    level = Proof.STRUCTURE if rules.repair_bits is None else min(rules.repair_bits, Proof.STRUCTURE)
    carry_out(_SAFE)
    repaired = carry_out(RecoveryRequest(proof=level))
    for mode, spec in MODES.items():
        if spec.is_compared and not spec.is_safe:
            if repaired is None or repaired.repairs:  # beside other damage, which it does not help with
                carry_out(RecoveryRequest(mode=mode, proof=level))
            carry_out(RecoveryRequest(mode=mode))
    if not rules.full and any(comparer.measured(partition, _safe(ways)).leaves_to_mend for partition in hurt):
        carry_out(RecoveryRequest(proof=level, full=True))  # what is wrong may lie below the recovery point
    return ways


def _with_commits(
    counted: Sequence[CountedPartition], comparer: Comparer, directory: SurveyedDirectory
) -> list[CountedPartition]:
    """Return the partitions in order, some with new counts. A live log that ends in damage may have been written
    further than is known: at least up to the highest offset that a consumer group has committed. If this is above the
    known end, the partition is counted again with it as the end. All others are returned unchanged. Raises
    `StorageError` if a log cannot be read.
    """
    counted_partitions = []
    for partition in counted:
        facts, original = partition.facts, partition.census
        if original is not None and facts.is_live and original.ends_in_damage:
            end = directory.coordinators.highest_commit(facts.topic, facts.partition)
            if end > facts.written.end:
                facts = replace(facts, written=replace(facts.written, end=end))
                partition = comparer.counted(facts, original, is_untouched=partition.is_untouched)
        counted_partitions.append(partition)
    return counted_partitions


def _with_help(
    mode: Mode,
    directory: SurveyedDirectory,
    forecasts: Forecasts,
    comparer: Comparer,
    counted: Sequence[CountedPartition],
    copies: Mapping[str, Sequence[str]] | None = None,
) -> WayResult | None:
    """Return the result of mode `merge` or `remote`, with counts only for the partitions that it helps; None if it
    helps none. The mode is simulated in memory, unless it was requested and so is known already. `counted` are the
    partitions that it may help. For mode `merge`, `copies` maps a partition to the directories of its other copies, and
    the counts have `from_copies` (`Comparer.note_from_copies`). Raises `StorageError` if a file cannot be read.
    """
    if not counted:
        return None
    request, rules, before = RecoveryRequest(mode=mode), directory.rules, comparer.before
    if forecasts.own is not None and rules.mode is mode:
        recovered, way = forecasts.own, comparer.own
    else:
        recovered = directory.recover(before.part(*_directories(before, counted)), request.applied_to(rules))
        way = WayResult.of_safe(request, recovered)
    helped = [partition for partition in counted if partition.name in recovered.helped]
    measured = {partition.name: comparer.measured(partition, way) for partition in helped}
    if way.way.help is Help.COPIES:
        for partition in helped:
            comparer.note_from_copies(partition, way)
    from_copies = {name: copies[name] for name in measured} if copies else {}
    return replace(way, measured=measured, copies=from_copies) if measured else None


def _directories(tree: Tree, counted: Sequence[CountedPartition]) -> list[str]:
    """All directories of some topic-partitions, `-future` copies too."""
    keys = {(partition.facts.topic, partition.facts.partition) for partition in counted}
    named = ((name, parse_partition_directory(name)) for name in tree.subdirectories())
    return [name for name, parsed in named if parsed is not None and (parsed.topic, parsed.partition) in keys]


def _compared(
    directory: SurveyedDirectory,
    comparer: Comparer,
    counted: Sequence[CountedPartition],
    hurt: Sequence[CountedPartition],
    ways: Sequence[WayResult],
    with_help: Sequence[WayResult],
) -> RecoveryChoice:
    """Make a `RecoveryChoice` from the simulated ways and the ways that take other brokers' copies: describe and order
    them, in total and for each partition in `hurt`. Each way is counted for each partition, and the counts are stored
    in the elements of `ways`; for partitions that are not in `hurt`, a simulated way gets the counts of the requested
    recovery. `held_back` is set in the counts of all these ways for partitions in `hurt`.

    `counted` are all partitions, `hurt` those that lose something or have fewer records than mode merge leaves.
    `with_help` are ways that use other copies or the remote tier; they have counts only for the partitions that they
    help.

    Ways that combine options are left out if they are not better than the single options (`_gains`, `_mends`). Raises
    `StorageError` if a log cannot be read, `UsageError` as `consequences` does.
    """
    names = {partition.name for partition in hurt}
    for way in ways:
        is_whole = way is comparer.own or way is comparer.kafka  # not only for the partitions that are hurt
        way.measured = {
            partition.name: (
                comparer.measured(partition, way) if is_whole or partition.name in names else partition.by_own
            )
            for partition in counted
        }
    for way in (*ways, *with_help):
        _note_held_back(way, names, directory, comparer.before)
    ways = [way for way in ways if not way.is_both or _gains(way, ways)]
    ways = [way for way in ways if not way.is_full or _mends(way, ways)]
    safe = _safe(ways)
    held = {partition.name: measured for partition in hurt if (measured := comparer.replica(partition)) is not None}
    again = {partition.name for partition in hurt if comparer.is_fetched_again(partition)}
    again_from_start = RecoveryRequest(mode=Mode.SET_ASIDE)
    elsewhere = {
        REPLICA.name: {name: measured for name, measured in held.items() if name in again},
        again_from_start.way.name: {
            name: replace(measured, perhaps_elsewhere=0, of_offsets=measured.perhaps_elsewhere, uncounted=0)
            for name, measured in held.items() if name not in again  # it takes away what may be nowhere else
        },
        **{
            way.way.name: {name: measured for name, measured in way.measured.items() if name in names}
            for way in with_help
        },
    }
    results = {
        REPLICA.name: replace(safe, request=None),
        again_from_start.way.name: replace(safe, request=again_from_start),
        **{way.way.name: way for way in with_help},
    }
    candidates = [*ways, *(
        replace(results[name], measured={**safe.measured, **measured})
        for name, measured in elsewhere.items() if measured
    )]  # fmt: skip
    candidates.sort(key=lambda way: way.order)
    recoveries = [way for way in candidates if way.request is not None and way.way.help is None]
    recoveries = [way for way in recoveries if not way.way.is_start]
    hurt_facts = [partition.facts for partition in hurt]
    describer = _WayDescriber(comparer, hurt_facts)
    by_partition = {
        partition.name: [
            describer.way(way, way.measured[partition.name], [partition.facts])
            for way in candidates
            if partition.name in elsewhere.get(way.way.name, way.measured)
        ]
        for partition in hurt
    }
    own = {partition.name: partition.by_own for partition in counted}
    candidates = [
        _with_rest(way, elsewhere[way.way.name], recoveries, describer, hurt) if way.way.is_for_each_partition else way
        for way in candidates
    ]
    described = [describer.whole(way, hurt_facts) for way in candidates]
    return RecoveryChoice(
        ways=described,
        by_partition=by_partition,
        own=total(own.values()),
        own_by_partition=own,
        kafka_by_partition={partition.name: partition.by_kafka for partition in counted},
        missing=comparer.missing(counted),
        damaged=comparer.damaged(counted),
        overlapping=[
            directory
            for partition in counted
            for directory in partition.facts.directories
            if (overlaps(comparer.before, directory) if partition.census is None else partition.census.overlaps)
        ],
        consequences=tuple(_of_recommended(directory, comparer, list(zip(described, candidates, strict=True)))),
        loses_metadata=any(_loses_metadata(partition, by_partition[partition.name]) for partition in hurt),
    )


def _with_rest(
    way: WayResult,
    of_partition: Mapping[str, Measured],
    recoveries: Sequence[WayResult],
    describer: _WayDescriber,
    hurt: Sequence[CountedPartition],
) -> WayResult:
    """Choose the partitions for a way that is applied to one partition at a time, and the recovery of all others
    (`rest`). Return the way with both, and with the counts of both together.

    The way is for a partition if its loss there is known, and that of the other recovery is unknown or worse
    (`Measured.sort_key`). If it is better nowhere, it is for all that it can be applied to. The recovery is the one of
    `recoveries` that is best together with the way. Refused ones are compared only if all are refused. If no loss is
    known, the first of those compared is chosen. `recoveries` must not be empty.

    `of_partition` has the counts of the way for the partitions to which it can be applied.
    """

    def combined(rest: WayResult) -> WayResult:
        chosen = [
            name
            for name, measured in of_partition.items()
            if measured.records_lost is not None
            and (rest.measured[name].records_lost is None or measured.sort_key < rest.measured[name].sort_key)
        ]
        chosen = chosen or list(of_partition)
        left = {name: measured for name, measured in rest.measured.items() if name not in chosen}
        return replace(
            way,
            measured={**left, **{name: of_partition[name] for name in chosen}},
            chosen=tuple(chosen),
            rest=replace(rest, measured=left),
        )

    facts = [partition.facts for partition in hurt]
    results = [combined(rest) for rest in recoveries]
    described = [describer.whole(result, facts) for result in results]
    allowed = [each for each in described if each.rest is None or each.rest.refusal is None]
    compared = allowed or described
    return results[described.index(recommended(compared) or compared[0])]


def _note_held_back(way: WayResult, names: Collection[str], directory: SurveyedDirectory, before: Tree) -> None:
    """Set `held_back` in the counts of a way for the partitions `names`: the number of offsets that `read_committed`
    consumers do not get. Partitions in which consumers are not held back keep their counts. Does nothing if the way has
    no tree. Raises `StorageError` if a file cannot be read.
    """
    if way.tree is None:
        return
    hurt = {name: measured for name, measured in way.measured.items() if name in names}
    for name, count in held_back(before, way.tree, way.partitions.values(), hurt, directory.coordinators).items():
        way.measured[name] = replace(hurt[name], held_back=count)


def _of_recommended(
    directory: SurveyedDirectory, comparer: Comparer, ways: Sequence[tuple[RecoveryWay, WayResult]]
) -> Iterator[LossConsequence]:
    """Yield the `marker_lost` consequences of the recommended way and of its `rest`. One of the two that the plan
    itself carries out is skipped. Yields nothing if no way is recommended, or if no recovery carries it out (`how` is
    None). Raises the errors of `consequences` while iterating.
    """
    best = recommended([way for way, _result in ways])
    for way, result in ways:
        if way is not best or way.how is None:
            continue
        for part in (result, *(() if result.rest is None else (result.rest,))):
            if part.tree is None or part.tree is comparer.own.tree:
                continue
            measured, loaded = part.measured, part.partitions.values()
            if part.chosen:
                measured = {name: part.measured[name] for name in part.chosen}
            for consequence in consequences(
                comparer.before, part.tree, loaded, measured, directory.rules, directory.coordinators
            ):
                if consequence.kind == "marker_lost":
                    yield structs.replace(consequence, way=way.way, detail=f"after {way.way}, {consequence.detail}")


def _loses_metadata(partition: CountedPartition, ways: Sequence[RecoveryWay]) -> bool:
    """Whether the partition is the cluster metadata log, is hurt and may lose records. It is hurt if it has damage
    worse than a torn tail, missing segments or overwritten offsets. It may lose records if `recommended` returns no
    way, or one that may not keep all its records. False if its logs were not read.
    """
    original = partition.census
    if partition.facts.topic != CLUSTER_METADATA_TOPIC or original is None:
        return False
    best = recommended(ways)
    is_hurt = original.is_damaged or bool(original.missing or original.overwritten)
    return is_hurt and (best is None or best.measured.records_lost != 0)


def _safe(ways: Sequence[WayResult]) -> WayResult:
    return next((way for way in ways if way.way is Mode.SAFE.spec.way), ways[0])


def _gains(both: WayResult, ways: Sequence[WayResult]) -> bool:
    """Whether a combination of two options loses fewer records than every single option. False if its loss is unknown;
    an unknown loss of a single option counts as more.
    """
    lost = total(both.measured.values()).records_lost
    single = [total(way.measured.values()).records_lost for way in ways if not way.is_both]
    return lost is not None and all(other is None or lost < other for other in single)


def _mends(full: WayResult, ways: Sequence[WayResult]) -> bool:
    """Whether correcting bits in all segments (`full`) drops no sound records, and loses less or leaves less damage
    than correcting bits only from the recovery point on.
    """
    whole = total(full.measured.values())
    part = [total(way.measured.values()) for way in ways if way.way is full.way and not way.is_full]
    return not (whole.sound_lost or whole.unopened_lost) and all(_harm(whole) < _harm(other) for other in part)


def _harm(measured: Measured) -> tuple[int, int]:
    return measured.out_of_reach or 0, measured.damage_left


class _WayDescriber:
    """Describes ways of recovering: what they need, and what follows from them, as text."""

    def __init__(self, comparer: Comparer, hurt: Iterable[PartitionFacts]) -> None:
        self._start = comparer.start
        self._before = comparer.before
        self._others = tuple(sorted({broker for facts in hurt for broker in comparer.others(facts)}))

    @property
    def leaders(self) -> str:
        return f"broker {' or '.join(map(str, self._others))}"

    def way(self, result: WayResult, found: Measured, partitions: Sequence[PartitionFacts]) -> RecoveryWay:
        """Describe one way of recovering for `partitions`; `found` are its counts for them. `how` is None if no
        recovery carries the way out, or if it is the broker's start and the logs do not load. A way that is applied to
        one partition at a time is never refused. For others, `refusal_of` returns the refusal; if there is one, the
        consequence says that nothing is done.

        A way with `how` needs consent if its mode takes whole partitions away. It also needs consent if it drops sound
        records or markers, or makes a partition stray, unless it is the broker's start.
        """
        spec = result.way
        refusal = None if spec.is_for_each_partition else result.refusal_of(partitions)
        request = result.request
        if spec.is_start and not self._start.is_loaded:
            request = None
        if request is not None and result.copies:
            paths = (path for partition in partitions for path in result.copies.get(partition.name, ()))
            request = replace(request, copies=tuple(dict.fromkeys(paths)))
        strays = any(result.makes_stray(partition) for partition in partitions)
        drops = strays or found.drops_sound
        mode = None if request is None else request.mode.spec
        consent = mode is not None and (mode.takes_whole_partitions or (drops and not mode.is_as_broker))
        leaders = self._others if spec.help is Help.LEADER else ()
        facts = _WayFacts(self, result, found, partitions)
        consequence = spec.consequence(facts) if refusal is None else "it is left as it is"
        return RecoveryWay(
            way=spec.name,
            measured=found,
            how=request,
            needs_consent=consent,
            leaders=leaders,
            consequence=consequence,
            refusal=refusal,
        )

    def whole(self, result: WayResult, partitions: Sequence[PartitionFacts]) -> RecoveryWay:
        """Describe one way of recovering for the whole log directory. `partitions` are those for which the ways are
        compared. If the way is applied to one partition at a time, its consequence is only about the partitions that it
        is for (`result.chosen`). `rest` is then the recovery of all others, and `measured` has the counts of both.
        """
        counts = total(result.measured.values())
        if result.rest is None:
            return self.way(result, counts, partitions)
        chosen = [partition for partition in partitions if partition.name in result.chosen]
        others = [partition for partition in partitions if partition.name not in result.chosen]
        way = self.way(result, total(result.measured[name] for name in result.chosen), chosen)
        rest = self.way(result.rest, total(result.rest.measured.values()), others)
        return structs.replace(way, measured=counts, partitions=result.chosen, rest=rest)

    def left_to_remote(self, result: WayResult, partitions: Sequence[PartitionFacts]) -> str:
        """Return text about the offsets that are no longer local in the result and that a broker reads from the remote
        tier: in each partition, from its first base offset now to its first base offset in the result (exclusive). At
        most three partitions are named; the others are counted. Without such offsets, the text says only that the
        remote tier has what is lost.
        """
        ranges = []
        for partition in partitions:
            after = result.tree.logs(partition.name) if result.tree is not None else []
            before = self._before.logs(partition.name)
            if after and before and before[0][0] < after[0][0]:
                ranges.append(f"offsets {before[0][0]} to {after[0][0] - 1} of {partition.name}")
        if not ranges:
            return f"what is lost here is in the remote tier, by {EVENTS}"
        more = f" and of {len(ranges) - _SHOWN} more" if len(ranges) > _SHOWN else ""
        return f"{', '.join(ranges[:_SHOWN])}{more} are in the remote tier, by {EVENTS}"

    def why_no_start(self) -> str | None:
        """Return a sentence about a broker that does not start or takes the directory offline, with Kafka's exception
        and message. Return None if the logs load.
        """
        if self._start.outcome == StartResult.START_FAILS:
            return f"the broker does not start: {as_printed(self._start.exception, self._start.message)}"
        if self._start.outcome == StartResult.DIR_OFFLINE:
            return f"the broker takes the directory offline: {as_printed(self._start.exception, self._start.message)}"
        return None


class _WayFacts:
    """Implementation of `WayFacts` for one result."""

    def __init__(
        self, describer: _WayDescriber, result: WayResult, found: Measured, partitions: Sequence[PartitionFacts]
    ) -> None:
        self._describer = describer
        self._result = result
        self._partitions = partitions
        self.bytes_cut = found.bytes_cut
        self.may_lose_records = found.may_lose_records
        self.drops_sound = found.drops_sound
        self.has_gaps = bool(found.lost)
        self.leaders = describer.leaders
        self.start = describer.why_no_start()

    @property
    def left_to_remote(self) -> str:
        return self._describer.left_to_remote(self._result, self._partitions)
