"""Section about earlier recoveries, with the command that undoes each."""

from __future__ import annotations

from kafkalog.codec.common.shell import shell_line
from kafkalog.codec.common.wording import counted
from kafkalog.inspect.facts import ReportFacts
from kafkalog.recovery.act.history import RunInfo
from kafkalog.reporting.losses import loss_of_run, records_text
from kafkalog.reporting.markup import Content, code, element, prose, table
from kafkalog.reporting.section import Section, section
from kafkalog.reporting.wording import size_text

__all__ = ["runs_section", "undo_line"]

_MOST = 50


def undo_line(root: str, run: RunInfo) -> str | None:
    """Return the command that undoes an execution; None if it cannot be undone."""
    return shell_line(["kafkalog", "undo", root, "--run", run.run_id]) if run.undoable else None


def _lost(run: RunInfo) -> str:
    if run.lost is None:
        return "not noted"
    return records_text(loss_of_run(run)) if run.lost else "no record"


def runs_section(facts: ReportFacts) -> Section | None:
    """Return the section about earlier recoveries; None if there are none. It shows the newest `_MOST` executions of
    each log directory, oldest first. Each has the command that reverses it, or the reason why it cannot be reversed.
    """
    if not facts.runs:
        return None
    content: list[Content] = []
    total = 0
    for root, run_infos in facts.runs:
        total += len(run_infos)
        rows: list[list[Content]] = []
        for run_info in run_infos[-_MOST:]:
            undo = undo_line(root, run_info)
            steps = ", ".join(f"{kind} {count}" for kind, count in run_info.steps.items())
            rows.append(
                [
                    code(run_info.run_id),
                    run_info.began.partition(".")[0].replace("T", " "),
                    run_info.mode,
                    str(run_info.state),
                    steps,
                    _lost(run_info),
                    size_text(run_info.allocated_bytes),
                    code(undo) if undo else run_info.why_not,
                ]
            )
        columns = ["run", "began (UTC)", "mode", "state", "steps", "lost", "kept on disk", "to undo this"]
        content.append(table(f"Recoveries of {root}", columns, rows))
        if len(run_infos) > _MOST:
            words = f"{len(run_infos) - _MOST:,} earlier runs are left out; `kafkalog runs` lists all."
            content.append(element("p", prose(words)))
    return section("runs", "Earlier recoveries", counted(total, "run"), *content)
