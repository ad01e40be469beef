"""The report as Markdown for a chat channel: verdict, losses, what to do, and evidence; at most 80 lines, with details
folded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kafkalog.codec.common.finding_codes import advice_for
from kafkalog.codec.common.wording import counted, first_of
from kafkalog.inspect.facts import Planned, ReportFacts
from kafkalog.recovery.decide.choice import ranges_text
from kafkalog.reporting.losses import loss_rows
from kafkalog.reporting.recommended import given_in, why_no_plan
from kafkalog.reporting.section_comparison import standing_of
from kafkalog.reporting.section_runs import undo_line
from kafkalog.reporting.section_ways import forecast_text, kept_text, lost_text
from kafkalog.reporting.summary import summary_of
from kafkalog.reporting.text import screen_of
from kafkalog.reporting.verdict import verdict_of
from kafkalog.reporting.wording import records_counted, seconds_text, size_text
from kafkalog.words.advice import told
from kafkalog.words.commands import Given
from kafkalog.words.escapes import escape_controls
from kafkalog.words.fields import explain_command
from kafkalog.words.next_step import NextStep, what_to_type
from kafkalog.words.ways import label_of, needs_of, needs_text
from kafkalog.words.wrapping import REPORT_WIDTH

__all__ = ["markdown_of"]

_FINDINGS = 5
_COMMANDS = 2
_HEIGHT = 15
"""Lines of the first screen here: its losses are shortened, because the table of lost records follows."""
_DIRECTORIES = 3
_COPIES = 8
_RUNS = 3
_FOLDED = 10
_LOSSES = 8
_MARKS = re.compile(r"([\\`*_{}\[\]()<>#+\-!|~&])")
_CELL = 200


def _text(text: str) -> str:
    """Escape text from data, so that it cannot act as markup, a mention or the end of a table cell."""
    marked = _MARKS.sub(r"\\\1", escape_controls(text)).replace("@", "@\u200b")
    return re.sub(r"(?i)\b(www)\.", r"\1\\.", marked.replace("://", "\\://"))


def _code_in_cell(text: str) -> str:
    """Format data as code in a table, where a bar would end the cell."""
    return _code(text).replace("|", "\\|")


def _code(text: str) -> str:
    """Return `text` as inline code in Markdown, with control characters escaped. It is enclosed in one more backtick
    than the longest run of backticks in it. If it begins or ends with a backtick, a space is added on both sides.
    """
    plain = escape_controls(text)
    longest = max((len(ticks) for ticks in re.findall("`+", plain)), default=0)
    fence = "`" * (longest + 1)
    space = " " if plain.startswith("`") or plain.endswith("`") else ""
    return f"{fence}{space}{plain}{space}{fence}"


def _cut(text: str) -> str:
    return text if len(text) <= _CELL else f"{text[: _CELL - 1]}…"


def markdown_of(facts: ReportFacts) -> str:
    """Return the report as Markdown, with a newline at the end. Raises `StorageError` if a metadata log, which some
    advice needs, cannot be read.
    """
    return "\n".join(_lines(facts)) + "\n"


def _lines(facts: ReportFacts) -> Iterator[str]:
    verdict, examined = verdict_of(facts), facts.examined
    yield f"## Kafka log report: {_text(verdict.word)}"
    yield ""
    yield f"**{_text(verdict.sentence)}** Exit code {int(verdict.code)}: {verdict.meaning}."
    yield ""
    if facts.planned:
        screen = screen_of(facts)
        yield "```text"
        yield from (line.replace("```", "'''") for line in screen.lines(REPORT_WIDTH, _HEIGHT))
        yield "```"
        left_out = [*map(_text, screen.left_out(REPORT_WIDTH))]
        if left_out:
            more = f"; {len(left_out) - _FOLDED} more: `kafkalog plan` names them" if len(left_out) > _FOLDED else ""
            yield f"In full: {'; '.join(left_out[:_FOLDED])}{more}."
        commands = screen.all_commands(REPORT_WIDTH)
        if commands:
            yield from ("", "```text", *(line.replace("```", "'''") for line in commands), "```")
        yield ""
    yield from (f"- {_text(name)}: {_text(_cut(sentence))}" for name, sentence in summary_of(facts)[:_FOLDED])
    yield ""
    paths = first_of([_code(path) for path in facts.paths], _FOLDED)
    yield (
        f"{paths}: {counted(len(examined.partitions), 'partition')}, {counted(examined.segments, 'segment')}, "
        f"{size_text(examined.size)}, {records_counted(facts)}; {seconds_text(facts.made_at)}, kafkalog "
        f"{facts.version}."
    )
    yield from _losses(facts)
    given = given_in(facts)
    for planned in _worth_it(facts.planned)[:_DIRECTORIES]:
        yield from _ways(planned, given, is_one_of_several=len(facts.planned) > 1)
    left = len(_worth_it(facts.planned)) - _DIRECTORIES
    if left > 0:
        yield ""
        yield f"{counted(left, 'more log directory')} left out here."
    yield from _damage(facts)
    yield from _copies(facts)
    yield from _runs(facts)


def _losses(facts: ReportFacts) -> Iterator[str]:
    rows = loss_rows(facts)
    if not rows:
        return
    yield ""
    yield "### Lost records"
    yield ""
    has_eye = any(each.by_eye for each in rows)
    eye = " can be shown by `explain --records` |" if has_eye else ""
    yield f"| topic-partition | lost permanently | lost by a simple start | written |{eye}"
    yield f"|---|---|---|---|{'---:|' if has_eye else ''}"
    for row in rows[:_LOSSES]:
        cells = [row.partition, row.permanently, row.by_start, row.written, *([row.by_eye] if has_eye else [])]
        yield f"| {' | '.join(_text(_cut(cell)) for cell in cells)} |"
    if len(rows) > _LOSSES:
        yield ""
        yield f"{counted(len(rows) - _LOSSES, 'more row')}: the page has them."


def _damage(facts: ReportFacts) -> Iterator[str]:
    if not facts.findings:
        return
    yield ""
    yield "### Damage"
    yield ""
    yield "| severity | code | place | offsets and times | what |"
    yield "|---|---|---|---|---|"
    for damage in facts.damages[:_FINDINGS]:
        finding = damage.finding
        place = "" if finding.file is None else _code_in_cell(finding.file)
        at = "" if finding.position is None else f" byte {finding.position}"
        when = _text(", ".join(finding.offsets_and_times))
        yield f"| {finding.severity} | `{finding.code}` | {place}{at} | {when} | {_text(_cut(finding.detail))} |"
    left = len(facts.findings) - min(_FINDINGS, len(facts.damages))
    if left > 0:
        yield ""
        yield f"{counted(left, 'more finding')}: `kafkalog verify` lists all."
    advice: dict[str, dict[str, None]] = {}
    for damage in facts.damages:
        advice.setdefault(advice_for(damage.finding.code), {})[f"`{damage.finding.code}`"] = None
    yield ""
    yield "<details><summary>What to do about each</summary>"
    yield ""
    for words, codes in list(advice.items())[:_FOLDED]:
        yield f"- {', '.join(codes)}: {words}"
    commands = dict.fromkeys(explain_command(damage.finding) for damage in facts.damages[:_FINDINGS])
    shown = [_code(command) for command in commands if command is not None]
    yield from (f"- every byte there: {command}" for command in shown[:_COMMANDS])
    yield ""
    yield "</details>"


def _worth_it(planned: Sequence[Planned]) -> list[Planned]:
    return [each for each in planned if each.is_worth_a_look]


def _ways(planned: Planned, given: Given, *, is_one_of_several: bool) -> Iterator[str]:
    """Yield Markdown lines about the ways to recover one log directory: a heading, the outcome of Kafka's start, the
    reason if recovery is refused, and the recommended command. A table of the ways comes before the command if one of
    them loses something or may. If no plan could be made, yield only the heading and the reason.

    `given` has the options that the command repeats. If this is the only directory (`is_one_of_several` is False), the
    report's first screen already has the command and the outcome. The command is then left out, and the outcome too if
    there is a table. Raises `StorageError` while iterating if a metadata log that must be read for the command cannot
    be.
    """
    forecast = planned.forecast
    yield ""
    yield f"### What to do: {_code(planned.path)}"
    yield ""
    if forecast is None:
        yield f"No plan could be made: {_text(_cut(why_no_plan(planned)))}."
        return
    if is_one_of_several or not planned.is_choice:
        yield f"{_text(forecast_text(forecast, planned.choice.kafka_by_partition.values()))}."
    if planned.refusal is not None:
        yield ""
        yield f"Recovery declines: {_text(_cut(told(planned.refusal)))}."
    if planned.is_choice:
        if is_one_of_several or planned.refusal is not None:
            yield ""
        yield "| way | keeps | loses | offsets lost | needs |"
        yield "|---|---:|---:|---|---|"
        for way in planned.choice.ways:
            name = f"**{label_of(way)}** (recommended)" if way is planned.choice.recommended else label_of(way)
            lost = "unknown" if way.measured.records_lost is None else ranges_text(way.measured.lost) or "none"
            needs = _code_in_cell(needs_text(way)) if needs_of(way) else "nothing"
            name = name.replace("_", "\\_")
            yield (
                f"| {name} | {kept_text(way.measured)} | {lost_text(way.measured)} | {_text(_cut(lost))} | {needs} |"
            )
    step = what_to_type(planned, given) if is_one_of_several else NextStep()
    if step.commands:
        yield ""
        yield _text(step.note)
        yield ""
        yield "```console"
        yield from (f"$ {escape_controls(line)}" for line in step.commands)
        yield "```"


def _copies(facts: ReportFacts) -> Iterator[str]:
    found = facts.comparison
    if found is None:
        return
    differing = [partition for partition in found.partitions if len(partition.copies) > 1 and not partition.is_clean]
    yield ""
    yield f"### Copies: {len(differing):,} of {counted(len(found.partitions), 'partition')} not equal and complete"
    if not differing:
        return
    yield ""
    yield "<details><summary>Which</summary>"
    yield ""
    for comparison in differing[:_COPIES]:
        told = "; ".join(f"{comparison.label(copy)}: {standing_of(comparison, copy)}" for copy in comparison.copies)
        yield f"- {_code(f'{comparison.topic}-{comparison.partition}')}: {_text(told)}"
    if len(differing) > _COPIES:
        yield f"- and {len(differing) - _COPIES:,} more: `kafkalog compare` lists all"
    yield ""
    yield "</details>"


def _runs(facts: ReportFacts) -> Iterator[str]:
    runs = [(root, run) for root, run_infos in facts.runs for run in run_infos]
    if not runs:
        return
    yield ""
    yield f"### Earlier recoveries: {counted(len(runs), 'run')}"
    yield ""
    for root, run in runs[-_RUNS:]:
        undo = undo_line(root, run)
        how = _code(undo) if undo is not None else _text(run.why_not or "it cannot be undone")
        yield f"- {run.run_id} ({run.state}): {how}"
