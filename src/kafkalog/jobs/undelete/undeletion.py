"""Restore data that a broker has deleted but not yet removed from disk, as an execution with journal, lock and undo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property

from kafkalog.codec.common.errors import RecoveryRefused, UsageError
from kafkalog.jobs.undelete.putting_back import plan_directory
from kafkalog.jobs.undelete.request import Undelete
from kafkalog.jobs.undelete.results import UndeletePlan, UndeleteResult, in_the_way
from kafkalog.log.disk.files import PathLike
from kafkalog.recovery.act.history import root_of_runs
from kafkalog.recovery.act.job import Job, carry_out, execute, keeping_in
from kafkalog.recovery.act.transaction import Keeping, Transaction, refuse_unfinished
from kafkalog.recovery.facts.brokers import facts_of_each, of_one_broker
from kafkalog.recovery.facts.places import log_directories
from kafkalog.recovery.facts.survey import survey
from kafkalog.recovery.facts.topic_facts import TopicFacts

__all__ = ["plan_undelete", "undelete"]


def plan_undelete(request: Undelete, *paths: PathLike) -> list[UndeletePlan]:
    """Return what `undelete` would do: a plan for each log directory that has deleted data of the topic. Reads only.
    Raises `RecoveryRefused`, `UsageError` and `StorageError` as `undelete` does.

    * `request`: which topic is restored, and under which name
    * `paths`: log directories, their parents, or partition directories, which stand for their log directories
    """
    with ExitStack() as stack:
        return _plan_all(stack, _roots(paths), request.checked())


def undelete(
    request: Undelete, *paths: PathLike, expected: Sequence[UndeletePlan] | None = None
) -> list[UndeleteResult]:
    """Restore deleted data of a topic in place; return a result for each log directory that had some.

    `-delete` and `-stray` directories get their live names, and `.deleted` segments return to their partition; the
    other files that a broker needs are rebuilt. All locks are acquired before anything is planned, and a refused plan
    changes nothing. If changing a later directory fails, those before it stay changed, and the error names them. The
    topic's id is taken from the metadata log, which may be in any directory of the broker. `undo` reverses the
    restoration.

    Raises `UsageError` for a path of another kind than `paths` allows, or an impossible name or topic id. Raises it
    also for another name for segments of a live partition, or an expected plan of a directory that is not among the
    paths. Raises `StorageError` if a file cannot be read or written. Raises `RecoveryRefused` in these cases:

    * there is nothing to restore, or the place is occupied
    * a partition was deleted several times, and the request chooses none
    * a directory is locked, or an execution was interrupted
    * a log is damaged, or the cluster does not know the topic
    * `expected` no longer fits

    * `request`: which topic is restored, and under which name
    * `paths`: log directories, their parents, or partition directories, which stand for their log directories
    * `expected`: what `plan_undelete` returned: nothing is done if a directory has changed since, or if a plan is for
      another request
    """
    roots = _roots(paths)
    agreed = None if expected is None else {planned.root: planned for planned in expected}
    for root in agreed or ():
        if root not in roots:
            raise UsageError(f"expected has a plan for {root}, which is not one of the log directories")
    return carry_out(_UndeleteJob(roots, request.checked(), keeping_in(request.quarantine), agreed))


class _UndeleteJob(Job[Undelete, UndeletePlan, UndeleteResult]):
    """Job that restores deleted data; it does nothing in a directory without any."""

    def __init__(
        self, roots: Sequence[str], wanted: Undelete, keeping: Keeping, expected: Mapping[str, UndeletePlan] | None
    ) -> None:
        super().__init__(roots, keeping, wanted, expected)
        self._are_agreed = expected is not None
        self._planning = _Planning(self.files, roots, wanted)

    def plan(self, opened: Transaction) -> UndeletePlan | None:
        return self._planning.plan(opened.root)

    def join(self, plans: list[tuple[str, UndeletePlan]], *, is_whole: bool) -> list[tuple[str, UndeletePlan]]:
        if not is_whole:
            return plans
        joined = self._planning.joined(dict(plans))
        for root in sorted(joined.keys() ^ self.expected.keys()) if self._are_agreed else ():
            what = "has deleted data, and no plan is for it" if root in joined else "has no more deleted data"
            raise RecoveryRefused(f"{root} {what}; make new plans", reason="changed")
        return list(joined.items())

    def changes(self, planned: UndeletePlan) -> UndeletePlan:
        return planned

    def act(self, opened: Transaction, planned: UndeletePlan) -> UndeleteResult:
        done = execute(opened, planned, lambda: survey(opened.root, only=planned.survey.partition_directories))
        return UndeleteResult(planned, done.run_id or "", done.quarantine or "")


def _roots(paths: Sequence[PathLike]) -> list[str]:
    return list(dict.fromkeys(root_of_runs(path) for path in log_directories(paths)))


class _Planning:
    """Planner for several log directories; the exit stack `files` closes the surveys of the plans."""

    def __init__(self, files: ExitStack, roots: Sequence[str], wanted: Undelete) -> None:
        self._files = files
        self._roots = roots
        self._wanted = wanted
        self._nothing: RecoveryRefused | None = None

    @cached_property
    def _facts(self) -> Mapping[str, TopicFacts]:
        return facts_of_each(self._roots)

    def plan(self, root: str) -> UndeletePlan | None:
        """Plan for one log directory. Return None if it has no deleted data of the topic or, with `hold`, only
        directories that are `-stray` already. The reason for None is kept for `joined`; a reason about `-stray`
        directories is preferred.

        Raises `RecoveryRefused` if the data cannot be restored. Raises `UsageError` if deleted segments of a live
        partition are to be restored under another topic name. Raises `StorageError` if a directory of the topic cannot
        be read.
        """
        try:
            return plan_directory(self._files, root, self._wanted, self._facts[root])
        except RecoveryRefused as refused:
            if refused.reason not in ("nothing", "held"):
                raise
            if self._nothing is None or self._nothing.reason == "nothing":
                self._nothing = refused
            return None

    def joined(self, plans: dict[str, UndeletePlan]) -> dict[str, UndeletePlan]:
        """Return the plans by log directory, in the order of the directories. The plans remove empty partitions that
        are in the way. A directory with such a partition is planned again, and `plans` is changed in place. Raises
        `RecoveryRefused` if no directory has a plan, or if another directory of the broker holds data of a partition,
        and otherwise as `plan_directory` does.
        """
        roots = self._roots
        if not plans and self._nothing is not None:
            is_held = self._nothing.reason == "held"
            raise self._nothing if is_held or len(roots) == 1 else self._wanted.nothing_in(" or ".join(roots))
        for siblings in of_one_broker(roots):
            of_siblings = [plans[sibling] for sibling in siblings if sibling in plans]
            for root, emptied in in_the_way(of_siblings, siblings).items():
                plans[root] = plan_directory(self._files, root, self._wanted, self._facts[root], emptied)
        return {root: plans[root] for root in roots if root in plans}


def _plan_all(stack: ExitStack, roots: Sequence[str], wanted: Undelete) -> list[UndeletePlan]:
    """Return a plan for each log directory that has deleted data of the topic, in the order of `roots`; `stack` closes
    their surveys. Raises `RecoveryRefused` if none has such data, or if one cannot be restored or has an interrupted
    execution; if there are several directories, the error names it. Raises `UsageError` as `_Planning.plan` does,
    `StorageError` if a file cannot be read.
    """
    refuse_unfinished(roots, keeping_in(wanted.quarantine))
    planning = _Planning(stack, roots, wanted)
    plans: dict[str, UndeletePlan] = {}
    for root in roots:
        try:
            planned = planning.plan(root)
        except RecoveryRefused as refused:
            if len(roots) == 1:
                raise
            raise refused.about(root) from refused
        if planned is not None:
            plans[root] = planned
    return list(planning.joined(plans).values())
