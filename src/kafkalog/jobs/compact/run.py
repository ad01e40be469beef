"""The public calls for compaction: plan it, do it under the lock with journal and quarantine, do it to a copy."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from kafkalog.classes import dataclass
from kafkalog.codec.errors import StorageError
from kafkalog.jobs.compact.cleaning import Compaction, CompactionRules, plan_directory
from kafkalog.log.directories.selection import ALL, Selection
from kafkalog.log.directories.workers import OnProgress, Workers
from kafkalog.log.disk.files import PathLike, scan_directory
from kafkalog.recovery.act.job import Job, carry_out, execute, keeping_in
from kafkalog.recovery.act.runner import CompletedRuns
from kafkalog.recovery.act.transaction import Keeping, Transaction
from kafkalog.recovery.act.working_copy import copy_for
from kafkalog.recovery.decide.refusals import refuse_unsafe
from kafkalog.recovery.facts.brokers import facts_of_each
from kafkalog.recovery.facts.cleaner_settings import CleanerConfig
from kafkalog.recovery.facts.places import (
    by_log_directory,
    chosen_directories,
    log_directories,
    root_of,
)
from kafkalog.recovery.facts.scratch import Scratch
from kafkalog.recovery.facts.survey import Survey, survey
from kafkalog.recovery.facts.topic_facts import TopicFacts
from kafkalog.recovery.facts.unreadable import around_unreadable

__all__ = ["CompactionResult", "compact", "compact_all", "plan_compaction"]


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """What a compaction did; `run_id` is None if there was nothing to do."""

    done: Compaction
    run_id: str | None
    quarantine: str | None
    earlier: CompletedRuns = field(default_factory=CompletedRuns)

    @property
    def changed(self) -> bool:
        """Whether the directory was changed."""
        return self.run_id is not None or bool(self.earlier.completed)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            **self.done.as_dict(),
            "changed": self.changed,
            "run_id": self.run_id,
            "quarantine": self.quarantine,
            "completed_runs": list(self.earlier.completed),
            "superseded_runs": dict(self.earlier.superseded),
        }


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is asked for."""

    config: Mapping[str, str]
    at: int | None
    select: Selection
    lacking: Mapping[str, StorageError] = field(default_factory=dict)

    def rules(self, topics: TopicFacts) -> CompactionRules:
        CleanerConfig.from_names(self.config)
        now = time.time_ns() // 1_000_000 if self.at is None else self.at
        return CompactionRules(topics=topics, now_ms=now, config=self.config)


def plan_compaction(
    path: PathLike,
    *,
    config: Mapping[str, str] | None = None,
    at: int | None = None,
    select: Selection = ALL,
    also: Sequence[PathLike] = (),
    beside: Sequence[PathLike] = (),
    jobs: int = 1,
    on_progress: OnProgress | None = None,
) -> Compaction:
    """What `compact` would do; only reads.  Arguments and errors are those of `compact`.

    The survey keeps files open; `survey.close()` closes them.

    * `path`: the log directory
    * `config`: settings under Kafka's names
    * `at`: the time in ms to treat as now
    * `select`: the topic-partitions to take; all of them without it
    * `also`: more partition directories of the same log directory
    * `beside`: other log directories; those of the same broker may hold its metadata log
    * `jobs`: how many partitions are cleaned at a time, each in its own process
    * `on_progress`: called with a `ProgressState` now and then
    """
    wanted = _Wanted(config or {}, at, select)
    root, only = chosen_directories([path, *also], wanted.select)
    facts = facts_of_each([root, *(root_of(each)[0] for each in log_directories(beside))])[root]
    made = _plan(root, only, wanted, facts, Workers(jobs, on_progress))
    made.survey.close()
    return made


def compact(
    path: PathLike,
    *,
    config: Mapping[str, str] | None = None,
    at: int | None = None,
    select: Selection = ALL,
    into: PathLike | None = None,
    quarantine: PathLike | None = None,
    expected: Compaction | None = None,
    jobs: int = 1,
    on_progress: OnProgress | None = None,
    on_plan: Callable[[Compaction], None] | None = None,
) -> CompactionResult:
    """One pass of the broker's log cleaner over each compacted partition of a log directory.

    The result is what a broker leaves after its delayed deletions (`LogCleaner`).  The settings of the topics in the
    directory's metadata log decide which topics are compacted, and how; otherwise `config` does, with Kafka's names for
    topics or brokers, otherwise Kafka's defaults.  `at` is the time in ms to treat as now.  A path may
    also be one partition directory.  The log end counts as the high
    watermark, unless `replication-offset-checkpoint` has a lower one.  With `into` a copy in that directory, new or
    empty, is compacted instead of the original.  `quarantine` is where the old files are kept, for `undo`; `expected`
    is an earlier plan: if the directory has changed since, nothing is done.

    A partition that is damaged, or that a broker's start would change, is left
    as it is and named in the result's `done.declined`; one that a broker would give up on is left as the broker leaves
    it, and has a `problem`.  Raises `UsageError` for an impossible path or setting, `StorageError` for I/O, and
    `RecoveryRefused`, with nothing changed, if nothing can be done or a run was cut short.

    * `path`: the log directory
    * `select`: the topic-partitions to take; all of them without it
    * `jobs`: how many partitions are cleaned at a time, each in its own process
    * `on_progress`: called with a `ProgressState` now and then
    * `on_plan`: called with the plan before anything is changed
    """
    wanted = _Wanted(config or {}, at, select)
    if into is None:
        return _compact([path], wanted, quarantine, [expected], Workers(jobs, on_progress), on_plan)[0]

    def in_copy(destination: str, lacking: Mapping[str, StorageError]) -> CompactionResult:
        workers = Workers(jobs, on_progress)
        return _compact([destination], replace(wanted, lacking=lacking), quarantine, [None], workers, on_plan)[0]

    return copy_for(path, into, in_copy)


