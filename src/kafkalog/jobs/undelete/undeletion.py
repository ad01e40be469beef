"""Putting back what a broker has deleted and not yet removed, as a run of its own: journal, lock and undo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property

from kafkalog.codec.errors import RecoveryRefused
from kafkalog.jobs.undelete.putting_back import nothing_in, plan_directory
from kafkalog.jobs.undelete.results import UndeleteResult, Undeletion, in_the_way
from kafkalog.jobs.undelete.wanted import Wanted
from kafkalog.log.disk.files import PathLike
from kafkalog.recovery.act.history import root_of_runs
from kafkalog.recovery.act.job import Job, carry_out, execute, keeping_in
from kafkalog.recovery.act.transaction import Keeping, Transaction
from kafkalog.recovery.facts.brokers import facts_of_each, of_one_broker
from kafkalog.recovery.facts.places import log_directories
from kafkalog.recovery.facts.survey import Survey, survey
from kafkalog.recovery.facts.topic_facts import TopicFacts, read_topic_facts

__all__ = ["plan_undelete", "plan_undelete_all", "undelete", "undelete_all"]


def plan_undelete(
    path: PathLike,
    topic: str,
    *,
    partitions: Sequence[int] = (),
    source: str | None = None,
    as_topic: str | None = None,
    topic_id: str | None = None,
    config: Mapping[str, str] | None = None,
    at: int | None = None,
    hold: bool = False,
) -> Undeletion:
    """What `undelete` would do; only reads.  Arguments and refusals are those of `undelete`.

    * `path`: the log directory
    * `topic`: name of the deleted topic
    * `partitions`: numbers of partitions; none: all
    * `source`: name of a directory or id of a run, if several hold a partition
    * `as_topic`: another topic name for what is restored
    * `topic_id`: the topic's id in the cluster
    * `config`: settings under Kafka's names
    * `at`: the time in ms to treat as now
    * `hold`: `-delete` directories only become `-stray`
    """
    wanted = Wanted(
        topic=topic,
        partitions=partitions,
        source=source,
        as_topic=as_topic,
        topic_id=topic_id,
        config=config,
        at=at,
        hold=hold,
    ).checked()
    with ExitStack() as stack:
        root = root_of_runs(path)
        return plan_directory(stack, root, wanted, read_topic_facts([root]))


def plan_undelete_all(
    paths: Sequence[PathLike],
    topic: str,
    *,
    partitions: Sequence[int] = (),
    source: str | None = None,
    as_topic: str | None = None,
    topic_id: str | None = None,
    config: Mapping[str, str] | None = None,
    at: int | None = None,
    hold: bool = False,
) -> list[Undeletion]:
    """What `undelete_all` would do, a plan for each log directory that holds deleted data of the topic; only reads.

    * `paths`: log directories or their parents
    * `topic`: name of the deleted topic
    * `partitions`: numbers of partitions; none: all
    * `source`: name of a directory or id of a run, if several hold a partition
    * `as_topic`: another topic name for what is restored
    * `topic_id`: the topic's id in the cluster
    * `config`: settings under Kafka's names
    * `at`: the time in ms to treat as now
    * `hold`: `-delete` directories only become `-stray`
    """
    wanted = Wanted(
        topic=topic,
        partitions=partitions,
        source=source,
        as_topic=as_topic,
        topic_id=topic_id,
        config=config,
        at=at,
        hold=hold,
    ).checked()
    with ExitStack() as stack:
        return _plan_all(stack, _roots(paths), wanted)


def undelete(
    path: PathLike,
    topic: str,
    *,
    partitions: Sequence[int] = (),
    source: str | None = None,
    as_topic: str | None = None,
    topic_id: str | None = None,
    config: Mapping[str, str] | None = None,
    at: int | None = None,
    hold: bool = False,
    quarantine: PathLike | None = None,
    expected: Undeletion | None = None,
) -> UndeleteResult:
    """Restore what was deleted of a topic, or of some of its partitions, in the log directory `path`.

    `-delete` and `-stray` directories get their live names, and `.deleted` segments return to their partition; the
    other files that a broker needs are rebuilt.  `source` is the name of one such directory, if several are of one
    partition; `as_topic` is another topic name for the restored directories; `topic_id` is the topic's id in the
    cluster (default: that of an empty partition already in the place, that in the metadata log, or the directory's
    own).  With `hold`, `-delete` directories only become `-stray`, which no broker removes: then a broker can be
    started and the topic created again before they are restored.  `config`, `at` and `quarantine` are as for `recover`;
    `expected` is the result of `plan_undelete`: if the directory has changed since, nothing is done.  `undo` reverses
    it.

    Raises `RecoveryRefused`, with nothing changed, if there is nothing to restore, if the place is taken, if a log is
    damaged, if the cluster does not know the topic, or if a run was interrupted.

    * `topic`: name of the deleted topic
    * `partitions`: numbers of partitions; none: all
    """
    wanted = Wanted(
        topic=topic,
        partitions=partitions,
        source=source,
        as_topic=as_topic,
        topic_id=topic_id,
        config=config,
        at=at,
        hold=hold,
    ).checked()
    return _undelete([path], wanted, quarantine, None if expected is None else [expected])[0]


def undelete_all(
    paths: Sequence[PathLike],
    topic: str,
    *,
    partitions: Sequence[int] = (),
    source: str | None = None,
    as_topic: str | None = None,
    topic_id: str | None = None,
    config: Mapping[str, str] | None = None,
    at: int | None = None,
    hold: bool = False,
    quarantine: PathLike | None = None,
    expected: Sequence[Undeletion] | None = None,
) -> list[UndeleteResult]:
    """Undelete, as `undelete` does, in all log directories of a broker, or of several brokers.

    A result for each that held something.

    All locks are taken before anything is planned, and a refusal changes nothing.  The topic's id is the one that a
    broker's metadata log knows, in whichever of its directories that is.

    * `paths`: log directories or their parents
    * `topic`: name of the deleted topic
    * `partitions`: numbers of partitions; none: all
    * `source`: name of a directory or id of a run, if several hold a partition
    * `as_topic`: another topic name for what is restored
    * `topic_id`: the topic's id in the cluster
    * `config`: settings under Kafka's names
    * `at`: the time in ms to treat as now
    * `hold`: `-delete` directories only become `-stray`
    * `quarantine`: where removed bytes are kept, if not beside each directory
    * `expected`: the result of `plan_undelete_all`: if a directory has changed since, nothing is done
    """
    wanted = Wanted(
        topic=topic,
        partitions=partitions,
        source=source,
        as_topic=as_topic,
        topic_id=topic_id,
        config=config,
        at=at,
        hold=hold,
    ).checked()
    return _undelete(paths, wanted, quarantine, expected)


def _undelete(
    paths: Sequence[PathLike], wanted: Wanted, quarantine: PathLike | None, expected: Sequence[Undeletion] | None
) -> list[UndeleteResult]:
    agreed = None if expected is None else {planned.root: planned for planned in expected}
    return carry_out(_UndeleteJob(_roots(paths), wanted, keeping_in(quarantine), agreed))


class _UndeleteJob(Job[Undeletion, UndeleteResult]):
    """Restore deleted data; a directory that holds none of it has no part in the job."""

    def __init__(
        self, roots: Sequence[str], wanted: Wanted, keeping: Keeping, expected: Mapping[str, Undeletion] | None
    ) -> None:
        super().__init__(roots, keeping)
        self._wanted = wanted
        self._expected = expected
        self._planning = _Planning(self.files, roots, wanted)

    def plan(self, opened: Transaction) -> Undeletion | None:
        return self._planning.plan(opened.root)

    def join(self, plans: list[tuple[str, Undeletion]]) -> list[tuple[str, Undeletion]]:
        joined = self._planning.joined(dict(plans))
        for root in joined if self._expected is not None else ():
            if root not in (self._expected or {}):
                raise RecoveryRefused(f"{root} changed since the plan was made; make a new one", reason="changed")
        return list(joined.items())

    def changes(self, planned: Undeletion) -> Undeletion:
        return planned

    def agreed(self, root: str) -> Survey | None:
        return None if self._expected is None else self._expected[root].survey

    def act(self, opened: Transaction, planned: Undeletion) -> UndeleteResult:
        directories = frozenset(path for path in planned.survey.directories if "/" not in path)
        done = execute(opened, planned, lambda: survey(opened.root, only=directories))
        return UndeleteResult(planned, done.run_id or "", done.quarantine or "")


def _roots(paths: Sequence[PathLike]) -> list[str]:
    return list(dict.fromkeys(root_of_runs(path) for path in log_directories(paths)))


class _Planning:
    """Plans for log directories; surveys are closed with `files`."""

    def __init__(self, files: ExitStack, roots: Sequence[str], wanted: Wanted) -> None:
        self._files = files
        self._roots = roots
        self._wanted = wanted
        self._nothing: RecoveryRefused | None = None

    @cached_property
    def _facts(self) -> Mapping[str, TopicFacts]:
        return facts_of_each(self._roots)

    def plan(self, root: str) -> Undeletion | None:
        """None if the directory holds nothing of the topic that was deleted."""
        try:
            return plan_directory(self._files, root, self._wanted, self._facts[root])
        except RecoveryRefused as refused:
            if refused.reason != "nothing":
                raise
            self._nothing = self._nothing or refused
            return None

    def joined(self, plans: dict[str, Undeletion]) -> dict[str, Undeletion]:
        """The plans, with empty partitions out of the way; `RecoveryRefused` if no directory has anything."""
        roots = self._roots
        if not plans and self._nothing is not None:
            raise self._nothing if len(roots) == 1 else nothing_in(roots, self._wanted)
        for siblings in of_one_broker(roots):
            for root, emptied in in_the_way([plans[each] for each in siblings if each in plans], siblings).items():
                plans[root] = plan_directory(self._files, root, self._wanted, self._facts[root], emptied)
        return {root: plans[root] for root in roots if root in plans}


def _plan_all(stack: ExitStack, roots: Sequence[str], wanted: Wanted) -> list[Undeletion]:
    """A plan for each log directory that holds something of the topic; `RecoveryRefused` where none does."""
    planning = _Planning(stack, roots, wanted)
    plans: dict[str, Undeletion] = {}
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
