"""Define the order of the steps in which every job (such as a recovery or an undo) changes log directories. Only
`carry_out` defines this order.

Every directory is locked, checked for unfinished executions and planned before the first one is changed. Each plan is
compared with the plan that the caller agreed to, and shown. It is refused if it lacks consent or cannot be carried out
(permissions, space). So a refusal changes nothing in any directory. A subclass of `Job` defines only what differs
between jobs.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from kafkalog.codec.common.errors import KafkaLogError, RecoveryRefused, StorageError, UsageError
from kafkalog.codec.common.options import options_of_fields
from kafkalog.codec.common.wording import counted
from kafkalog.log.directories.workers import Workers
from kafkalog.log.disk.files import PathLike
from kafkalog.recovery.act.journal import LossOfRun
from kafkalog.recovery.act.runner import CompletedRuns
from kafkalog.recovery.act.transaction import Keeping, Transaction, transaction
from kafkalog.recovery.decide.actions import Changes
from kafkalog.recovery.facts.survey import Survey, survey

__all__ = [
    "AgreedPlan", "Executed", "Job", "by_root", "carry_out", "execute", "keeping_in", "refuse_other_request",
]  # fmt: skip

Request_co = TypeVar("Request_co", bound=Struct, covariant=True)
Planned = TypeVar("Planned")
Result = TypeVar("Result")


class AgreedPlan(Protocol):
    """A plan for one log directory to which the caller has agreed."""

    @property
    def root(self) -> str:
        """The log directory."""

    @property
    def request(self) -> Struct | None:
        """The request that the plan was made for; None if it was made without one."""

    @property
    def survey(self) -> Survey:
        """The list of files that the plan was made from."""


Agreed = TypeVar("Agreed", bound=AgreedPlan)


def by_root(roots: Sequence[str], expected: Sequence[Agreed | None] | None) -> dict[str, Agreed | None]:
    """Return a dict: log directory -> the plan that the caller agreed to, or None. `expected` has these plans in the
    order of `roots`. The dict is empty if `expected` is None. Raises `UsageError` if the two have different lengths.
    """
    if expected is None:
        return {}
    if len(expected) != len(roots):
        directories = counted(len(roots), "log directory")
        raise UsageError(f"expected has {counted(len(expected), 'plan')} for {directories}: give one for each, or None")
    return dict(zip(roots, expected, strict=True))


def refuse_other_request(agreed: Struct | None, request: Struct | None) -> None:
    """Raise `RecoveryRefused` if a plan was made for the request `agreed` and another one is to be carried out. Fields
    that only say how to act, such as the consent to a loss, may differ. Does nothing if one of them is None.
    """
    if agreed is None or request is None:
        return
    acting = {name for name, option in options_of_fields(type(request)).items() if option.is_of_acting}
    names = [name for name in request.__struct_fields__ if name not in acting]
    differing = [name for name in names if getattr(agreed, name, None) != getattr(request, name)]
    if differing or type(agreed) is not type(request):
        what = ", ".join(differing) or "its kind"
        raise RecoveryRefused(
            f"the plan was made for another request, which differs in {what}; make a new plan", reason="changed"
        )


class Job(ABC, Generic[Request_co, Planned, Result]):
    """One change to one or more log directories, for one request. `carry_out` calls the methods in the order in which
    they are defined here.
    """

    def __init__(
        self,
        roots: Sequence[str],
        keeping: Keeping,
        request: Request_co,
        expected: Mapping[str, AgreedPlan | None] | None = None,
    ) -> None:
        self.roots = roots
        """log directories in the order of the results; a directory with several plans is listed once for each"""
        self.keeping = keeping
        self.request = request
        """what the caller asks for"""
        self.expected = expected or {}
        """plan that the caller agreed to by log directory; any plan will do for the others"""
        self.files = ExitStack()
        """closed at the end: the surveys that plans read from"""

    def look(self) -> None:
        """Called before anything is locked. Raise `RecoveryRefused` if a plan that the caller agreed to was made for
        another request or another log directory.
        """
        for root, agreed in self.expected.items():
            if agreed is not None:
                with _about(self, root):
                    refuse_other_request(agreed.request, self.request)
                    if agreed.root != root:
                        raise RecoveryRefused(f"the plan is for {agreed.root}, not for {root}", reason="changed")

    def admit(self, opened: Transaction) -> None:
        """Raise `RecoveryRefused` if an interrupted execution keeps this job from the directory."""
        opened.refuse_unfinished()

    def prepare(self, opened: Mapping[str, Transaction]) -> None:
        """Called once all directories are locked: collect facts that plans of several directories need. Does nothing by
        default.
        """

    @abstractmethod
    def plan(self, opened: Transaction) -> Planned | None:
        """Plan for one directory; None if the job does nothing in it. Raises `RecoveryRefused` if it cannot be
        planned.
        """

    def join(self, plans: list[tuple[str, Planned]], *, is_whole: bool) -> list[tuple[str, Planned]]:
        """Adjust the plans of all directories to each other; return the (log directory, plan) pairs to carry out. By
        default they are returned unchanged. `is_whole` is False if planning was refused for a directory.
        """
        return plans

    def changes(self, planned: Planned) -> Changes | None:
        """The actions of a plan; None if it has none that a new execution would carry out."""
        return None

    def compare(self, opened: Transaction, planned: Planned) -> None:
        """Raise `RecoveryRefused` if the files have changed since the plan to which the caller agreed. Does nothing
        without such a plan.
        """
        changes, agreed = self.changes(planned), self.expected.get(opened.root)
        if changes is not None and agreed is not None:
            opened.refuse_changed(agreed.survey, changes.survey)

    def describe(self, planned: Planned) -> None:
        """Show a plan, whether or not it will be carried out."""

    def consent(self, planned: Planned) -> None:
        """Raise `RecoveryRefused` if the plan may not be carried out, or needs a consent that the request does not
        give.
        """

    def report(self, planned: Planned) -> Any | None:
        """JSON of the plan, for the error that is raised because a directory was refused; None if the job has no
        report.
        """
        return None

    @abstractmethod
    def act(self, opened: Transaction, planned: Planned) -> Result:
        """Carry out a plan in one directory and return its result. Called only if no directory was refused."""

    def finish(self, results: list[Result]) -> list[Result]:
        """Called when all directories are changed and still locked; return the results, possibly completed."""
        return results


class Executed(Struct, frozen=True, kw_only=True):
    """Result of a job for one directory."""

    earlier: CompletedRuns
    """what happened to earlier executions that had been interrupted"""
    run_id: str | None = None
    """id of the execution; None if there was nothing to do"""
    quarantine: str | None = None
    """directory in which the execution keeps removed bytes; None if there was none"""
    marker_withheld: str | None = None
    """why no clean-shutdown marker was written, although the plan has one; None otherwise"""


def execute(
    opened: Transaction,
    changes: Changes,
    still: Callable[[], Survey],
    *,
    withhold_marker: Callable[[], str | None] = lambda: None,
    workers: Workers | None = None,
    drops: bool = False,
    lost: Sequence[LossOfRun] | None = None,
) -> Executed:
    """Carry out the actions of a plan as one execution (one journaled, undoable change). First, earlier interrupted
    executions that no longer fit the files are marked as superseded, and the copies of executions that had changed
    nothing are removed. If the plan has no actions, that is all.

    Return these earlier executions, and the id of the new one, its directory in the quarantine, and why the
    clean-shutdown marker was withheld. Without actions, the last three are None. The reason is also None if the marker
    was not withheld.

    Raises `RecoveryRefused` if the directory has changed since the plan's survey (its list of files with sizes and
    times) or the quarantine is not usable. The files are then unchanged, or changed back. Raises `StorageError` if the
    disk fails; the execution may then stay unfinished.

    * `still`: makes a new survey, to compare it with the plan's
    * `withhold_marker`: called before a clean-shutdown marker is written; returns why it would be untrue, None if it is
      true
    * `workers`: shows progress
    * `drops`: whether the plan removes records that can still be read; noted in the journal
    * `lost`: the losses that the plan has counted; noted in the journal
    """
    earlier = opened.settle()
    if not changes.actions:
        return Executed(earlier=earlier)
    done = opened.act(changes, still, withhold_marker=withhold_marker, workers=workers, drops=drops, lost=lost)
    return Executed(
        earlier=earlier,
        run_id=done.run_id,
        quarantine=os.path.join(done.place, done.run_id),
        marker_withheld=done.marker_withheld,
    )


def keeping_in(quarantine: PathLike | None, *, moved: bool = False) -> Keeping:
    """Where executions keep removed bytes: the directory `quarantine`, or beside each log directory if None. `moved`:
    the caller asserts that the executions there are this directory's although it was moved.
    """
    return Keeping(None if quarantine is None else os.fspath(quarantine), moved)


def carry_out(job: Job[Struct, Planned, Result]) -> list[Result]:
    """Carry out a job: lock all its directories, plan for each, check every plan, then change one directory after
    another. Return the results in the order of `job.roots`, after `job.finish` was called with them; directories
    without a plan have none. The locks are held until then.

    Raises `RecoveryRefused` with nothing changed if directories are refused while plans are made or checked: the error
    names all of them, and its `reports` has the reports of the plans. A lock that is held, an interrupted execution, or
    a quarantine that cannot be created is reported for the first such directory only. Raises `StorageError` for I/O
    errors, and any other error of the job. If changing a directory fails or is refused, those before it stay changed,
    and the error names them.
    """
    with ExitStack() as stack, job.files:
        job.look()
        opened: dict[str, Transaction] = {}
        for root in dict.fromkeys(job.roots):
            with _about(job, root):
                opened[root] = stack.enter_context(transaction(root, job.keeping))
        for root, directory in opened.items():
            with _about(job, root):
                job.admit(directory)
        job.prepare(opened)
        refused: list[RecoveryRefused] = []
        plans: list[tuple[str, Planned]] = []
        for root in job.roots:
            with _noted(job, root, refused):
                planned = _plan(job, opened[root])
                if planned is not None:
                    plans.append((root, planned))
        plans = job.join(plans, is_whole=not refused)
        for root, planned in plans:
            with _noted(job, root, refused):
                _agree(job, opened[root], planned)
        if refused:
            error = RecoveryRefused.of_several(refused)
            error.reports = tuple(report for _root, planned in plans if (report := job.report(planned)) is not None)
            raise error
        changing = [(root, changes) for root, planned in plans if (changes := job.changes(planned)) is not None]
        for root, changes in changing if len(changing) > 1 else ():
            with _about(job, root):
                opened[root].try_quarantine(changes)
        with _naming_changed(opened):
            results = []
            for root, planned in plans:
                with _about(job, root):
                    results.append(job.act(opened[root], planned))
            return job.finish(results)


def _plan(job: Job[Struct, Planned, Result], opened: Transaction) -> Planned | None:
    """Plan for one directory; None if the job does nothing in it. If planning is refused, and the directory has changed
    since the plan that the caller agreed to, the `RecoveryRefused` is about that change: it is the better reason.
    Raises `StorageError` if the directory cannot be surveyed.
    """
    try:
        return job.plan(opened)
    except RecoveryRefused:
        agreed = job.expected.get(opened.root)
        if agreed is not None:
            only = agreed.survey.partition_directories if agreed.survey.is_partial else None
            with survey(opened.root, only=only, tolerant=True) as found:
                opened.refuse_changed(agreed.survey, found)
        raise


def _agree(job: Job[Struct, Planned, Result], opened: Transaction, planned: Planned) -> None:
    """Check a plan: compare it with the plan that was agreed to, show it, and check consent. If it has actions, check
    also quarantine, permissions and disk space. Raises `RecoveryRefused` at the first check that fails; changes
    nothing. Raises `StorageError` if the quarantine cannot be examined.
    """
    job.compare(opened, planned)
    job.describe(planned)
    job.consent(planned)
    changes = job.changes(planned)
    if changes is not None:
        opened.refuse_place(changes)


@contextmanager
def _about(job: Job[Struct, Planned, Result], root: str) -> Iterator[None]:
    """Add the log directory `root` to errors raised within this context. If the job has several directories, a
    `RecoveryRefused` is replaced by one that names `root`; with one directory it is raised unchanged. Any other
    `KafkaLogError` is raised again, with `root` as its directory unless it has one.
    """
    try:
        yield
    except RecoveryRefused as refused:
        if len(set(job.roots)) == 1:
            raise
        raise refused.about(root) from refused
    except KafkaLogError as error:
        error.concerning(root)
        raise


@contextmanager
def _naming_changed(opened: Mapping[str, Transaction]) -> Iterator[None]:
    """Context manager for changing directories one after another. If a `RecoveryRefused` or `StorageError` is raised
    after directories were changed, a copy of the error is raised instead. It names these directories and their
    executions in its message and in `directories`. Otherwise the error is raised unchanged.
    """
    try:
        yield
    except (RecoveryRefused, StorageError) as error:
        changed = {root: ", ".join(directory.ended) for root, directory in opened.items() if directory.ended}
        if not changed:
            raise
        raise error.after(changed) from error


@contextmanager
def _noted(job: Job[Struct, Planned, Result], root: str, refused: list[RecoveryRefused]) -> Iterator[None]:
    """Append a `RecoveryRefused` raised within this context to `refused` instead of raising it, so that the caller
    continues with the next directory; if the job has several directories, the error names `root`. Other errors are
    raised; an error of kafkalog without a directory gets `root`.
    """
    try:
        with _about(job, root):
            yield
    except RecoveryRefused as error:
        refused.append(error)