def compact_all(
    paths: Sequence[PathLike],
    *,
    config: Mapping[str, str] | None = None,
    at: int | None = None,
    select: Selection = ALL,
    quarantine: PathLike | None = None,
    expected: Sequence[Compaction | None] | None = None,
    jobs: int = 1,
    on_progress: OnProgress | None = None,
    on_plan: Callable[[Compaction], None] | None = None,
) -> list[CompactionResult]:
    """Compact several log directories, as `compact` does one.

    All locks are taken first, and a refusal changes none of them.

    The metadata log of a broker counts for all its directories.  Results and `expected` plans are those of
    `by_log_directory`.

    * `paths`: log directories, their parents, or partition directories
    * `config`: settings under Kafka's names
    * `at`: the time in ms to treat as now
    * `select`: the topic-partitions to take; all of them without it
    * `quarantine`: where the old files are kept, if not beside each directory
    * `expected`: earlier plans, one for each directory: if one has changed since, nothing is done
    * `jobs`: how many partitions are cleaned at a time, each in its own process
    * `on_progress`: called with a `ProgressState` now and then
    * `on_plan`: called with each plan before anything is changed
    """
    workers = Workers(jobs, on_progress)
    return _compact(paths, _Wanted(config or {}, at, select), quarantine, expected, workers, on_plan)


def _compact(
    paths: Sequence[PathLike],
    wanted: _Wanted,
    quarantine: PathLike | None,
    expected: Sequence[Compaction | None] | None,
    workers: Workers,
    on_plan: Callable[[Compaction], None] | None,
) -> list[CompactionResult]:
    CleanerConfig.from_names(wanted.config)
    places = [chosen_directories(each, wanted.select) for each in by_log_directory(log_directories(paths))]
    agreed = [None] * len(places) if expected is None else expected
    plans = dict(zip([root for root, _only in places], agreed, strict=True))
    return carry_out(_CompactionJob(places, wanted, keeping_in(quarantine), plans, workers, on_plan))


class _CompactionJob(Job[Compaction, CompactionResult]):
    def __init__(
        self,
        places: Sequence[tuple[str, frozenset[str] | None]],
        wanted: _Wanted,
        keeping: Keeping,
        expected: Mapping[str, Compaction | None],
        workers: Workers,
        on_plan: Callable[[Compaction], None] | None,
    ) -> None:
        super().__init__([root for root, _only in places], keeping)
        self._only = dict(places)
        self._wanted = wanted
        self._expected = expected
        self._workers = workers
        self._on_plan = on_plan
        self._facts: Mapping[str, TopicFacts] = {}

    def prepare(self, opened: Mapping[str, Transaction]) -> None:
        self._facts = facts_of_each(self.roots)

    def plan(self, opened: Transaction) -> Compaction:
        root = opened.root
        made = _plan(root, self._only[root], self._wanted, self._facts[root], self._workers)
        self.files.callback(made.survey.close)
        return made

    def changes(self, planned: Compaction) -> Compaction:
        return planned

    def agreed(self, root: str) -> Survey | None:
        expected = self._expected.get(root)
        return None if expected is None else expected.survey

    def describe(self, planned: Compaction) -> None:
        if self._on_plan is not None:
            self._on_plan(planned)

    def act(self, opened: Transaction, planned: Compaction) -> CompactionResult:
        root = opened.root
        done = execute(
            opened, planned, lambda: survey(root, only=self._only[root], tolerant=True), workers=self._workers
        )
        return CompactionResult(planned, done.run_id, done.quarantine, done.earlier)


def _plan(root: str, only: frozenset[str] | None, wanted: _Wanted, facts: TopicFacts, workers: Workers) -> Compaction:
    rules = wanted.rules(facts)
    names = [entry.name for entry in scan_directory(root) if entry.is_dir(follow_symlinks=False)]
    found = survey(root, only=only, on_read=workers.read, tolerant=True)
    found.scratch = Scratch()

    def make(readable: Survey, at_work: Workers) -> Compaction:
        made = plan_directory(readable, names, rules, at_work)
        refuse_unsafe(readable, made.actions, readable.tree())
        return made

    try:
        return around_unreadable(found.without(wanted.lacking), make, workers)
    except BaseException:
        found.close()
        raise
