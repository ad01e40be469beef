"""Whether a broker would start on a log directory as it is: asked of the model of the broker, with default settings."""

from __future__ import annotations

import time

from kafkalog.codec.errors import StorageError
from kafkalog.codec.findings import Finding, FindingCode, Severity
from kafkalog.codec.headers.header_tables import HeaderTables
from kafkalog.log.directories.directory import LogDir
from kafkalog.recovery.broker.forecast import load_directory
from kafkalog.recovery.broker.identity import with_identity
from kafkalog.recovery.broker.manager import Outcome
from kafkalog.recovery.checks.report import BrokerStart
from kafkalog.recovery.facts.rules import Rules
from kafkalog.recovery.facts.survey import survey
from kafkalog.recovery.facts.topic_facts import NO_FACTS, TopicFacts
from kafkalog.recovery.facts.workers import Workers

__all__ = ["broker_start"]


def broker_start(
    log_dir: LogDir, tables: HeaderTables | None = None, *, jobs: int = 1, facts: TopicFacts = NO_FACTS
) -> tuple[BrokerStart, list[Finding]]:
    """Whether a broker would start on the directory, with default settings; `tables` of logs that were just read.

    `jobs` partitions are loaded at a time; `facts` are what the broker's metadata log says.
    """
    rules = Rules(at=time.time_ns() // 1_000_000)
    workers = Workers(jobs)
    try:
        with survey(log_dir.path, tables=tables) as found:
            workers.begin("", {path: facts.size for path, facts in found.files.items()})
            loaded = load_directory(found.tree(), rules, workers, keeps_files=False)
            result = with_identity(loaded, found.tree(), found.root, facts)
    except StorageError as error:
        if error.errno is None:
            raise
        detail = f"the broker's start could not be predicted: {error.strerror}"
        finding = Finding(FindingCode.BROKER_REFUSES, Severity.WARNING, None, None, detail, log_dir.path)
        return BrokerStart(None, None, detail), [finding]
    start = BrokerStart(str(result.outcome), result.exception, result.message)
    if result.outcome == Outcome.LOADED:
        return start, []
    end = "not start" if result.outcome == Outcome.START_FAILS else "take the directory offline"
    detail = f"Kafka 4.1 would {end}: {result.exception}: {result.message}"
    return start, [Finding(FindingCode.BROKER_REFUSES, Severity.ERROR, None, None, detail, log_dir.path)]
