"""Section "What to do": the ways of recovering each log directory, what each keeps, loses and needs, and
the command.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.common.wording import counted
from kafkalog.inspect.facts import Planned, ReportFacts
from kafkalog.recovery.decide import losses
from kafkalog.recovery.decide.choice import ranges_text
from kafkalog.recovery.decide.plan import BrokerForecast
from kafkalog.recovery.decide.ways import Measured, RecoveryWay
from kafkalog.reporting.markup import Content, Markup, code, element, prose, table
from kafkalog.reporting.recommended import given_in, why_no_plan
from kafkalog.reporting.section import Section, section
from kafkalog.reporting.wording import shortened
from kafkalog.words.advice import told
from kafkalog.words.commands import Given
from kafkalog.words.next_step import StepKind, what_to_type
from kafkalog.words.outlook import forecast_sentences, renaming_text
from kafkalog.words.ways import label_of, needs_of, needs_text

__all__ = ["forecast_text", "kept_text", "lost_text", "ways_section"]

_MOST_PARTITIONS = 20
_UNDO = "What it removes goes to quarantine, and an undo puts it back. Stop the broker first."


def ways_section(facts: ReportFacts) -> Section | None:
    """Return the section with the plan for each directory. None if there are no plans, for example because only
    segments were given or no directory could be read. Raises `StorageError` if a metadata log that must be read for
    advice cannot be.
    """
    if not facts.planned:
        return None
    changing = sum(planned.is_worth_a_look for planned in facts.planned)
    note = f"for {counted(changing, 'log directory')}" if changing else "nothing"
    given = given_in(facts)
    content = [_planned(planned, given, is_one_of_several=len(facts.planned) > 1) for planned in facts.planned]
    return section("ways", "What to do", note, *content)


def _planned(planned: Planned, given: Given, *, is_one_of_several: bool) -> Markup:
    parts: list[Content] = [element("h3", code(planned.path))] if is_one_of_several else []
    forecast = planned.forecast
    if forecast is None:
        parts.append(element("p", f"No plan could be made: {shortened(why_no_plan(planned))}."))
        return element("div", *parts, class_="way")
    parts.append(element("p", f"{forecast_text(forecast, planned.choice.kafka_by_partition.values())}."))
    if planned.refusal is not None:
        parts.append(element("p", f"Recovery declines: {shortened(told(planned.refusal))}.", class_="warn"))
    if planned.is_choice:
        parts.append(_table("The possible ways", planned.choice.ways, planned.choice.recommended))
        hurt = list(planned.choice.by_partition.items())
        inner: list[Content] = [_table(name, ways, None) for name, ways in hurt[:_MOST_PARTITIONS]]
        if len(hurt) > _MOST_PARTITIONS:
            inner.append(element("p", f"{len(hurt) - _MOST_PARTITIONS:,} more partitions are only in the total."))
        if len(hurt) > 1:
            words = f"The same for each of {len(hurt):,} partitions"
            parts.append(element("details", element("summary", words), element("div", *inner, class_="body")))
    elif planned.files:
        loses = forecast.node is not None and not forecast.node.loses_nothing
        nothing = "The plan itself loses nothing" if loses else "Nothing is lost either way"
        words = f"{nothing}: {counted(planned.files, 'file')} would be put in order, as a broker does."
        parts.append(element("p", words))
    told_of = planned.consequences[:_MOST_PARTITIONS]
    parts += [element("p", prose(f"{loss_consequence.detail}."), class_="warn") for loss_consequence in told_of]
    if len(told_of) < len(planned.consequences):
        parts.append(element("p", f"{len(planned.consequences) - len(told_of):,} more consequences are not listed."))
    misnamed = [finding for finding in planned.damages if finding.code is FindingCode.SEGMENT_MISNAMED]
    if misnamed:
        parts.append(element("p", prose(f"First {renaming_text(misnamed)}; then ask again."), class_="warn"))
    parts.append(_recommendation(planned, given))
    declined = list(planned.declined.items())
    for name, why in declined[:_MOST_PARTITIONS]:
        parts.append(element("p", code(name), f" would be left as it is: {shortened(told(why))}."))
    if len(declined) > _MOST_PARTITIONS:
        parts.append(element("p", f"{len(declined) - _MOST_PARTITIONS:,} more would be left as they are."))
    if planned.deleted is not None:
        parts.append(element("p", prose(f"{planned.deleted}.")))
    return element("div", *parts, class_="way")


def _recommendation(planned: Planned, given: Given) -> Markup | None:
    step = what_to_type(planned, given)
    note, commands = f"{step.note[:1].upper()}{step.note[1:]}", step.commands
    if not commands:
        return None if planned.refusal is not None else element("p", prose(f"{note}."))
    line = element(
        "div",
        element("pre", code("\n".join(commands)), tabindex=0),
        element("button", "Copy", type="button", class_="copy"),
        class_="command",
    )
    best = planned.choice.recommended
    if best is None or step.kind is not StepKind.WAY or step.before:
        return element("div", element("p", prose(note), class_="note"), line, class_="tidy")
    return element(
        "div",
        element("p", element("strong", f"Recommended: {label_of(best)}. "), _sum(best)),
        line,
        element("p", prose(_UNDO), class_="note"),
        class_="recommended",
    )


def _sum(best: RecoveryWay) -> str:
    """Return sentences about the records that a way keeps and loses, and about its consequence."""
    lost = "none" if best.measured.records_lost == 0 and best.measured.is_exact else lost_text(best.measured)
    more = f" {best.consequence[:1].upper()}{best.consequence[1:]}." if best.consequence else ""
    return f"Records kept: {kept_text(best.measured)}; lost: {lost}.{more}"


def _table(caption: str, ways: Sequence[RecoveryWay], best: RecoveryWay | None) -> Markup:
    has_damage = any(way.measured.damage_left for way in ways)
    rows: list[list[Content]] = [
        [
            element("strong", label_of(way), " (recommended)") if way is best else label_of(way),
            "declined" if way.refusal is not None else code(needs_text(way)) if needs_of(way) else "nothing",
            kept_text(way.measured),
            lost_text(way.measured),
            way.measured.sound_lost,
            "unknown" if way.measured.records_lost is None else ranges_text(way.measured.lost) or "none",
            "unknown" if way.measured.bytes_cut is None else way.measured.bytes_cut,
            {None: "unknown", True: "yes", False: "no"}[way.measured.below_high_watermark],
            *([way.measured.damage_left] if has_damage else []),
        ]
        for way in ways
    ]
    columns = ["way", "needs", "records kept", "lost", "of these readable now", "offsets lost", "bytes cut",
               "committed records lost", *(["damage left"] if has_damage else [])]  # fmt: skip
    return table(caption, columns, rows, numeric=[2, 3, 4, 6, 8])


def kept_text(measured: Measured) -> str:
    """Text of the number of records that a way keeps."""
    if measured.records_kept is None:
        return "unknown"
    hidden = f", {measured.records_hidden:,} of them skipped" if measured.records_hidden else ""
    return f"{'about ' if measured.is_kept_estimate else ''}{measured.records_kept:,}{hidden}"


def lost_text(measured: Measured) -> str:
    """Text of the number of records that a way loses, as far as known."""
    return losses.lost_text(measured, "{:,}".format)


def forecast_text(forecast: BrokerForecast, by_kafka: Iterable[Measured]) -> str:
    """Return `forecast_sentences` as one text, shortened if it is long."""
    return shortened("; ".join(forecast_sentences(forecast, by_kafka)))
