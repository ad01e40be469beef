"""Write the report as plain text for a terminal: the first screen, then what is wrong, in lines of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from msgspec.structs import replace

from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.common.wording import counted
from kafkalog.inspect.facts import Planned, ReportFacts
from kafkalog.reporting.losses import loss_rows
from kafkalog.reporting.recommended import given_in, why_no_plan
from kafkalog.reporting.section_runs import undo_line
from kafkalog.reporting.summary import summary_of
from kafkalog.reporting.verdict import verdict_of
from kafkalog.words.commands import Given, plan_again
from kafkalog.words.escapes import escape_controls
from kafkalog.words.fields import explain_command
from kafkalog.words.finding_lines import finding_lines
from kafkalog.words.first_screen import FirstScreen, paths_text
from kafkalog.words.next_step import what_to_type
from kafkalog.words.outlook import NEEDS_ROOM, Outlook, first_screen
from kafkalog.words.seeking import unread_text
from kafkalog.words.wrapping import REPORT_WIDTH, folded_with_command

__all__ = ["screen_of", "text_of_report"]

_FINDINGS = 50
_RUNS = 10
_LEFT_OUT = 50


def screen_of(facts: ReportFacts) -> FirstScreen:
    """Return the first screen for all directories: a title with the verdict, the outlook of each plan, and a sentence
    for each directory that has no plan or is missing. Raises `StorageError` if a metadata log, which some
    advice needs, cannot be read.
    """
    verdict = verdict_of(facts)
    problems = [f"{each.path}: {why_no_plan(each)}" for each in facts.planned if each.problem is not None]
    missing = (each.finding for each in facts.damages if each.finding.code is FindingCode.LOG_DIRECTORY_MISSING)
    problems += [f"{finding.file}: {finding.detail}" for finding in missing]
    planned = [each for each in facts.planned if each.forecast is not None]
    title = f"{verdict.word}: {paths_text(facts.paths)}"
    given = given_in(facts)
    again = plan_again(facts.paths, given)
    screen = first_screen(title, [_outlook(each, given) for each in planned], problems, again)
    unread = unread_text(facts.findings)
    return replace(screen, lost="; ".join(filter(None, [screen.lost, unread])))


def _outlook(planned: Planned, given: Given) -> Outlook:
    return Outlook(
        root=planned.root,
        forecast=planned.forecast,
        choice=planned.choice,
        consequences=planned.consequences,
        names=planned.names,
        made_stray=planned.made_stray,
        others=f"; {NEEDS_ROOM}" if planned.has_no_room_to_start else "",
        step=what_to_type(planned, given),
        findings=planned.damages,
        deleted=planned.deleted_partitions,
        beyond_end=planned.deleted_beyond_end,
    )


def text_of_report(facts: ReportFacts) -> str:
    """Return the whole report as text, wrapped to `REPORT_WIDTH` columns, with control characters escaped and a newline
    at the end. Commands and long words may be wider. Raises `StorageError` if a metadata log, which some advice needs,
    cannot be read.
    """
    screen = screen_of(facts)
    lines = screen.lines(REPORT_WIDTH)
    for line in _left_out(screen):
        lines += folded_with_command(escape_controls(line), REPORT_WIDTH)
    commands = screen.all_commands(REPORT_WIDTH)
    lines += ["", *commands] if commands else []
    for line in _details(facts):
        lines += folded_with_command(escape_controls(line), REPORT_WIDTH)
    return "\n".join(lines) + "\n"


def _left_out(screen: FirstScreen) -> Iterator[str]:
    sentences = screen.left_out(REPORT_WIDTH)
    if sentences:
        yield from ("", "in full, what is left out above")
    yield from sentences[:_LEFT_OUT]
    if len(sentences) > _LEFT_OUT:
        yield f"{len(sentences) - _LEFT_OUT} more: kafkalog plan names them"


def _details(facts: ReportFacts) -> Iterator[str]:
    yield ""
    yield verdict_of(facts).sentence
    yield from (f"{name}: {sentence}" for name, sentence in summary_of(facts))
    losses = loss_rows(facts)
    if losses:
        yield from ("", "lost records")
        for row in losses:
            yield f"  {row.sentence}"
    if facts.findings:
        yield from ("", "findings")
    left = len(facts.findings)
    for line, alike in islice(finding_lines(damage.finding for damage in facts.damages), _FINDINGS):
        yield line
        left -= len(alike)
        command = explain_command(alike[0])
        if command is not None:
            yield f"  {command}"
    if left > 0:
        yield f"{counted(left, 'more finding')}: kafkalog verify lists all"
    runs = [(root, run) for root, run_infos in facts.runs for run in run_infos]
    if runs:
        yield from ("", "earlier recoveries, the newest last")
    for root, run in runs[-_RUNS:]:
        undo = undo_line(root, run)
        yield f"run {run.run_id} ({run.state}){'' if undo is not None else f': {run.why_not}'}"
        if undo is not None:
            yield f"  {undo}"
