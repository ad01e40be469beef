"""Everything that a plan needs to know of one topic-partition, found out in one go, here or by another process.

The broker's start, safe recovery and the counts of what both keep are one after the other for a whole log directory;
of one topic-partition none of them needs another.  Who is given it once reads its files once, and gives back only what
is different from the survey.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kafkalog.classes import dataclass
from kafkalog.codec.findings import Finding
from kafkalog.codec.names import FileKind
from kafkalog.log.directories.workers import Group, Workers
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.broker.forecast import Forecast, Started
from kafkalog.recovery.broker.manager import BrokerResult, StartResult
from kafkalog.recovery.decide.closed_in_order import Look
from kafkalog.recovery.decide.counting import Counted, Units, are_counted, count_apart
from kafkalog.recovery.facts.rules import Rules
from kafkalog.recovery.safe.recovery import InOrder, SafeRecovery
from kafkalog.recovery.safe.result import RecoveredPartition, SafeResult

__all__ = ["Examination", "examine"]


@dataclass(frozen=True, slots=True)
class Examination:
    """What examining the whole log directory at once would have given."""

    kafka: BrokerResult
    own: SafeResult
    counted: list[Counted] | None
    """of every topic-partition; None if that is still to be done"""
    checked: dict[str, Sequence[Finding]]
    """partition directory -> what checks found, where they looked"""


@dataclass(frozen=True, slots=True)
class _Examined:
    """One topic-partition."""

    started: Started | None
    recovered: list[RecoveredPartition]
    counted: list[Counted]
    checked: dict[str, Sequence[Finding] | None]


def examine(
    tree: Tree,
    rules: Rules,
    topic_id: Callable[[str], str | None],
    is_in_order: InOrder,
    workers: Workers,
    sizes: Mapping[str, int],
    *,
    counts: bool,
    look: Look | None = None,
) -> Examination | None:
    """Examine each topic-partition by itself; None where the log directory has to be started as a whole.

    The arguments are those of `recover_safely`; `sizes` are of the files by path; `counts`: count as `compare_ways`;
    `look`: what checks find in a partition directory, None if nobody wants to know.
    """
    workers.begin("what Kafka and recovery would do", sizes)
    forecast = Forecast(tree.copy(), rules)
    if not forecast.is_divisible:
        return None
    recovery = SafeRecovery(tree, rules, topic_id, is_in_order)
    if not recovery.takes_the_root_as_it_is:
        return None
    logs = (size for path, size in sizes.items() if path.endswith(FileKind.LOG.value))
    units = Units(tree, rules) if counts and are_counted(logs) else None

    def examine_one(group: Group) -> _Examined:
        kafka = forecast.load(tree.part(*group))
        has_started = kafka.outcome == StartResult.LOADED
        recovery.reuse(kafka if has_started else None)
        recovered = recovery.recover(group)
        counted = []
        if units is not None and has_started:
            before, own = tree.part(*group), recovery.part(recovered)
            counted = [count_apart(unit, before, kafka, own, rules.facts) for unit in units.among(before, group)]
        checked = {} if look is None or not counts else {each: look(each) for each in group}
        return _Examined(forecast.started(kafka), recovered, counted, checked)

    found = list(workers.each(forecast.groups, examine_one))
    counted = [each for one in found for each in one.counted]
    is_counted = units is not None and all(one.started is not None for one in found)
    return Examination(
        forecast.whole([one.started for one in found]),
        recovery.whole(one.recovered for one in found),
        counted if is_counted else None,
        {each: told for one in found for each, told in one.checked.items() if told is not None},
    )
