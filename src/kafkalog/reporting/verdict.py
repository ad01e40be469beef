"""Verdict of a report: one sentence, and the exit code that goes with it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.common.wording import counted
from kafkalog.inspect.facts import ReportFacts
from kafkalog.recovery.broker.node.answer import StartOutcome
from kafkalog.recovery.broker.node.releases import MODELED
from kafkalog.recovery.decide.aftermath import KNOWN_BY_COORDINATORS
from kafkalog.recovery.decide.plan import BrokerForecast
from kafkalog.recovery.decide.ways import Measured
from kafkalog.reporting.losses import (
    places_elsewhere,
    records_text,
    runs_that_lost,
    total_before,
    total_by_start,
    total_for_good,
)
from kafkalog.words.exit_codes import ExitCode, exit_code_of_findings
from kafkalog.words.insides import NOT_EXAMINED

__all__ = ["ReportVerdict", "verdict_of"]

_MEANINGS = {
    ExitCode.CLEAN: "nothing was found",
    ExitCode.FINDINGS: "something was found; nothing was changed",
    ExitCode.IO_ERROR: "something could not be read; all the rest was examined",
}


class ReportVerdict(Struct, frozen=True):
    """Verdict of a report: a word, a sentence, and the exit code of the command."""

    code: ExitCode
    word: str
    """`clean`, `findings`, `damaged` or `unreadable`"""
    sentence: str

    @property
    def meaning(self) -> str:
        """Meaning of the exit code."""
        return _MEANINGS[self.code]


def verdict_of(facts: ReportFacts) -> ReportVerdict:
    """Return the verdict of a report; the worst finding determines it. Without any warning or error, it is `findings`
    if copies differ, an execution was interrupted, or coordinators know of more than the logs have.
    """
    code = exit_code_of_findings(facts.findings)
    if code is ExitCode.CLEAN and (facts.copies_differ or facts.unfinished_runs or _is_more_known(facts)):
        code = ExitCode.FINDINGS
    return ReportVerdict(code, _word(facts, code), _sentence(facts, code))


def _word(facts: ReportFacts, code: ExitCode) -> str:
    if code is ExitCode.IO_ERROR:
        return "unreadable"
    if code is ExitCode.CLEAN:
        return "clean"
    return "damaged" if facts.errors else "findings"


def _is_more_known(facts: ReportFacts) -> bool:
    """Whether groups or transactions know of offsets or markers that the logs do not have."""
    kinds = {consequence.kind for planned in facts.planned for consequence in planned.consequences}
    return not kinds.isdisjoint(KNOWN_BY_COORDINATORS)


def _sentence(facts: ReportFacts, code: ExitCode) -> str:
    examined = facts.examined
    partitions = counted(len(examined.partitions), "partition")
    if code is ExitCode.CLEAN:
        agrees = "and nothing that was compared contradicts anything else"
        before = _before(facts)
        ended = f"; {before}." if before else "."
        if not facts.deep:
            return f"Clean: every batch of {partitions} is sound, {agrees}; {NOT_EXAMINED}{ended}"
        return f"Clean: every batch and every record of {partitions} can be read, {agrees}{ended}"
    parts = []
    if code is ExitCode.IO_ERROR:
        parts.append("not everything could be read")
    hurt = len(examined.partitions) - examined.clean_partitions
    if examined.damaged_segments:
        segments = counted(examined.damaged_segments, "segment")
        where = f"{examined.damaged_partitions} of {partitions}"
        parts.append(f"{segments} in {where} {_are(examined.damaged_segments)} not sound from end to end")
    elif facts.findings:
        where = f"{hurt} of {partitions}" if hurt else "the files beside the partitions"
        parts.append(f"{counted(len(facts.findings), 'finding')} in {where}, and every batch of the logs is sound")
    elif _is_more_known(facts):
        parts.append(
            f"every batch of {partitions} is sound, but groups or transactions know of more than the logs have, as is "
            "said above"
        )
    if facts.copies_differ:
        parts.append(_copies(facts))
    if facts.unfinished_runs:
        parts.append(
            f"{counted(facts.unfinished_runs, 'recovery run')} was interrupted and must be completed or undone"
        )
    parts += filter(None, [_start(facts), _before(facts)])
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def _copies(facts: ReportFacts) -> str:
    """Return a clause for the verdict. It counts the partitions with several copies, and those of them whose copies
    differ, are damaged or are not all there. If there are none of the latter, or nothing was compared, it says that the
    compared directories are not as they should be. If the directories are of several brokers, it refers to `triage`.
    """
    several = [] if facts.comparison is None else [each for each in facts.comparison.partitions if len(each.copies) > 1]
    differing = sum(not partition_comparison.is_clean for partition_comparison in several)
    if not differing:
        return "the compared directories are not as they should be"
    text = f"{differing} of {counted(len(several), 'partition')} with several copies have copies that differ"
    brokers = {planned.node.node_id for planned in facts.planned if planned.node is not None}
    return f"{text} (`kafkalog triage` says what each leader would lose)" if len(brokers) > 1 else text


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _gone(for_good: Measured) -> str:
    """Return text about the records that every way loses. If some of them can still be read, these are counted
    separately.
    """
    if not for_good.sound_lost:
        return f"{records_text(for_good)} cannot be had back"
    unreadable = replace(for_good, records_lost=max((for_good.records_lost or 0) - for_good.sound_lost, 0))
    readable = f"no way keeps {counted(for_good.sound_lost, 'record')} that can still be read"
    is_all = unreadable.records_lost == 0 and for_good.is_exact
    return readable if is_all else f"{records_text(unreadable)} cannot be had back, and {readable}"


def _start(facts: ReportFacts) -> str:
    """Return text about Kafka's own start if that fails or drops readable records, and about permanent losses, unless
    the start drops nothing but readable records. Return an empty string if no permanent loss is known and the start
    succeeds, drops no readable records or is unknown.
    """
    for_good = total_for_good(facts)
    unless = " or ".join(places_elsewhere(facts))
    gone = f"{_gone(for_good)}{f', unless {unless}' if unless else ''}"
    refused = [
        each.forecast for each in facts.planned if each.forecast is not None and _is_refused(each.forecast.outcome)
    ]
    if refused:
        by_logs = sum(not forecast.is_of_node for forecast in refused)
        where = " on it" if len(facts.planned) == 1 else f" on {len(refused)} of the directories"
        if len(facts.planned) > 1 and by_logs < len(refused):  # a node does not start without one of its directories
            where = f" at all{f', because of {by_logs} of the directories' if by_logs else ''}"
        what = f"Kafka {' and '.join(_refusing(refused))} would not start{where}"
        return f"{gone}, and {what}" if for_good.records_lost else what
    by_start = total_by_start(facts)
    if by_start is None or not by_start.sound_lost:
        return gone if for_good.records_lost else ""
    dropped = counted(by_start.sound_lost, "record")
    readable = f"a start of Kafka would drop {dropped} that can still be read"
    if by_start.records_lost == by_start.sound_lost:
        return readable
    in_all = f"{readable}, {records_text(by_start)} in all"
    return f"{in_all}; {gone}" if for_good.records_lost else in_all


def _refusing(forecasts: Sequence[BrokerForecast]) -> Sequence[str]:
    """Return the names of the groups of Kafka releases that do not start on one of the directories, each once, in the
    order of `forecasts`. All `forecasts` are of starts that fail; if none of the groups of a forecast fails, the
    release that kafkalog models is named for it.
    """
    named: dict[str, None] = {}
    for forecast in forecasts:
        groups = [] if forecast.node is None else forecast.node.grouped
        refusing = [releases for releases, answer in groups if answer.outcome is StartOutcome.FAILS]
        named |= dict.fromkeys(refusing or [MODELED])
    return list(named)


def _before(facts: ReportFacts) -> str:
    """Text about losses of earlier recoveries; empty if there are none."""
    runs = runs_that_lost(facts)
    have = "an earlier recovery has" if len(runs) == 1 else f"{len(runs)} earlier recoveries have"
    return f"{have} lost {records_text(total_before(facts))}" if runs else ""


def _is_refused(outcome: str | None) -> bool:
    return outcome is not None and outcome != "loaded"
