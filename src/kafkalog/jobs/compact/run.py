"""The public calls for compaction: plan it, do it under the lock with journal and quarantine, do it to a copy."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.errors import StorageError
from kafkalog.jobs.compact.cleaning import Compaction, CompactionRules, plan_directory
from kafkalog.log.directories.selection import ALL, Selection
from kafkalog.log.directories.workers import OnProgress, Workers
from kafkalog.log.disk.files import PathLike, scan_directory
from kafkalog.recovery.act.runner import CompletedRuns
from kafkalog.recovery.act.transaction import Keeping, Transaction, transaction
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


class CompactionResult(Struct, frozen=True):
    """What a compaction did; `run_id` is None if there was nothing to do."""

    done: Compaction
    run_id: str | None
    quarantine: str | None
    earlier: CompletedRuns = msgspec.field(default_factory=CompletedRuns)

    @property
    def changed(self) -> bool:
        """Whether the directory was changed."""
        return self.run_id is not None or bool(self.earlier.completed)


class _Wanted(Struct, frozen=True):
    """What is asked for."""

    config: Mapping[str, str]
    at: int | None
    select: Selection
    lacking: Mapping[str, StorageError] = {}

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
    kept = None if quarantine is None else os.fspath(quarantine)
    if into is None:
        return _compact([path], wanted, kept, [expected], Workers(jobs, on_progress), on_plan)[0]

    def in_copy(destination: str, lacking: Mapping[str, StorageError]) -> CompactionResult:
        workers = Workers(jobs, on_progress)
        return _compact([destination], replace(wanted, lacking=lacking), kept, [None], workers, on_plan)[0]

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
    kept = None if quarantine is None else os.fspath(quarantine)
    workers = Workers(jobs, on_progress)
    return _compact(paths, _Wanted(config or {}, at, select), kept, expected, workers, on_plan)


def _compact(
    paths: Sequence[PathLike],
    wanted: _Wanted,
    quarantine: str | None,
    expected: Sequence[Compaction | None] | None,
    workers: Workers,
    on_plan: Callable[[Compaction], None] | None,
) -> list[CompactionResult]:
    CleanerConfig.from_names(wanted.config)
    places = [chosen_directories(each, wanted.select) for each in by_log_directory(log_directories(paths))]
    before = [None] * len(places) if expected is None else expected
    with ExitStack() as stack:
        opened = [stack.enter_context(transaction(root, Keeping(quarantine))) for root, _only in places]
        for at in opened:
            at.refuse_unfinished()
        facts = facts_of_each([root for root, _only in places])
        planned = []
        for at, (root, only), agreed in zip(opened, places, before, strict=True):
            made = _plan(root, only, wanted, facts[root], workers)
            stack.callback(made.survey.close)
            at.refuse_changed(None if agreed is None else agreed.survey, made.survey)
            if on_plan is not None:
                on_plan(made)
            at.refuse_place(made)
            planned.append(made)
        return [_done(at, made, only, workers) for at, made, (_root, only) in zip(opened, planned, places, strict=True)]


def _done(at: Transaction, made: Compaction, only: frozenset[str] | None, workers: Workers) -> CompactionResult:
    earlier = at.settle()
    if not made.changes:
        return CompactionResult(made, None, None, earlier)
    done = at.act(made, lambda: survey(at.root, only=only, tolerant=True), workers=workers)
    return CompactionResult(made, done.run_id, os.path.join(done.place, done.run_id), earlier)


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
