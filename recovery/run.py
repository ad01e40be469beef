"""The public calls: plan, recover, undo.  Each takes a log directory, or one partition directory of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kafkalog.codec.advice import Advice, Ask
from kafkalog.codec.errors import RecoveryRefused, StorageError, UsageError
from kafkalog.log.directories.selection import ALL, Selection
from kafkalog.recovery.act.journal import JOURNAL
from kafkalog.recovery.act.runner import Earlier
from kafkalog.recovery.act.transaction import Keeping, Transaction, transaction
from kafkalog.recovery.act.unfinished_business import sentence_of_stranger
from kafkalog.recovery.act.working_copy import copy_for
from kafkalog.recovery.damage.bit_repair import Proof
from kafkalog.recovery.decide.closed_in_order import checks_of, left_by
from kafkalog.recovery.decide.outcomes import find_out
from kafkalog.recovery.decide.plan import Plan, plan_of
from kafkalog.recovery.duplicates import refuse_duplicates
from kafkalog.recovery.facts.brokers import facts_of_each
from kafkalog.recovery.facts.modes import Mode
from kafkalog.recovery.facts.own_identity import lost_identity
from kafkalog.recovery.facts.places import (
    PathLike,
    by_log_directory,
    chosen_directories,
    holding,
    log_directories,
    root_of,
)
from kafkalog.recovery.facts.rules import Rules, mode_named
from kafkalog.recovery.facts.survey import Survey, survey
from kafkalog.recovery.facts.topic_facts import NO_FACTS, TopicFacts
from kafkalog.recovery.facts.unreadable import around_unreadable
from kafkalog.recovery.facts.workers import OnProgress, Workers
from kafkalog.recovery.results import RecoveryResult, losses_of, nothing_done, refuse_declined
from kafkalog.recovery.safe.recovery import InOrder, no_checks
from kafkalog.recovery.vouching import why_not_clean
from kafkalog.tiers.remote_tier import RemoteTier

if TYPE_CHECKING:
    from kafkalog.recovery.restoring.beginning import Beginning

__all__ = [
    "RecoveryOptions",
    "log_directory_of",
    "options_for_each",
    "plan",
    "plan_one",
    "recover",
    "recover_all",
    "recover_into",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryOptions:
    """What is asked for besides the directory."""

    rules: Rules = field(default_factory=Rules)
    select: Selection = ALL
    """the partitions that are meant"""
    copies: tuple[str, ...] = ()
    """directories that hold other copies of them"""
    mark_clean: bool = False
    """end with a clean-shutdown marker"""
    accept_loss: bool = False
    """go on where records that can still be read would be dropped"""
    complete: str | None = None
    """a run that another machine began and that is to be completed all the same"""
    moved: bool = False
    """the directory is the one that its runs were on, although that cannot be seen"""
    tier: RemoteTier | None = None
    """with mode remote, the remote tier: logs that are lost begin after what is there"""
    lacking: Mapping[str, StorageError] = field(default_factory=dict)
    """directories that are not in a copy, because they could not be read, and why"""


def log_directory_of(path: PathLike) -> str:
    """The log directory that a path means: itself, or the one that it is a partition of.  Raises as `plan` does."""
    return root_of(path)[0]


def _plan(found: Survey, workers: Workers, options: RecoveryOptions, *, compare: bool = True) -> Plan:
    """By rules that are settled.

    What was closed in order stays as it is only where nothing changes: a run removes the marker that vouched for it.
    """
    rules, mark_clean, copies = options.rules, options.mark_clean, options.copies
    begin: Sequence[Beginning] = ()
    if options.tier is not None and rules.mode is Mode.REMOTE:
        from kafkalog.recovery.restoring.in_place import beginnings_in, with_beginnings

        begin = beginnings_in(found, options.tier, options.select, rules.facts)

    def plan_with(checks: InOrder, readable: Survey, at_work: Workers) -> Plan:
        outcomes = find_out(readable, rules, checks, at_work, compare=compare, copies=copies)
        return plan_of(outcomes, readable, rules, mark_clean=mark_clean, copies=copies)

    def make(readable: Survey, at_work: Workers) -> Plan:
        checks = no_checks if mark_clean else checks_of(readable, rules.facts.tiering)
        made = plan_with(checks, readable, at_work)
        if checks is no_checks or rules.mode is Mode.SET_ASIDE or not (made.actions or begin):
            return made
        made = plan_with(no_checks, readable, at_work)
        left = left_by(made.actions, made.findings, readable, rules.facts.tiering) if compare else ()
        return replace(made, findings=[*made.findings, *left])

    whole = around_unreadable(found.without(options.lacking), make, workers)
    return with_beginnings(whole, begin) if begin else whole


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
) -> Plan:
    """Plan as `plan` does, with everything that is asked for in one object.

    `also` are more paths of the same log directory.
    """
    _refuse_copies(options)
    root, only = chosen_directories([path, *also], options.select)
    workers = Workers(jobs, on_progress)
    options = replace(options, rules=options.rules.settled([root]))
    with survey(root, only=only, on_read=workers.read, tolerant=True) as found:
        return _plan(found, workers, options)


def options_for_each(options: RecoveryOptions, roots: Sequence[str]) -> Mapping[str, RecoveryOptions]:
    """What is asked for of each log directory, with one time to treat as now, and with what its broker knew."""
    rules = options.rules
    facts = dict.fromkeys(roots, rules.topics) if rules.topics is not None else facts_of_each(roots)
    settled = replace(rules, topics=NO_FACTS).settled(())
    if rules.meta_properties and (options.select != ALL or rules.mode is Mode.KAFKA):
        raise UsageError("meta.properties is written in a whole log directory, and not in mode kafka")

    def identity_of(root: str) -> bytes | None:
        return lost_identity(root, roots, facts[root]) if rules.meta_properties else None

    return {
        root: replace(options, rules=replace(settled, topics=facts[root], identity=identity_of(root))) for root in roots
    }


def _refuse_copies(options: RecoveryOptions) -> None:
    """Raise `UsageError` for copies that are none, and where mode merge is given none."""
    if options.rules.mode is Mode.MERGE and not options.copies:
        raise UsageError("mode merge takes what other copies hold: say where they are")
    if options.copies:
        from kafkalog.recovery.decide.merge_in_place import refuse_no_copies  # merges: most plans know no other copy

        refuse_no_copies(options.copies)


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
    _refuse_copies(options)
    holding(paths, options.select)
    places = [chosen_directories(each, options.select) for each in by_log_directory(log_directories(paths))]
    workers = Workers(jobs, on_progress)
    wanted = list(expected) if expected is not None else [None] * len(places)
    if options.mark_clean:
        _refuse_half_a_marker(places)
    keeping = Keeping(None if quarantine is None else os.fspath(quarantine), options.moved)
    with ExitStack() as stack:
        opened = []
        for root, only in places:
            with _about(root, len(places)):
                at = stack.enter_context(transaction(root, keeping))
                at.refuse_foreign(options.complete)
            opened.append((at, only))
        refuse_duplicates([root for root, _only in places])
        settled = options_for_each(options, [root for root, _only in places])
        directories: list[_Directory] = []
        refused: list[RecoveryRefused] = []
        for (at, only), before in zip(opened, wanted, strict=True):
            directory = _Directory(at, only, settled[at.root], workers)
            stack.callback(directory.close)
            directories.append(directory)
            try:
                with _about(at.root, len(places)):
                    directory.plan(before, on_plan)
            except RecoveryRefused as declined:
                refused.append(declined)
        if refused:
            error = RecoveryRefused.of_several(refused)
            error.reports = tuple(report for each in directories if (report := each.report_of_nothing()) is not None)
            raise error
        return [directory.act() for directory in directories]


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


class _Directory:
    """One log directory on its way from a plan to a result; its lock is held."""

    def __init__(
        self, at: Transaction, only: frozenset[str] | None, options: RecoveryOptions, workers: Workers
    ) -> None:
        self._at = at
        self._only = only
        self._options = options
        self._workers = workers
        self._found: Survey | None = None
        self._plan: Plan | None = None

    def close(self) -> None:
        """Close the files that the plan has open."""
        if self._found is not None:
            self._found.close()

    def plan(self, expected: Plan | None, on_plan: Callable[[Plan], None] | None) -> None:
        """Decide what is to be done; `on_plan` is told of a plan, whether it can be carried out or not."""
        if self._options.rules.rebuild_indexes:
            self._at.refuse_unfinished()
        if self._at.earlier.fitting:
            refuse_completing(self._at.earlier, self._options)
            return
        made = self._make_plan(expected)
        if on_plan is not None:
            on_plan(made)
        if expected is not None:
            _check_as_readable(expected, made)
        refuse_declined(made, accept_loss=self._options.accept_loss)
        self._at.refuse_place(made)

    def _make_plan(self, expected: Plan | None = None) -> Plan:
        found = self._found = survey(self._at.root, only=self._only, on_read=self._workers.read, tolerant=True)
        self._at.refuse_changed(None if expected is None else expected.survey, found)
        self._plan = _plan(found, self._workers, self._options)
        return self._plan

    def report_of_nothing(self) -> dict[str, Any] | None:
        """Where the plan is not carried out, because this directory or another was declined; None without a plan."""
        return None if self._plan is None else nothing_done(self._plan).as_dict()

    def act(self) -> RecoveryResult:
        """Do it: complete what was cut short, or else what was planned."""
        if self._plan is None:
            completed = self._at.complete(lambda: self._why_not_clean(None))
            return RecoveryResult(self._make_plan(), None, None, completed, notes=self._notes())
        made, notes = self._plan, self._notes()
        earlier = self._at.settle()
        if not made.changes:
            return RecoveryResult(made, None, None, earlier, notes=notes)
        done = self._at.act(
            made,
            lambda: survey(self._at.root, only=self._only, tolerant=True),
            withhold_marker=lambda: self._why_not_clean(self._only),
            workers=self._workers,
            drops=made.choice.own.sound_lost > 0 or made.choice.own.markers_lost > 0,
            lost=losses_of(made.choice),
        )
        place = os.path.join(done.place, done.run_id)
        return RecoveryResult(made, done.run_id, place, earlier, done.marker_withheld, notes)

    def _why_not_clean(self, only: frozenset[str] | None) -> str | None:
        return _why_not_clean(self._at.root, only, self._options, self._workers)

    def _notes(self) -> tuple[str, ...]:
        moved = () if self._at.note is None else (self._at.note,)
        return (*moved, *map(sentence_of_stranger, self._at.runs.strangers()))


def refuse_completing(earlier: Earlier, options: RecoveryOptions) -> None:
    """Raise `RecoveryRefused` where a run that was cut short drops what nobody has agreed to drop now."""
    for run, _located in earlier.fitting:
        is_agreed = options.accept_loss or run.journal.mode == options.rules.mode == Mode.KAFKA
        if run.name == JOURNAL and run.journal.drops and not is_agreed:
            raise RecoveryRefused(
                f"run {run.run_id} (mode {run.journal.mode}), which was cut short, drops records that can still be "
                "read; nothing was changed",
                reason="loss",
                advice=[
                    Advice("{} completes it all the same", Ask.ACCEPT_LOSS),
                    Advice("{} reverses it", Ask.UNDO, {"run": run.run_id}),
                ],
            )


def _why_not_clean(root: str, only: frozenset[str] | None, options: RecoveryOptions, workers: Workers) -> str | None:
    """Read everything again from disk: a clean-shutdown marker must be true of every partition."""
    with survey(root, only=only, on_read=workers.read, tolerant=True) as found:
        again = replace(options, rules=replace(options.rules, full=True), mark_clean=False)
        return why_not_clean(found, _plan(found, workers, again, compare=False), options.rules, workers)


def recover_into(
    path: PathLike,
    target: PathLike,
    options: RecoveryOptions,
    *,
    quarantine: PathLike | None = None,
    jobs: int = 1,
    on_progress: OnProgress | None = None,
    on_plan: Callable[[Plan], None] | None = None,
    tier: RemoteTier | None = None,
    keep_remote: bool = False,
) -> RecoveryResult:
    """Copy a log directory to `target`, which must be new or empty, and recover the copy, not the original.

    What cannot be read is not in the copy; the result's `declined` names it.  With a remote `tier`, tiered logs are
    brought back from there first: what is not local, what is damaged, and logs that are gone.

    * `path`: a log directory or partition directory
    * `options`: what is asked for (`RecoveryOptions`)
    * `quarantine`: where bytes that are removed from the copy are kept
    * `jobs`: how many partitions are examined at a time, each in its own process
    * `on_progress`: called with a `ProgressState` now and then
    * `on_plan`: called with the plan before the copy is changed
    * `keep_remote`: with `tier`, logs that are gone begin after their remote part, which stays where it is
    """

    def recover_copy(destination: str, lacking: Mapping[str, StorageError]) -> RecoveryResult:
        wanted = replace(options, lacking=lacking)
        if tier is not None:
            from kafkalog.recovery.restoring.whole_logs import bring_back

            bring_back(destination, tier, options.select, keep_remote=keep_remote)
            wanted = replace(wanted, rules=replace(wanted.rules, full=True))
        return recover_all(
            [destination], wanted, quarantine=quarantine, jobs=jobs, on_progress=on_progress, on_plan=on_plan
        )[0]

    return copy_for(path, target, recover_copy)


def _check_as_readable(expected: Plan, made: Plan) -> None:
    """What was left out, and is to be read now, changes the plan; so does what was read and can no longer be."""
    for name in sorted({*expected.survey.unreadable} ^ {*made.survey.unreadable}):
        how = "can no longer be read" if name in made.survey.unreadable else "can be read now"
        raise RecoveryRefused(f"{name} {how}, unlike when the plan was made; make a new one", reason="changed")
