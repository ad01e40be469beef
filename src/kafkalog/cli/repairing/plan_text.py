"""A plan, for people: what the broker would do, and what would happen to each partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkalog.cli.output import LineWriter
from kafkalog.cli.repairing.ways_text import print_ways, sentence_of_damage_left
from kafkalog.cli.tables import MANY, Column, Kind, print_table, size_text
from kafkalog.codec.shell import shell_line
from kafkalog.codec.wording import counted
from kafkalog.recovery.broker.node.releases import MODELED
from kafkalog.recovery.broker.node.sentences import sentences_of_plan
from kafkalog.recovery.decide.actions import ActionKind
from kafkalog.recovery.decide.choice import ranges_text
from kafkalog.recovery.decide.moved_to_quarantine import PutAway, put_away
from kafkalog.recovery.decide.plan import BrokerForecast, PartitionPlan, Plan
from kafkalog.recovery.decide.ways import Measured, WayName
from kafkalog.recovery.facts.modes import Mode
from kafkalog.words.advice import told
from kafkalog.words.commands import NOTHING_GIVEN, Given, with_identity
from kafkalog.words.escapes import escape_controls
from kafkalog.words.insides import NOT_EXAMINED
from kafkalog.words.node import mends
from kafkalog.words.order import natural_order

__all__ = ["print_plan"]

_SHOWN = 20
"""Directories and files that move as a whole and are named."""


def _forecast(forecast: BrokerForecast) -> list[str]:
    """What Kafka would do, one sentence for each group of releases that do alike."""
    renamed = [f"Kafka {MODELED} would rename {name} -stray: the metadata has no such replica here"
               for name in (forecast.strays if forecast.node is None else ())]  # fmt: skip
    is_of_node = forecast.node is not None and (forecast.outcome == "loaded" or forecast.is_of_node)
    if forecast.node is not None and is_of_node:
        return sentences_of_plan(forecast.node, _how(forecast))
    match forecast.outcome:
        case "loaded":
            return [f"Kafka {MODELED} would start on it{_how(forecast)}", *renamed]
        case None:
            return [f"what Kafka would do is unknown: {forecast.message}"]
        case "start_fails":
            return [f"Kafka {MODELED} would NOT START on it: {forecast.exception}: {forecast.message}"]
        case _:
            return [f"Kafka {MODELED} would take it OFFLINE: {forecast.exception}: {forecast.message}"]


def _how(forecast: BrokerForecast) -> str:
    how = ", trusting the clean-shutdown marker" if forecast.clean_shutdown else ", after its own recovery"
    lost = sum((forecast.valid_records_lost or {}).values())
    return f"{how}, which would lose {lost} records that can still be read" if lost else how


def _lost(partition: PartitionPlan, counted_lost: Mapping[str, Measured]) -> str:
    """What is lost, as in the tables of the ways, where they were counted; else what the bytes that go tell."""
    found = counted_lost.get(partition.name)
    if found is not None and found.records_lost is not None:
        return ranges_text(found.lost) or ("none" if found.is_exact else "unknown")
    lost = [*partition.gaps, *([partition.offsets_lost] if partition.offsets_lost is not None else [])]
    return " ".join(f"{first}-{last}" for first, last in lost) or ("unknown" if partition.cut_bytes else "none")


def _below(partition: PartitionPlan) -> str:
    return (
        f"{partition.name}: the log will end at {partition.log_end_offset}, below the high watermark "
        f"{partition.high_watermark}: committed records are lost unless a replica that has them becomes leader first"
    )


def _print_partitions(title: str, partitions: Sequence[PartitionPlan], lost: Mapping[str, Measured]) -> None:
    print_table(
        title,
        [
            "partition directory",
            "end",
            Column("kept", Kind.BYTES, drop=3),
            Column("cut", Kind.BYTES),
            Column("offsets lost", wraps=True),
            Column("quarantined", drop=1),
            Column("rebuilt", drop=2),
            Column("renamed to", if_any=True),
        ],
        [
            [
                partition.name,
                partition.log_end_offset,
                partition.kept_bytes,
                partition.cut_bytes,
                _lost(partition, lost),
                len(partition.quarantined),
                len(partition.rebuilt),
                partition.renamed_to,
            ]
            for partition in partitions
        ],
    )


def _print_changing(title: str, changing: Sequence[PartitionPlan], lost: Mapping[str, Measured]) -> None:
    """A table; of many partitions only those of which something is removed, and a sum of the others."""
    listed = changing if len(changing) <= MANY else [each for each in changing if each.cut_bytes or each.quarantined]
    if listed:
        _print_partitions(title, listed, lost)
    with LineWriter() as writer:
        if not listed:
            writer.write(f"{title}: no log is cut" if changing else f"{title}: no partition changes")
        if len(listed) < len(changing):
            made = sum(len(each.rebuilt) for each in changing) - sum(len(each.rebuilt) for each in listed)
            others = counted(len(changing) - len(listed), "more partition")
            writer.write(f"{others} of which nothing is removed: {counted(made, 'file')} rebuilt")


def _content(away: PutAway) -> str:
    """How much is in a directory, at any depth."""
    if away.files is None:
        return size_text(away.size)
    if not away.is_whole:
        return f"{counted(away.files, 'file')} and what cannot be listed, {size_text(away.size)} or more"
    return f"{counted(away.files, 'file')}, {size_text(away.size)}" if away.files else "no file in it"


def _is_not_needed(plan: Plan) -> bool:
    """What would change are indexes and snapshots only, which a broker makes by itself when it has to."""
    starts = plan.broker.starts_and_loses_nothing and plan.broker.clean_shutdown
    harmless = not (plan.is_hurt or plan.findings or any(each.cut_bytes for each in plan.partitions))
    hides = any(way.way is WayName.KAFKA and way.measured.records_hidden for way in plan.choice.ways)
    return bool(plan.changes and starts and harmless and not hides)


def _write_changes(writer: LineWriter, plan: Plan, changing: Sequence[PartitionPlan]) -> None:
    """What moves to quarantine as a whole, and a sum."""
    away = put_away(plan)
    for each in away[:_SHOWN]:
        writer.write(escape_controls(f"moves to quarantine: {each.path} ({_content(each)})"))
    if len(away) > _SHOWN:
        writer.write(f"moves to quarantine: {len(away) - _SHOWN} more")
    files = sum(action.kind is not ActionKind.REMOVE_DIRECTORY for action in plan.actions)
    cut = sum(partition.cut_bytes for partition in changing)
    writer.write(
        f"{files} files change in {len(changing)} of {len(plan.partitions)} partitions; "
        f"{size_text(cut)} of log go to quarantine"
    )
    if plan.mode is not Mode.SALVAGE:
        writer.write(NOT_EXAMINED)


def _write_apart(writer: LineWriter, plan: Plan) -> None:
    """Write what follows for others, and the partitions of which nothing is cut."""
    for sentence in () if plan.broker.node is None else mends(plan.broker.node, plan.root):
        writer.write(escape_controls(sentence))
    for name in plan.made_stray:
        stray = f"{name} becomes -stray, out of service, and a broker makes an empty partition in its place"
        writer.write(escape_controls(f"{stray}: --topic-id ID keeps it in service, --accept-loss lets it become stray"))
    for consequence in plan.consequences:
        writer.write(escape_controls(consequence.detail))
    for name, offset in plan.begins.items():
        writer.write(escape_controls(f"{name} begins, empty, at {offset}, after its remote part"))
    for name, why in plan.declined.items():
        writer.write(escape_controls(f"{name} is left as it is: {told(why)}"))


def print_plan(plan: Plan, given: Given = NOTHING_GIVEN) -> None:
    """The forecast, a table of the partitions that change, a sum, and the ways there are.

    `given` is what every recommended command repeats.
    """
    full = "--full" in given.words or plan.mode not in (Mode.SAFE, Mode.STRICT)
    changing = sorted((each for each in plan.partitions if each.changes), key=lambda each: natural_order(each.name))
    title = f"plan for {escape_controls(plan.root)} in mode {plan.mode}"
    _print_changing(title, changing, plan.choice.own_by_partition)
    with LineWriter() as writer:
        for partition in changing:
            if partition.is_cut_below_high_watermark:
                writer.write(escape_controls(_below(partition)))
        for finding in plan.findings:
            writer.write(escape_controls(str(finding)))
        others = "; other partitions were not examined" if plan.survey.is_partial else ""
        for sentence in _forecast(plan.broker):
            writer.write(escape_controls(sentence + others))
        if plan.topics.problem is not None:
            writer.write(escape_controls(plan.topics.problem))
        elif plan.topics.configs or plan.topics.broker_configs:
            writer.write(escape_controls(f"settings of topics: from {plan.topics.source}"))
        _write_apart(writer, plan)
        if plan.note_of_identity is not None:
            writer.write(escape_controls(plan.note_of_identity))
            if plan.identity_in:
                paths, words = with_identity(plan, given.words)
                writer.write(escape_controls(f"  kafkalog recover {shell_line([*paths, *words])} --yes"))
        if plan.deleted is not None:
            writer.write(escape_controls(f"note: {plan.deleted}"))
        damage = sentence_of_damage_left(plan.choice.own)
        if damage is not None:
            more = "" if full else "; --full examines segments below the recovery point too"
            writer.write(f"with this plan {damage}{more}")
        if _is_not_needed(plan):
            writer.write("the broker was stopped cleanly and would start on this as it is: a recovery is not needed")
        if plan.refusal is not None:
            writer.write(escape_controls(f"refused: {told(plan.refusal)}"))
        elif not plan.changes:
            hurt = plan.is_worth_a_look
            writer.write("this mode changes nothing" if hurt else f"nothing to do; {NOT_EXAMINED}")
        else:
            _write_changes(writer, plan, changing)
    print_ways(plan, given)
