"""Predict, with the model of the broker and default settings, whether it would start on a log directory in its present
state.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence

from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.headers.header_tables import HeaderTables
from kafkalog.log.directories.workers import Workers
from kafkalog.log.storage.java import as_printed
from kafkalog.recovery.broker.forecast import load_directory
from kafkalog.recovery.broker.identity import with_identity
from kafkalog.recovery.broker.manager import BrokerResult, StartResult
from kafkalog.recovery.broker.start_question import ANYTHING, StartQuestion, findings_for, start_with
from kafkalog.recovery.checks.report import BrokerStart
from kafkalog.recovery.checks.started_over import findings_of_starting_over
from kafkalog.recovery.facts.recovery_request import Rules
from kafkalog.recovery.facts.survey import Survey, survey
from kafkalog.recovery.facts.topic_facts import NO_FACTS, TopicFacts, identity_of
from kafkalog.recovery.facts.unreadable import unpredicted_sentence, unreadable_directories, why_not_predicted

__all__ = ["Loading", "broker_start", "loading", "surveyed"]

Loading = tuple[BrokerResult, BrokerResult] | StorageError
"""Result of loading the logs of a log directory, and the result with `meta.properties` considered; or the error if it
cannot be read.
"""


def surveyed(path: str) -> Survey | StorageError:
    """Survey a log directory for `broker_start`; return the error if it cannot be read."""
    try:
        return survey(path)
    except StorageError as error:
        return error


def broker_start(
    path: str, loadings: Mapping[str, Loading], facts: TopicFacts = NO_FACTS, asked: StartQuestion = ANYTHING
) -> tuple[BrokerStart, list[Finding]]:
    """Predict the start of a broker on the log directory `path`; return the forecast, and the findings about the start.

    `loadings` are the results of `loading` by path for all examined directories, including `path`. `facts` come from
    the broker's metadata log. `asked` has the Kafka release and known properties of the node.

    A failed start, or a directory that goes offline, gives a BROKER_REFUSES finding, unless there are findings about
    the node. A successful start may give findings too. If the operating system fails to read a directory or a file, the
    outcome is None, with one BROKER_REFUSES warning. A `StorageError` without an errno is raised, and `UsageError` for
    a release that is not known.
    """
    try:
        own = loadings[path]
        if isinstance(own, StorageError):
            raise own
        _loaded, result = own
        together = _together(path, facts)
        roots = {os.path.realpath(path), *map(os.path.realpath, together)}
        loaded = {root: each[0] for root, each in loadings.items()
                  if not isinstance(each, StorageError) and os.path.realpath(root) in roots}  # fmt: skip
        node = start_with(path, together, loaded, asked, controllers=facts.controllers, apart=facts.apart)
    except StorageError as error:
        if error.errno is None:
            raise
        detail = unpredicted_sentence(error)
        finding = Finding(FindingCode.BROKER_REFUSES, Severity.WARNING, None, None, detail, path)
        return BrokerStart(outcome=None, exception=None, message=detail), [finding]
    start = BrokerStart(
        outcome=str(result.outcome), exception=result.exception, message=result.message, node=node,
        is_clean=result.clean,
    )  # fmt: skip
    if result.outcome == StartResult.LOADED and node.never_starts:
        last = node.answers[-1]
        start = BrokerStart(
            outcome=str(StartResult.START_FAILS), exception=last.exception, message=last.message, node=node
        )
    findings = findings_for(node, path, together)
    if result.outcome == StartResult.LOADED:
        return start, [*findings, *findings_of_starting_over(path)]
    if findings:
        return start, findings
    end = "not start" if result.outcome == StartResult.START_FAILS else "take the directory offline"
    detail = f"Kafka 4.1 would {end}: {as_printed(result.exception, result.message)}"
    return start, [Finding.of(FindingCode.BROKER_REFUSES, None, None, detail, path)]


def _together(path: str, facts: TopicFacts) -> Sequence[str]:
    """Return the log directories that start together with `path`: all of the broker's directories in `facts`, with
    the lost ones. If neither the metadata log nor a `meta.properties` shows that they belong to one broker, only
    `path`.
    """
    is_known = facts.source is not None or any(identity_of(root) is not None for root in facts.roots)
    return facts.directories if is_known else (path,)


def loading(
    seen: Survey | StorageError, tables: HeaderTables | None = None, *, jobs: int = 1, facts: TopicFacts = NO_FACTS
) -> Loading:
    """Load the logs of a surveyed directory in the model of the broker, with default settings and the current time.
    Nothing on disk is changed.

    Return two results: of the logs alone, and with `meta.properties` taken into account. If a file that a start reads
    cannot be read, return the `StorageError`; also if one was passed as `seen`. Sets `seen.tables` and closes `seen`.
    `tables` has headers of logs that were just read, `jobs` partitions are loaded at a time, and `facts` come from the
    broker's metadata log.
    """
    if isinstance(seen, StorageError):
        return seen
    seen.tables = tables
    rules = Rules(at=time.time_ns() // 1_000_000)
    workers = Workers(jobs)
    try:
        with seen as survey:
            workers.begin("", {path: file_facts.size for path, file_facts in survey.files.items()})
            loaded = load_directory(survey.tree(), rules, workers, keeps_files=False)
            result = with_identity(loaded, survey.tree(), survey.root, facts)
            error = None if result.is_before_logs else why_not_predicted(unreadable_directories(survey))
            return (loaded, result) if error is None else error
    except StorageError as error:
        return error
