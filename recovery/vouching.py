"""Verify whether a clean-shutdown marker would be true. A broker that finds the marker scans no log
(`LogManager.loadLogs`).

This is the only such check, for every recovery that writes a marker; it examines the files as they are on disk.
"""

from __future__ import annotations

from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.files.text import NEW_CLEAN_SHUTDOWN, encode_clean_shutdown
from kafkalog.codec.names import CLEAN_SHUTDOWN_FILE
from kafkalog.log.directories.workers import Workers
from kafkalog.log.storage.java import as_printed
from kafkalog.recovery.broker.forecast import load_directory
from kafkalog.recovery.checks.verify import verify
from kafkalog.recovery.decide.actions import difference
from kafkalog.recovery.decide.plan import Plan
from kafkalog.recovery.facts.recovery_request import Rules
from kafkalog.recovery.facts.survey import Survey

__all__ = ["why_not_clean"]


def why_not_clean(survey: Survey, again: Plan, rules: Rules, workers: Workers) -> str | None:
    """Reason why a clean-shutdown marker may not be written for the surveyed directory; None if it may. `again` is a
    plan for the whole directory, made with all files examined; `rules` are settled. Reads every file again, and
    simulates a broker's start. Raises `StorageError` if a file cannot be read.
    """
    return _of_plan(again) or _of_trust(survey, rules, workers) or _of_verify(survey)


def _of_plan(again: Plan) -> str | None:
    if again.refusal is not None:
        return f"the second verification refused: {again.refusal}"
    if again.declined:
        return f"the second verification refused: {next(iter(again.declined.values()))}"
    if again.changes:
        first = again.actions[0]
        return f"the second verification would change something: {first.kind} {first.path}"
    return None


def _of_trust(survey: Survey, rules: Rules, workers: Workers) -> str | None:
    """Simulate a start on the surveyed directory with a clean-shutdown marker, in memory. Return a sentence if the
    broker would not start or would change something; it names the first change. Return None if it starts and changes
    nothing. Raises `StorageError` if a file cannot be read.
    """
    tree = survey.tree()
    tree.write(CLEAN_SHUTDOWN_FILE, encode_clean_shutdown(NEW_CLEAN_SHUTDOWN))
    started = load_directory(tree, rules, workers)
    if not started.is_loaded:
        return f"a broker that finds a marker would not start: {as_printed(started.exception, started.message)}"
    changed = difference(survey, started.tree)
    if changed:
        return f"a broker that finds a marker would change something: {changed[0].kind} {changed[0].path}"
    return None


def _of_verify(survey: Survey) -> str | None:
    """Return a clause about the first error that `verify` reports on the files on disk; None if there is none. Findings
    that predict the broker's start are ignored: it was checked before, with the user's settings. Raises `StorageError`
    as `verify` does.
    """
    for finding in verify(survey.root).findings:
        if finding.severity is Severity.ERROR and finding.code is not FindingCode.BROKER_REFUSES:
            return f"`verify` reports {_told(finding)}"
    return None


def _told(finding: Finding) -> str:
    return f"{finding.code} in {finding.file}: {finding.detail}"
