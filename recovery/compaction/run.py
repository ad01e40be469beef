"""The public calls for compaction: plan it, do it under the lock with journal and quarantine, do it to a copy."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from kafkalog.codec.arguments import checked
from kafkalog.codec.errors import StorageError
from kafkalog.log.directories.selection import ALL, Selection
from kafkalog.log.disk.files import scan_directory
from kafkalog.recovery.act.runner import CompletedRuns
from kafkalog.recovery.act.transaction import Keeping, transaction
from kafkalog.recovery.act.working_copy import copy_for
from kafkalog.recovery.compaction.cleaning import Compaction, CompactionRules, plan_directory
from kafkalog.recovery.decide.refusals import refuse_unsafe
from kafkalog.recovery.facts.cleaner_settings import CleanerConfig
from kafkalog.recovery.facts.places import PathLike, chosen_directories
from kafkalog.recovery.facts.scratch import Scratch
from kafkalog.recovery.facts.survey import Survey, survey
from kafkalog.recovery.facts.topic_facts import read_topic_facts
from kafkalog.recovery.facts.unreadable import around_unreadable
from kafkalog.recovery.facts.workers import OnProgress, Workers

__all__ = ["CompactionResult", "compact", "plan_compaction"]


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

    def rules(self, root: str) -> CompactionRules:
        CleanerConfig.from_names(self.config)
        now = time.time_ns() // 1_000_000 if self.at is None else self.at
        return CompactionRules(topics=read_topic_facts([root]), now_ms=now, config=self.config)


@checked
def plan_compaction(
    path: PathLike,
    *,
    config: Mapping[str, str] | None = None,
    at: int | None = None,
    select: Selection = ALL,
    on_progress: OnProgress | None = None,
) -> Compaction:
    """What `compact` would do; only reads.  Arguments and errors are those of `compact`.

    The survey keeps files open; `survey.close()` closes them.

    * `path`: the log directory
    * `config`: settings under Kafka's names
    * `at`: the time in ms to treat as now
    * `select`: the topic-partitions to take; all of them without it
    * `on_progress`: called with a `ProgressState` now and then
    """
    wanted = _Wanted(config or {}, at, select)
    root, only = chosen_directories([path], wanted.select)
    made = _plan(root, only, wanted, Workers(1, on_progress))
    made.survey.close()
    return made


@checked
def compact(
    path: PathLike,
    *,
    config: Mapping[str, str] | None = None,
    at: int | None = None,
    select: Selection = ALL,
    into: PathLike | None = None,
    quarantine: PathLike | None = None,
    expected: Compaction | None = None,
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
    * `on_progress`: called with a `ProgressState` now and then
    * `on_plan`: called with the plan before anything is changed
    """
    wanted = _Wanted(config or {}, at, select)
    kept = None if quarantine is None else os.fspath(quarantine)
    if into is None:
        root, only = chosen_directories([path], wanted.select)
        return _compact(root, only, wanted, kept, expected, on_progress, on_plan)

    def in_copy(destination: str, lacking: Mapping[str, StorageError]) -> CompactionResult:
        root, only = chosen_directories([destination], wanted.select)
        return _compact(root, only, replace(wanted, lacking=lacking), kept, None, on_progress, on_plan)

    return copy_for(path, into, in_copy)


def _compact(
    root: str,
    only: frozenset[str] | None,
    wanted: _Wanted,
    quarantine: str | None,
    expected: Compaction | None,
    on_progress: OnProgress | None,
    on_plan: Callable[[Compaction], None] | None,
) -> CompactionResult:
    workers = Workers(1, on_progress)
    CleanerConfig.from_names(wanted.config)
    with ExitStack() as stack:
        at = stack.enter_context(transaction(root, Keeping(quarantine)))
        at.refuse_unfinished()
        made = _plan(root, only, wanted, workers)
        stack.callback(made.survey.close)
        at.refuse_changed(None if expected is None else expected.survey, made.survey)
        if on_plan is not None:
            on_plan(made)
        at.refuse_place(made)
        earlier = at.settle()
        if not made.changes:
            return CompactionResult(made, None, None, earlier)
        done = at.act(made, lambda: survey(root, only=only, tolerant=True), workers=workers)
        return CompactionResult(made, done.run_id, os.path.join(done.place, done.run_id), earlier)


def _plan(root: str, only: frozenset[str] | None, wanted: _Wanted, workers: Workers) -> Compaction:
    rules = wanted.rules(root)
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
