"""Print a plan: the forecast of the broker's start, and the changes of each partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import structs

from kafkalog.cli.output import LineWriter
from kafkalog.cli.repairing.ways_text import (
    print_ways,
    sentence_of_damage_left,
    sentences_of_log_starts,
)
from kafkalog.cli.sentences import SentenceWriter, print_screen
from kafkalog.cli.tables import Column, Kind, print_table, size_text, text_width
from kafkalog.codec.common.shell import shell_line
from kafkalog.codec.common.wording import counted
from kafkalog.recovery.decide.actions import ActionKind
from kafkalog.recovery.decide.choice import ranges_text
from kafkalog.recovery.decide.moved_to_quarantine import PutAway, put_away
from kafkalog.recovery.decide.plan import PartitionPlan, Plan
from kafkalog.recovery.decide.ways import Measured
from kafkalog.recovery.modes.spec import ExaminedSegments
from kafkalog.recovery.modes.table import REPLICA
from kafkalog.words.advice import told
from kafkalog.words.commands import NOTHING_GIVEN, Given
from kafkalog.words.escapes import escape_controls
from kafkalog.words.finding_lines import finding_lines
from kafkalog.words.first_screen import FirstScreen
from kafkalog.words.insides import NOT_EXAMINED
from kafkalog.words.next_step import (
    DONE_NEXT,
    NOTHING_TO_DO,
    NextStep,
    StepKind,
    mends_of,
    of_all_together,
    what_to_type,
)
from kafkalog.words.order import natural_order
from kafkalog.words.outlook import NEEDS_ROOM, Outlook, first_screen

__all__ = ["print_plan", "print_plans"]

_LONG = 160
"""Characters from which on a sentence is said once for all plans."""
_SHOWN = 20
"""Directories and files that move as a whole and are named."""


def _lost(partition: PartitionPlan, counted_lost: Mapping[str, Measured]) -> str:
    """Return text about the offsets that a partition loses. If `counted_lost` (measured losses by partition name) has a
    number of lost records for it, the text is `ranges_text` of the measured ranges; without ranges it is `none`, or
    `unknown` if they were not measured exactly. Otherwise the text has `first-last` (both inclusive) for each range of
    the plan; without ranges it is `unknown` if bytes are cut, else `none`.
    """
    measured = counted_lost.get(partition.name)
    if measured is not None and measured.records_lost is not None:
        return ranges_text(measured.lost) or ("none" if measured.is_exact else "unknown")
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
        fits=True,
    )


def _print_changing(plan: Plan, changing: Sequence[PartitionPlan], *, every: bool) -> None:
    """Print a table of the partitions in `changing` that lose a part of their log or are renamed; with `every`, of all
    partitions in `changing`. An empty table is omitted. If `changing` has partitions that are not in the table, print a
    sentence about these. It counts the partitions, and the files that are rebuilt or set aside in them. Print `no
    partition changes` if `changing` is empty and the plan moves no directories.
    """
    lost = plan.choice.own_by_partition
    listed = [each for each in changing
              if every or each.cut_bytes or each.renamed_to or _lost(each, lost) != "none"]  # fmt: skip
    if listed:
        title = "partitions that change" if every else "partitions that lose a part of their log"
        if not every and any(partition_plan.renamed_to for partition_plan in listed):
            title += " or are renamed"
        _print_partitions(title, listed, lost)
    names = {partition_plan.name for partition_plan in listed}
    rest = [partition_plan for partition_plan in changing if partition_plan.name not in names]
    rebuilt, aside = sum(len(each.rebuilt) for each in rest), sum(len(each.quarantined) for each in rest)
    files = counted(rebuilt, "file") + " rebuilt" + (f", {counted(aside, 'file')} set aside" if aside else "")
    with SentenceWriter() as writer:
        if rest:
            where = counted(len(rest), "more partition" if listed else "partition")
            text = f"{where} of which no log is cut" if listed else f"no log is cut; in {where}"
            writer.write(f"{text}: {files} (--all lists them)")
        elif not (listed or _moves_directories(plan)):
            writer.write("no partition changes")


def _moves_directories(plan: Plan) -> bool:
    """Whether the plan moves whole directories to quarantine."""
    return any(action.kind is ActionKind.REMOVE_DIRECTORY for action in plan.actions)


def _content(away: PutAway) -> str:
    """Return text about a directory that is moved: the number of files in it, at any depth, and their total size; `no
    file in it` if there are none. If a part cannot be listed, the text says so and that the size may be larger. If the
    number of files is unknown, the text is only the size.
    """
    if away.files is None:
        return size_text(away.size)
    if not away.is_whole:
        return f"{counted(away.files, 'file')} and what cannot be listed, {size_text(away.size)} or more"
    return f"{counted(away.files, 'file')}, {size_text(away.size)}" if away.files else "no file in it"


def _write_changes(writer: LineWriter, plan: Plan, changing: Sequence[PartitionPlan]) -> None:
    """Write a line for each of the first `_SHOWN` files or directories that move to quarantine as a whole, and how
    many more there are. Then write the number of changed files and of removed log bytes; this line is left out if
    `changing` is empty and something moves. If the recovery does not examine everything, a note says so.
    """
    away = put_away(plan)
    for each in away[:_SHOWN]:
        writer.write(escape_controls(f"moves to quarantine: {each.path} ({_content(each)})"))
    if len(away) > _SHOWN:
        writer.write(f"moves to quarantine: {len(away) - _SHOWN} more")
    files = sum(action.kind is not ActionKind.REMOVE_DIRECTORY for action in plan.actions)
    cut = sum(partition.cut_bytes for partition in changing)
    if changing or not away:
        writer.write(
            f"{counted(files, 'file')} {'changes' if files == 1 else 'change'} in "
            f"{len(changing)} of {counted(len(plan.partitions), 'partition')}; "
            f"{size_text(cut)} of log go to quarantine"
        )
    if not (plan.mode.spec.resumes or plan.mode.spec.takes_whole_partitions):
        writer.write(NOT_EXAMINED)


def _write_apart(writer: LineWriter, plan: Plan, given: Given, step: NextStep) -> None:
    """Write sentences about the parts of a plan that its tables do not show. These are repairs by other commands, and
    logs whose start is beyond their end. They are also partitions that become `-stray`, are left unchanged or begin
    empty after their remote part. Repairs whose command is one of `step`, which was printed, are omitted. May read the
    metadata log; raises `StorageError` if that fails.
    """
    typed = (what_to_type(plan, given) if step.kind is StepKind.NEXT else step).commands
    for mend in mends_of(plan, given):
        if not set(mend.commands).issubset(typed):
            writer.write(escape_controls(mend.sentence))
    for name in plan.made_stray:
        stray = f"{name} becomes -stray, out of service, and a broker makes an empty partition in its place"
        writer.write(escape_controls(f"{stray}: --topic-id ID keeps it in service, --accept-loss lets it become stray"))
    for sentence in sentences_of_log_starts(plan):
        writer.write(escape_controls(sentence))
    for name, offset in plan.begins.items():
        writer.write(escape_controls(f"{name} begins, empty, at {offset}, after its remote part"))
    for name, why in plan.declined.items():
        writer.write(escape_controls(f"{name} is left as it is: {told(why)}"))


def outlook_of(plan: Plan, given: Given = NOTHING_GIVEN, *, acts: bool = False) -> Outlook:
    """Return the contents of the first screen for one plan. `given` has the options that recommended commands repeat.
    `acts` says that the plan is carried out next. In this case no command is recommended, unless the plan is refused or
    changes nothing. May read the metadata log; raises `StorageError` if that fails.
    """
    is_done_next = acts and plan.changes and plan.refusal is None
    step = DONE_NEXT if is_done_next else what_to_type(plan, given)
    if step == NOTHING_TO_DO:
        step = structs.replace(step, text=f"{step.text}; {NOT_EXAMINED}")
    others = "; other partitions were not examined" if plan.survey.is_partial else ""
    return Outlook(
        root=plan.root,
        forecast=plan.broker,
        choice=plan.choice,
        consequences=plan.consequences,
        names=plan.names,
        made_stray=plan.made_stray,
        others=f"{others}; {NEEDS_ROOM}" if plan.root in given.full else others,
        step=step,
        findings=plan.findings,
        deleted=plan.deleted_partitions,
        beyond_end=plan.deleted_beyond_end,
    )


def title_of(plans: Sequence[Plan]) -> str:
    """Return the first line of the first screen."""
    where = plans[0].root if len(plans) == 1 else f"{len(plans)} log directories"
    return escape_controls(f"plan for {where} in mode {plans[0].mode}")


def print_plans(plans: Sequence[Plan], given: Given = NOTHING_GIVEN, *, every: bool = False,
                problems: Sequence[str] = (), ask_again: str = "", acts: bool = False) -> None:  # fmt: skip
    """Print the verdict on all plans together, then the details of each plan. A single plan without `problems` has the
    verdict in its own screen. Prints nothing if `plans` is empty.

    `given` has the options that recommended commands repeat. With `every` the tables have all partitions that change.
    `problems` are sentences about directories for which there is no plan, `ask_again` the command that asks about all
    of them again. `acts` says that the plans are carried out next. May read metadata logs; raises `StorageError` if
    that fails.
    """
    is_one = len(plans) == 1 and not problems
    given = given if problems else of_all_together(plans, given)
    said = {finding.detail for plan in plans for finding in plan.findings}
    if plans and not is_one:
        outlooks = [outlook_of(each, given, acts=acts) for each in plans]
        screen = first_screen(title_of(plans), outlooks, problems, ask_again)
        screen = screen if acts or problems else _with_replicas(screen, plans)
        print_screen(screen)
        said |= set(screen.commands)
    for plan in plans:
        print_plan(plan, given, every=every, with_screen=is_one, acts=acts, said=said)


def _with_replicas(screen: FirstScreen, plans: Sequence[Plan]) -> FirstScreen:
    """Return the screen with `kafkalog report` as its only command under two conditions; otherwise return it unchanged.
    The plans are of several brokers, all of which start, and one plan recommends to fetch from a replica. The report
    counts what the replicas here have.
    """
    nodes = [plan.node for plan in plans if plan.node is not None]
    ways = [plan.choice.recommended for plan in plans]
    is_one_broker = len({node.node_id for node in nodes}) < 2
    if is_one_broker or not any(way is not None and way.way == REPLICA.name for way in ways):
        return screen
    if any(node.never_starts for node in nodes):  # the commands that mend that are more urgent
        return screen
    command = shell_line(["kafkalog", "report", *(plan.root for plan in plans), "--format", "text", "--output", "-"])
    note = "replicas of several brokers are here: to plan with them as copies of each other, type this:"
    return structs.replace(screen, note=note, notes={}, commands=[command])


def print_plan(plan: Plan, given: Given = NOTHING_GIVEN, *, every: bool = False, with_screen: bool = True,
               acts: bool = False, said: set[str] | None = None) -> None:  # fmt: skip
    """Print the first screen of a plan, then its changes and damage in tables and sentences, then the ways to recover
    (`print_ways`).

    `given` has the options that recommended commands repeat. With `every` the tables have all partitions that change,
    and every finding has a sentence. Without `with_screen` a title is printed in place of the screen. With `acts` the
    plan is carried out next, unless it is refused. `said` has sentences and commands that were already printed, such as
    those of other plans: if it has a long sentence or a recommended command, that is not repeated. The sentences about
    the forecast below the screen, and the commands of the screen, are added to `said`. May read the metadata log;
    raises `StorageError` if that fails.
    """
    changing = sorted((each for each in plan.partitions if each.changes), key=lambda each: natural_order(each.name))
    outlook = outlook_of(plan, given, acts=acts)
    screen = first_screen(title_of([plan]), [outlook])
    told_before = set() if said is None else said
    if with_screen:
        print_screen(screen)
        told_before |= set(screen.commands)
    with SentenceWriter() as writer:
        writer.write("" if with_screen else f"\n{title_of([plan])}")
    _print_changing(plan, changing, every=every)
    with SentenceWriter() as writer:
        for partition in changing:
            if partition.is_cut_below_high_watermark:
                writer.write(escape_controls(_below(partition)))
        for line, _alike in finding_lines(plan.findings, every=every):
            writer.write(escape_controls(line))
        in_full = (*screen.start, *screen.beyond_end, *screen.looks)
        for sentence in screen.left_out(text_width()) if with_screen else in_full:
            is_told = any(sentence in text for text in told_before)
            if not is_told or (len(sentence) < _LONG and not sentence.startswith("and ")):
                writer.write(escape_controls(sentence))
            told_before.add(sentence)
        if plan.topics.problem is not None:
            writer.write(escape_controls(plan.topics.problem))
        elif plan.topics.configs or plan.topics.broker_configs:
            writer.write(escape_controls(f"settings of topics: from {plan.topics.source}"))
        _write_apart(writer, plan, given, outlook.step)
        if plan.note_of_identity is not None:
            writer.write(escape_controls(plan.note_of_identity))
        if plan.deleted is not None:
            writer.write(escape_controls(f"note: {plan.deleted}"))
        damage = sentence_of_damage_left(plan.choice.own)
        if damage is not None:
            may_see_more = plan.mode.spec.examined is ExaminedSegments.AS_ASKED and "--full" not in given.words
            more = "; --full examines segments below the recovery point too" if may_see_more else ""
            writer.write(f"with this plan {damage}{more}")
        if plan.refusal is not None:
            writer.write(escape_controls(f"refused: {told(plan.refusal)}"))
        elif plan.changes:
            _write_changes(writer, plan, changing)
    print_ways(plan, given, every=every, said=told_before, is_note_said=with_screen)
