"""Public calls for compaction: plan it, carry it out under the lock with journal and quarantine, or do it on a copy."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import msgspec
from msgspec import Struct

from kafkalog.codec.common.arguments import Count
from kafkalog.codec.common.errors import StorageError, UsageError
from kafkalog.jobs.compact.cleaning import CompactionPlan, CompactionRules, plan_directory
from kafkalog.jobs.compact.request import Compaction
from kafkalog.log.directories.workers import OnProgress, Workers
from kafkalog.log.disk.files import PathLike, refuse_no_path, scan_directory
from kafkalog.recovery.act.job import Job, by_root, carry_out, execute, keeping_in
from kafkalog.recovery.act.runner import CompletedRuns
from kafkalog.recovery.act.transaction import Transaction, refuse_unfinished
from kafkalog.recovery.act.working_copy import copy_for
from kafkalog.recovery.decide.refusals import refuse_unsafe
from kafkalog.recovery.facts.brokers import facts_of_each
from kafkalog.recovery.facts.cleaner_settings import CleanerConfig
from kafkalog.recovery.facts.places import (
    by_log_directory,
    chosen_directories,
    holding,
    log_directories,
)
from kafkalog.recovery.facts.scratch import Scratch
from kafkalog.recovery.facts.survey import Survey, survey
from kafkalog.recovery.facts.topic_facts import TopicFacts
from kafkalog.recovery.facts.unreadable import around_unreadable

__all__ = ["CompactionResult", "compact", "compact_into", "plan_compaction"]


class CompactionResult(Struct, frozen=True, kw_only=True):
    """Result of a compaction; `run_id` is None if there was nothing to do."""

    done: CompactionPlan
    run_id: str | None
    quarantine: str | None
    earlier: CompletedRuns = msgspec.field(default_factory=CompletedRuns)

    @property
    def changed(self) -> bool:
        """Whether the directory was changed."""
        return self.run_id is not None or bool(self.earlier.completed)


def _asked(request: Compaction | PathLike, paths: Sequence[PathLike]) -> tuple[Compaction, Sequence[PathLike]]:
    return (request, paths) if isinstance(request, Compaction) else (Compaction(), [request, *paths])


def plan_compaction(
    request: Compaction | PathLike, *paths: PathLike, jobs: Count = 1, on_progress: OnProgress | None = None
) -> list[CompactionPlan]:
    """Plan the compaction that `compact` would perform; return one plan per log directory, in order. Reads only.

    A partition that cannot be read is in the plan's `declined`. Raises `UsageError` for an impossible path or setting.
    Raises `UnknownName` if a log directory has no selected partition (`UsageError` if all are excluded). Raises
    `StorageError` if the log directory cannot be read. Raises `RecoveryRefused` if a checkpoint cannot be parsed, a
    file is not safe to change, or an execution was interrupted.

    * `request`: may be left out for the defaults
    * `paths`: log directories, their parents, or partition directories
    * `jobs`: how many partitions are cleaned at a time, each in its own process
    * `on_progress`: called with a `ProgressState` now and then
    """
    wanted, named = _asked(request, paths)
    CleanerConfig.from_names(wanted.config)
    holding(named, wanted.select)
    places = [chosen_directories(group, wanted.select) for group in by_log_directory(log_directories(named))]
    facts = facts_of_each([root for root, _only in places])
    refuse_unfinished([root for root, _only in places], keeping_in(wanted.quarantine))
    plans = []
    for root, only in places:
        planned = _plan(root, only, wanted, {}, facts[root], Workers(jobs, on_progress))
        planned.survey.close()
        plans.append(planned)
    return plans


def compact(
    request: Compaction | PathLike,
    *paths: PathLike,
    expected: Sequence[CompactionPlan | None] | None = None,
    jobs: Count = 1,
    on_progress: OnProgress | None = None,
    on_plan: Callable[[CompactionPlan], None] | None = None,
) -> list[CompactionResult]:
    """Run one pass of the broker's log cleaner over each compacted partition; return a result for each log directory,
    in order.

    The result is the directory that a broker has after its delayed deletions (`LogCleaner`). The topics' settings
    decide which topics are compacted, and how. They are read from the metadata log, which may be in any directory of
    the broker; a setting that is missing there comes from `config`, else from Kafka's defaults. The log end counts as
    the high watermark, unless `replication-offset-checkpoint` has a lower one.

    All locks are acquired first, and a refused plan changes no directory. If changing a later directory fails, those
    before it stay changed, and the error names them. A partition that is damaged or cannot be read, or that a broker's
    start would change, is left unchanged and named in the result's `done.declined`. A partition at which a broker's
    cleaner would fail is left as that broker leaves it, and has a `problem`.

    Raises `UsageError` for an impossible path or setting. Raises `UnknownName` if a log directory has no selected
    partition (`UsageError` if all are excluded). Raises `StorageError` if a log directory cannot be read or written.
    Raises `RecoveryRefused` if a plan cannot be made or carried out, or an execution was interrupted.

    * `request`: may be left out for the defaults
    * `paths`: log directories, their parents, or partition directories
    * `expected`: an earlier plan for each log directory: nothing is done if one has changed since, or if the plan is
      for another request; `quarantine` may differ
    * `jobs`: how many partitions are cleaned at a time, each in its own process
    * `on_progress`: called with a `ProgressState` now and then
    * `on_plan`: called with each plan before anything is changed; an exception that it raises declines them all
    """
    wanted, named = _asked(request, paths)
    return _compact(named, wanted, {}, expected, Workers(jobs, on_progress), on_plan)


def compact_into(
    request: Compaction | PathLike,
    *paths: PathLike,
    target: PathLike,
    jobs: Count = 1,
    on_progress: OnProgress | None = None,
    on_plan: Callable[[CompactionPlan], None] | None = None,
) -> CompactionResult:
    """Copy a log directory to `target`, which must be new or empty, and compact the copy as `compact` does. Return the
    result for the copy. Directories that cannot be read, or have links or special files in them, are not copied.

    Raises `UsageError` if `paths` is not exactly one log directory, for an unsuitable `target` or an impossible
    setting. Raises `UnknownName` if no partition is selected (`UsageError` if all are excluded). Raises
    `RecoveryRefused` as `compact` does, and if the source directly contains special files or links or is nested too
    deep. Raises `StorageError` if a file cannot be copied, read or written. After an error the copy is removed, unless
    an execution on it was interrupted.

    * `request`: may be left out for the defaults
    * `paths`: one log directory
    * `target`: the directory of the copy
    * `jobs`: how many partitions are cleaned at a time, each in its own process
    * `on_progress`: called with a `ProgressState` now and then
    * `on_plan`: called with the plan before the copy is changed; an exception that it raises declines the plan
    """
    wanted, named = _asked(request, paths)
    refuse_no_path(named)
    path, *others = named
    if others:
        raise UsageError(f"one log directory is compacted into {os.fspath(target)}, not {1 + len(others)}")

    def in_copy(destination: str, lacking: Mapping[str, StorageError]) -> CompactionResult:
        return _compact([destination], wanted, lacking, None, Workers(jobs, on_progress), on_plan)[0]

    return copy_for(path, target, in_copy)


def _compact(
    paths: Sequence[PathLike],
    request: Compaction,
    lacking: Mapping[str, StorageError],
    expected: Sequence[CompactionPlan | None] | None,
    workers: Workers,
    on_plan: Callable[[CompactionPlan], None] | None,
) -> list[CompactionResult]:
    CleanerConfig.from_names(request.config)
    holding(paths, request.select)
    places = [chosen_directories(group, request.select) for group in by_log_directory(log_directories(paths))]
    plans = by_root([root for root, _only in places], expected)
    return carry_out(_CompactionJob(places, request, lacking, plans, workers, on_plan))


class _CompactionJob(Job[Compaction, CompactionPlan, CompactionResult]):
    def __init__(
        self,
        places: Sequence[tuple[str, frozenset[str] | None]],
        request: Compaction,
        lacking: Mapping[str, StorageError],
        expected: Mapping[str, CompactionPlan | None],
        workers: Workers,
        on_plan: Callable[[CompactionPlan], None] | None,
    ) -> None:
        super().__init__([root for root, _only in places], keeping_in(request.quarantine), request, expected)
        self._only = dict(places)
        self._lacking = lacking
        self._workers = workers
        self._on_plan = on_plan
        self._facts: Mapping[str, TopicFacts] = {}

    def prepare(self, opened: Mapping[str, Transaction]) -> None:
        self._facts = facts_of_each(self.roots)

    def plan(self, opened: Transaction) -> CompactionPlan:
        root = opened.root
        compaction_plan = _plan(root, self._only[root], self.request, self._lacking, self._facts[root], self._workers)
        self.files.callback(compaction_plan.survey.close)
        return compaction_plan

    def changes(self, planned: CompactionPlan) -> CompactionPlan:
        return planned

    def describe(self, planned: CompactionPlan) -> None:
        if self._on_plan is not None:
            self._on_plan(planned)

    def act(self, opened: Transaction, planned: CompactionPlan) -> CompactionResult:
        root = opened.root
        done = execute(
            opened, planned, lambda: survey(root, only=self._only[root], tolerant=True), workers=self._workers
        )
        return CompactionResult(done=planned, run_id=done.run_id, quarantine=done.quarantine, earlier=done.earlier)


def _plan(
    root: str,
    only: frozenset[str] | None,
    request: Compaction,
    lacking: Mapping[str, StorageError],
    facts: TopicFacts,
    workers: Workers,
) -> CompactionPlan:
    CleanerConfig.from_names(request.config)
    now = time.time_ns() // 1_000_000 if request.at is None else request.at
    rules = CompactionRules(topics=facts, now_ms=now, config=request.config)
    names = [entry.name for entry in scan_directory(root) if entry.is_dir(follow_symlinks=False)]
    found = survey(root, only=only, on_read=workers.read, tolerant=True)
    found.scratch = Scratch()

    def make(readable: Survey, at_work: Workers) -> CompactionPlan:
        compaction_plan = plan_directory(readable, names, rules, at_work)
        refuse_unsafe(readable, compaction_plan.actions, readable.tree())
        return compaction_plan

    try:
        return replace(around_unreadable(found.without(lacking), make, workers), request=request)
    except BaseException:
        found.close()
        raise
