"""Section about earlier recoveries, with the command that undoes each."""

from __future__ import annotations

from kafkalog.codec.common.shell import shell_line
from kafkalog.codec.wording import counted
from kafkalog.inspect.facts import ReportFacts
from kafkalog.recovery.act.history import RunInfo
from kafkalog.reporting.losses import loss_of_run, records_text
from kafkalog.reporting.markup import Content, code, element, prose, table
from kafkalog.reporting.section import Section, section
from kafkalog.reporting.wording import size_text

__all__ = ["runs_section", "undo_line"]

_MOST = 50


def undo_line(root: str, run: RunInfo) -> str | None:
    """Command that undoes a run; None if it cannot be undone."""
    return shell_line(["kafkalog", "undo", root, "--run", run.run_id]) if run.undoable else None


def _lost(run: RunInfo) -> str:
    if run.lost is None:
        return "not noted"
    return records_text(loss_of_run(run)) if run.lost else "no record"


def runs_section(facts: ReportFacts) -> Section | None:
    """Section about earlier runs; None if no recovery has left anything."""
    if not facts.runs:
        return None
    content: list[Content] = []
    total = 0
    for root, found in facts.runs:
        total += len(found)
        rows: list[list[Content]] = []
        for each in found[-_MOST:]:
            undo = undo_line(root, each)
            steps = ", ".join(f"{kind} {count}" for kind, count in each.steps.items())
            rows.append(
                [
                    code(each.run_id),
                    each.began.partition(".")[0].replace("T", " "),
                    each.mode,
                    str(each.state),
                    steps,
                    _lost(each),
                    size_text(each.allocated_bytes),
                    code(undo) if undo else each.why_not,
                ]
            )
        columns = ["run", "began (UTC)", "mode", "state", "steps", "lost", "kept on disk", "to undo this"]
        content.append(table(f"Recoveries of {root}", columns, rows))
        if len(found) > _MOST:
            words = f"{len(found) - _MOST:,} earlier runs are left out; `kafkalog runs` lists all."
            content.append(element("p", prose(words)))
    return section("runs", "Earlier recoveries", counted(total, "run"), *content)
