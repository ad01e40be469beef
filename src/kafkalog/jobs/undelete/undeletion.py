"""Putting back what a broker has deleted and not yet removed, as a run of its own: journal, lock and undo."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from kafkalog.codec.errors import RecoveryRefused
from kafkalog.jobs.undelete.putting_back import nothing_in, plan_directory
from kafkalog.jobs.undelete.results import UndeleteResult, Undeletion, in_the_way
from kafkalog.jobs.undelete.wanted import Wanted
from kafkalog.log.disk.files import PathLike
from kafkalog.recovery.act.history import root_of_runs
from kafkalog.recovery.act.transaction import Keeping, Transaction, transaction
from kafkalog.recovery.facts.brokers import facts_of_each, of_one_broker
from kafkalog.recovery.facts.places import log_directories
from kafkalog.recovery.facts.survey import survey
from kafkalog.recovery.facts.topic_facts import read_topic_facts

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
    keeping = Keeping(None if quarantine is None else os.fspath(quarantine))
    agreed = {} if expected is None else {made.root: made for made in expected}
    roots = _roots(paths)
    with ExitStack() as stack:
        opened = {root: stack.enter_context(transaction(root, keeping)) for root in roots}
        for at in opened.values():
            at.refuse_unfinished()
        planned = _plan_all(stack, roots, wanted)
        for made in planned:
            if expected is not None and made.root not in agreed:
                raise RecoveryRefused(f"{made.root} changed since the plan was made; make a new one", reason="changed")
            opened[made.root].refuse_changed(agreed[made.root].survey if agreed else None, made.survey)
            opened[made.root].refuse_place(made)
        return [_done(opened[made.root], made) for made in planned]


def _done(opened: Transaction, made: Undeletion) -> UndeleteResult:
    directories = frozenset(path for path in made.survey.directories if "/" not in path)
    done = opened.act(made, lambda: survey(opened.root, only=directories))
    return UndeleteResult(made, done.run_id, os.path.join(done.place, done.run_id))


def _roots(paths: Sequence[PathLike]) -> list[str]:
    return list(dict.fromkeys(root_of_runs(path) for path in log_directories(paths)))


def _plan_all(stack: ExitStack, roots: Sequence[str], wanted: Wanted) -> list[Undeletion]:
    """A plan for each log directory that holds something of the topic; `RecoveryRefused` where none does."""
    facts = facts_of_each(roots)
    planned: list[Undeletion] = []
    nothing: RecoveryRefused | None = None
    for root in roots:
        try:
            planned.append(plan_directory(stack, root, wanted, facts[root]))
        except RecoveryRefused as refused:
            if refused.reason != "nothing":
                if len(roots) == 1:
                    raise
                raise refused.about(root) from refused
            nothing = nothing or refused
    if not planned and nothing is not None:
        raise nothing if len(roots) == 1 else nothing_in(roots, wanted)
    by_root = {made.root: made for made in planned}
    for siblings in of_one_broker(roots):
        for root, emptied in in_the_way([by_root[each] for each in siblings if each in by_root], siblings).items():
            by_root[root] = plan_directory(stack, root, wanted, facts[root], emptied)
    return [by_root[root] for root in roots if root in by_root]
