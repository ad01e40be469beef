"""The public calls: plan and recover.  Each takes a log directory, or one partition directory of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from kafkalog.codec.errors import RecoveryRefused, StorageError, UsageError
from kafkalog.log.directories.selection import ALL, Selection
from kafkalog.log.directories.workers import OnProgress, Workers
from kafkalog.log.disk.files import PathLike
from kafkalog.recovery.act.transaction import Keeping, transaction
from kafkalog.recovery.act.working_copy import copy_for
from kafkalog.recovery.damage.bit_repair import Proof
from kafkalog.recovery.decide.node_part import with_nodes
from kafkalog.recovery.decide.plan import Plan
from kafkalog.recovery.duplicates import refuse_duplicates
from kafkalog.recovery.facts.modes import Mode
from kafkalog.recovery.facts.places import (
    by_log_directory,
    chosen_directories,
    holding,
    log_directories,
    root_of,
)
from kafkalog.recovery.facts.rules import Rules, mode_named
from kafkalog.recovery.facts.survey import survey
from kafkalog.recovery.facts.topic_facts import TopicFacts
from kafkalog.recovery.one_directory import OneDirectory, plan_survey
from kafkalog.recovery.options import RecoveryOptions, options_for_each, refuse_copies
from kafkalog.recovery.results import RecoveryResult

__all__ = ["log_directory_of", "plan", "plan_one", "recover", "recover_all", "recover_into"]


def log_directory_of(path: PathLike) -> str:
    """The log directory that a path means: itself, or the one that it is a partition of.  Raises as `plan` does."""
    return root_of(path)[0]


def plan(
    path: PathLike,
    *,
    mode: Mode | str = Mode.SAFE,
    config: Mapping[str, str] | None = None,
    at: int | None = None,
    full: bool = False,
    topic_id: str | None = None,
    repair_bits: Proof | None = None,
    cluster_metadata: bool = False,
    topic_facts: TopicFacts | None = None,
    select: Selection = ALL,
    copies: Sequence[PathLike] = (),
    jobs: int = 1,
    on_progress: OnProgress | None = None,
) -> Plan:
    """What `recover` would do, and what the broker would do; only reads.

    `config` holds settings under Kafka's names; `at` is the time in ms to treat as now; `full` also examines segments
    below the recovery point; `topic_id` is for partitions that have lost theirs; `repair_bits` is the weakest proof on
    which a flipped bit is corrected (default: never); `cluster_metadata` includes the metadata log of KRaft;
    `topic_facts` is what is known about the topics (default: what `__cluster_metadata` in the directory says, which
    takes precedence over `config`); `select` selects partitions; `copies` are directories with other copies of them,
    which allow the way `merge`; `jobs` is how many partitions are examined at a time, each in its own process;
    `on_progress` is called with the progress.  A partition that cannot be read is left out and named in the plan's
    `declined`.  Raises `UsageError` for a path that is not a log directory, `StorageError` for I/O errors outside the
    partitions.

    * `path`: a log directory or partition directory
    * `mode`: how far it may go (`Mode`)
    """
    rules = _rules(mode, config, at, full, topic_id, repair_bits, cluster_metadata, topic_facts)
    options = RecoveryOptions(rules=rules, select=select, copies=_paths(copies))
    holding([path], select)
    return plan_one(path, options, jobs=jobs, on_progress=on_progress)


def _rules(
    mode: Mode | str,
    config: Mapping[str, str] | None,
    at: int | None,
    full: bool,
    topic_id: str | None,
    repair_bits: Proof | None,
    cluster_metadata: bool,
    topic_facts: TopicFacts | None,
) -> Rules:
    """The rules as `plan` and `recover` are given them."""
    return Rules(
        mode=mode_named(mode),
        config=config or {},
        at=at,
        full=full,
        topic_id=topic_id,
        repair_bits=repair_bits,
        cluster_metadata=cluster_metadata,
        topics=topic_facts,
    )


def plan_one(
    path: PathLike,
    options: RecoveryOptions,
    *,
    also: Sequence[PathLike] = (),
    jobs: int = 1,
    on_progress: OnProgress | None = None,
    is_one_of_several: bool = False,
) -> Plan:
    """Plan as `plan` does, with everything that is asked for in one object.

    `also` are more paths of the same log directory.  With `is_one_of_several` the node is not asked: `with_nodes` does
    that for all plans together.
    """
    refuse_copies(options)
    root, only = chosen_directories([path, *also], options.select)
    workers = Workers(jobs, on_progress)
    options = replace(options, rules=options.rules.settled([root]))
    with survey(root, only=only, on_read=workers.read, tolerant=True) as found:
        made = plan_survey(found, workers, options)
        return made if is_one_of_several else with_nodes([made], {root: options.rules})[0]


def _paths(given: Sequence[PathLike]) -> tuple[str, ...]:
    return tuple(os.fspath(each) for each in given)


def recover(
    path: PathLike,
    *,
    mode: Mode | str = Mode.SAFE,
    config: Mapping[str, str] | None = None,
    at: int | None = None,
    full: bool = False,
    topic_id: str | None = None,
    repair_bits: Proof | None = None,
    cluster_metadata: bool = False,
    topic_facts: TopicFacts | None = None,
    mark_clean: bool = False,
    quarantine: PathLike | None = None,
    expected: Plan | None = None,
    complete: str | None = None,
    moved: bool = False,
    accept_loss: bool = False,
    select: Selection = ALL,
    copies: Sequence[PathLike] = (),
    jobs: int = 1,
    on_progress: OnProgress | None = None,
) -> RecoveryResult:
    """Plan and act under the broker's lock and a journal; where a run was cut short, complete that and nothing else.

    Arguments are those of `plan`, and these.  `mark_clean` writes a clean-shutdown marker after a second verification
    from disk (modes safe and strict, and a whole log directory), so that the broker does not check again; `quarantine`
    is where removed bytes are kept; `expected` is an earlier plan: if the directory has changed since, nothing is done;
    `complete` names a run that another machine began and that is to be completed here; `moved` says that the directory
    is the one that its runs were on, where that cannot be seen; `accept_loss` continues even if records that can still
    be read would be dropped (mode kafka does so, as the broker does), also by a run that was cut short.  A partition
    that cannot be recovered or read is left as it is and named in the result's `declined`.  Raises `RecoveryRefused`,
    with nothing changed, if nothing can be done, if sound records would be lost, or if the directory is locked or has
    changed.

    * `path`: a log directory or partition directory
    * `mode`: how far it may go (`Mode`)
    * `config`: settings under Kafka's names
    * `at`: the time in ms to treat as now
    * `full`: also examines segments below the recovery point
    * `topic_id`: for partitions that have lost theirs
    * `repair_bits`: the weakest proof on which a flipped bit is corrected; None: never
    * `cluster_metadata`: includes the metadata log of KRaft
    * `topic_facts`: what is known about the topics (`TopicFacts`)
    * `select`: selects partitions
    * `copies`: directories with other copies of the partitions
    * `jobs`: how many partitions are examined at a time, each in its own process
    * `on_progress`: called with a `ProgressState` now and then
    """
    rules = _rules(mode, config, at, full, topic_id, repair_bits, cluster_metadata, topic_facts)
    options = RecoveryOptions(
        rules=rules,
        select=select,
        copies=_paths(copies),
        mark_clean=mark_clean,
        accept_loss=accept_loss,
        complete=complete,
        moved=moved,
    )
    done = recover_all([path], options, quarantine=quarantine, expected=[expected], jobs=jobs, on_progress=on_progress)
    return done[0]


def recover_all(
    paths: Sequence[PathLike],
    options: RecoveryOptions,
    *,
    quarantine: PathLike | None = None,
    expected: Sequence[Plan | None] | None = None,
    jobs: int = 1,
    on_progress: OnProgress | None = None,
    on_plan: Callable[[Plan], None] | None = None,
) -> list[RecoveryResult]:
    """Recover several log directories, of one broker or of several: all locks are taken before the first is examined.

    What a broker's metadata log says, in whichever of its directories it is, decides about all of them.

    Every directory is planned for before the first is changed, so that a refusal changes none; it names all that were
    declined, and has the reports of all.  A partition that is live in two of them is refused: a broker would not
    start on that.  Several paths of one log directory are one piece of work: results and `expected` plans are those of
    `by_log_directory`.  `on_plan` is told of each plan before the first is carried out.

    * `paths`: log directories, their parents, or partition directories
    * `options`: what is asked for (`RecoveryOptions`)
    * `quarantine`: where removed bytes are kept, if not beside each directory
    * `expected`: earlier plans, one for each directory: if one has changed since, nothing is done
    * `jobs`: how many partitions are examined at a time, each in its own process
    * `on_progress`: called with a `ProgressState` now and then
    """
    refuse_copies(options)
    holding(paths, options.select)
    places = [chosen_directories(each, options.select) for each in by_log_directory(log_directories(paths))]
    workers = Workers(jobs, on_progress)
    wanted = list(expected) if expected is not None else [None] * len(places)
    if options.mark_clean:
        _refuse_half_a_marker(places)
    keeping = Keeping(None if quarantine is None else os.fspath(quarantine), options.moved)
    with ExitStack() as stack:
        transactions = []
        for root, only in places:
            with _about(root, len(places)):
                opened = stack.enter_context(transaction(root, keeping))
                opened.refuse_foreign(options.complete)
            transactions.append((opened, only))
        refuse_duplicates([root for root, _only in places])
        settled = options_for_each(options, [root for root, _only in places])
        directories: list[OneDirectory] = []
        refused: list[RecoveryRefused] = []
        for (opened, only), before in zip(transactions, wanted, strict=True):
            directory = OneDirectory(opened, only, settled[opened.root], workers)
            stack.callback(directory.close)
            directories.append(directory)
            try:
                with _about(opened.root, len(places)):
                    directory.plan(before)
            except RecoveryRefused as declined:
                refused.append(declined)
        made = [each.planned for each in directories if each.planned is not None]
        asked = {plan.root: plan for plan in with_nodes(made, {each.root: settled[each.root].rules for each in made})}
        for directory, (opened, _only), before in zip(directories, transactions, wanted, strict=True):
            if directory.planned is None:
                continue
            try:
                with _about(opened.root, len(places)):
                    directory.decide(asked[opened.root], before, on_plan)
            except RecoveryRefused as declined:
                refused.append(declined)
        if refused:
            error = RecoveryRefused.of_several(refused)
            error.reports = tuple(report for each in directories if (report := each.report_of_nothing()) is not None)
            raise error
        results = [directory.act() for directory in directories]
        if len(results) == 1 or not any(result.changed for result in results):
            return results
        return [directory.as_now(result) for directory, result in zip(directories, results, strict=True)]


@contextmanager
def _about(root: str, count: int) -> Iterator[None]:
    """Name the directory that a refusal is about, where there are several."""
    try:
        yield
    except RecoveryRefused as refused:
        if count == 1:
            raise
        raise refused.about(root) from refused


def _refuse_half_a_marker(places: Sequence[tuple[str, frozenset[str] | None]]) -> None:
    for root, only in places:
        if only is not None:
            raise UsageError(
                f"a clean-shutdown marker vouches for every partition of {root}: to have one written, recover the "
                "whole log directory"
            )


def recover_into(
    path: PathLike,
    target: PathLike,
    options: RecoveryOptions,
    *,
    quarantine: PathLike | None = None,
    jobs: int = 1,
    on_progress: OnProgress | None = None,
    on_plan: Callable[[Plan], None] | None = None,
) -> RecoveryResult:
    """Copy a log directory to `target`, which must be new or empty, and recover the copy, not the original.

    What cannot be read is not in the copy; the result's `declined` names it.  With `options.remote_logs`, the segments
    of tiered logs that are missing or damaged are first copied from the remote tier.

    * `path`: a log directory or partition directory
    * `options`: what is asked for (`RecoveryOptions`)
    * `quarantine`: where bytes that are removed from the copy are kept
    * `jobs`: how many partitions are examined at a time, each in its own process
    * `on_progress`: called with a `ProgressState` now and then
    * `on_plan`: called with the plan before the copy is changed
    """

    def recover_copy(destination: str, lacking: Mapping[str, StorageError]) -> RecoveryResult:
        wanted = replace(options, lacking=lacking)
        if options.remote_logs is not None:
            options.remote_logs.restore(destination, options.select)
            wanted = replace(wanted, remote_logs=None, rules=replace(wanted.rules, full=True))
        return recover_all(
            [destination], wanted, quarantine=quarantine, jobs=jobs, on_progress=on_progress, on_plan=on_plan
        )[0]

    return copy_for(path, target, recover_copy)
