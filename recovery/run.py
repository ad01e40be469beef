"""Public functions `plan`, `recover` and `recover_into`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from msgspec import structs

from kafkalog.codec.common.advice import Ask, Sentence
from kafkalog.codec.common.arguments import Count
from kafkalog.codec.common.errors import StorageError, UsageError
from kafkalog.codec.names import CLUSTER_METADATA_DIRECTORY
from kafkalog.log.directories.workers import OnProgress, Workers
from kafkalog.log.directories.zookeeper_directories import without_zookeeper
from kafkalog.log.disk.files import PathLike, refuse_no_path
from kafkalog.recovery.act.job import by_root, keeping_in
from kafkalog.recovery.act.working_copy import copy_for
from kafkalog.recovery.decide.node_part import with_nodes
from kafkalog.recovery.decide.plan import Plan
from kafkalog.recovery.decide.refusals import marker_for_all
from kafkalog.recovery.duplicates import tell_duplicates
from kafkalog.recovery.facts.brokers import facts_of_each
from kafkalog.recovery.facts.places import by_log_directory, chosen_directories, holding, log_directories, root_of
from kafkalog.recovery.facts.recovery_request import Recovery, Rules, rules_of, settled
from kafkalog.recovery.facts.survey import survey
from kafkalog.recovery.modes.table import Mode
from kafkalog.recovery.recovery_job import plan_survey, recover_places
from kafkalog.recovery.results import RecoveryResult
from kafkalog.recovery.settled_rules import refuse_copies, rules_for_each

__all__ = ["in_place", "log_directory_of", "plan", "plan_one", "recover", "recover_into", "together"]


def log_directory_of(path: PathLike) -> str:
    """Log directory of a path: itself, or the one that contains the partition directory. Raises `UsageError` for
    another path, `RecoveryRefused` for a symbolic link to a partition directory, `StorageError` if it cannot be listed.
    """
    return root_of(path)[0]


def plan(
    request: Recovery | PathLike, *paths: PathLike, jobs: Count = 1, on_progress: OnProgress | None = None
) -> list[Plan]:
    """Return what `recover` would do, and what the broker would do; reads only.

    Returns a plan for each log directory, in the order in which they are named first. Partitions that cannot be read
    are left out and named in the plan's `declined`.

    Raises `UsageError` if there is no path or a path is none of the directories below. It is raised too if the request
    contradicts itself, names an unknown release or has settings that Kafka would refuse. Raises `UnknownName` if a
    selected topic or partition does not exist, or if one of the log directories has no selected partition. Raises
    `UsageError` if all selected partitions are excluded. Raises `RecoveryRefused` for a symbolic link to a partition
    directory, or if lost `meta.properties` cannot be reconstructed. Raises `StorageError` for I/O errors outside the
    partitions.

    * `request`: how to recover; may be left out for the defaults
    * `paths`: log directories, their parents, or partition directories; beside these, the data directories of
      ZooKeeper, which decide what a broker with ZooKeeper serves after a start
    * `jobs`: how many partitions are examined at a time, each in its own process
    * `on_progress`: called with a `ProgressState` now and then
    """
    wanted, given = _asked(request, paths)
    places, zookeepers = without_zookeeper(given)
    wanted = structs.replace(in_place(wanted), beside=(*wanted.beside, *zookeepers))
    holding(places, wanted.select)
    directories = by_log_directory(log_directories(places))
    rules = rules_for_each(wanted, [log_directory_of(path) for path, *_also in directories])
    plans = [
        plan_one(
            path, rules[log_directory_of(path)], also=also, jobs=jobs, on_progress=on_progress, is_one_of_several=True
        )
        for path, *also in directories
    ]
    return together(plans, wanted, rules)


def together(plans: Sequence[Plan], request: Recovery, rules: Mapping[str, Rules]) -> list[Plan]:
    """Return the plans for several log directories, in order, with the results that need all of them: the predicted
    start of each node, and refusals for partitions that are live in two directories of one broker. `rules` are by log
    directory. The given plans are not changed. Raises `StorageError` if a file that a start reads, or a directory,
    cannot be read. Raises `UsageError` if the release asked about is not known.
    """
    return [replace(plan, request=request) for plan in tell_duplicates(with_nodes(plans, rules))]


def in_place(request: Recovery) -> Recovery:
    """Return the request for a recovery of the log directories themselves. Without a remote tier it is returned
    unchanged. With a remote tier its mode becomes `Mode.REMOTE`: the remote part of a log stays in the tier. Raises
    `UsageError` if there is a remote tier and the requested mode is neither this mode nor the default (safe).
    """
    if request.remote_logs is None:
        return request
    if request.mode not in (Mode.SAFE, Mode.REMOTE):
        raise UsageError(
            Sentence(f"with a remote tier, a log directory is recovered in mode remote, not {request.mode}; in a copy, "
                     "made with ", Ask.INTO, ", other modes follow after the tier's segments were put back")
        )  # fmt: skip
    return structs.replace(request, mode=Mode.REMOTE)


def _is_metadata_log(path: PathLike) -> bool:
    return os.path.basename(os.path.normpath(os.fspath(path))) == CLUSTER_METADATA_DIRECTORY


def _asked(request: Recovery | PathLike, paths: Sequence[PathLike]) -> tuple[Recovery, Sequence[PathLike]]:
    """Split the arguments of a call into request and paths; without a request the first argument is a path."""
    return (request, paths) if isinstance(request, Recovery) else (Recovery(), [request, *paths])


def plan_one(
    path: PathLike,
    request: Recovery,
    *,
    also: Sequence[PathLike] = (),
    jobs: Count = 1,
    on_progress: OnProgress | None = None,
    is_one_of_several: bool = False,
) -> Plan:
    """Return the plan for one log directory; reads only. Raises `UsageError`, `UnknownName`, `RecoveryRefused` and
    `StorageError` as `plan` does.

    * `path`: the log directory, or a partition directory in it
    * `request`: how to recover
    * `also`: more paths of this log directory
    * `jobs`: how many partitions are examined at a time, each in its own process
    * `on_progress`: called with a `ProgressState` now and then
    * `is_one_of_several`: the node's start is not predicted, because `with_nodes` does that for all plans together
    """
    refuse_copies(request)
    root, only = chosen_directories([path, *also], request.select)
    workers = Workers(jobs, on_progress)
    with survey(root, only=only, on_read=workers.read, tolerant=True) as found:
        rules = settled(request, [root])
        plan = replace(plan_survey(found, workers, rules), request=request)
        return plan if is_one_of_several else with_nodes([plan], {root: rules})[0]


def recover(
    request: Recovery | PathLike,
    *paths: PathLike,
    expected: Sequence[Plan | None] | None = None,
    jobs: Count = 1,
    on_progress: OnProgress | None = None,
    on_plan: Callable[[Plan], None] | None = None,
) -> list[RecoveryResult]:
    """Recover log directories of one broker, or of several, under their locks and with a journal. Return a result for
    each log directory, in the order in which they are named first.

    All locks are acquired and all directories planned for before the first is changed, so a refused plan changes none.
    The error names all directories that are declined, and has the reports of all. If changing a later directory fails,
    those before it stay changed, and the error names them and their executions. If an execution was interrupted on a
    directory, that execution is completed there and nothing else is done. The metadata log of a broker applies to all
    of its directories, whichever of them contains it. A partition that cannot be recovered or read is left unchanged
    and named in the result's `declined`.

    Raises `RecoveryRefused` if nothing can be done, or if records that can be read would be lost without consent. It is
    raised too if a directory is locked or has changed, or a partition is live in two log directories of one broker. The
    same holds if the quarantine is not usable, or permissions or space are missing. Raises `UsageError`, `UnknownName`
    and `StorageError` as `plan` does. Raises `UsageError` also if `expected` has another number of entries than there
    are log directories. Raises it too for `mark_clean` with a selection of partitions, even if all are selected.

    * `request`: how to recover; may be left out for the defaults
    * `paths`: log directories, their parents, or partition directories
    * `expected`: an earlier plan for each log directory, None for one that is not compared. Nothing is done if a
      directory has changed since, or if the plan is for another request. `accept_loss`, `complete`, `mark_clean`,
      `moved` and `quarantine` may differ
    * `jobs`: how many partitions are examined at a time, each in its own process
    * `on_progress`: called with a `ProgressState` now and then
    * `on_plan`: called with each plan before the first is carried out, except for directories with an interrupted
      execution. If it raises an exception, nothing is changed and the exception is passed on
    """
    wanted, named = _asked(request, paths)
    wanted = in_place(wanted)
    refuse_copies(wanted)
    holding(named, wanted.select)
    places = [chosen_directories(group, wanted.select) for group in by_log_directory(log_directories(named))]
    if wanted.mark_clean:
        _refuse_half_a_marker(places)
    keeping = keeping_in(wanted.quarantine, moved=wanted.moved)
    plans = by_root([root for root, _only in places], expected)
    return recover_places(places, wanted, keeping, plans, on_plan, Workers(jobs, on_progress))


def _refuse_half_a_marker(places: Sequence[tuple[str, frozenset[str] | None]]) -> None:
    for root, only in places:
        if only is not None:
            raise UsageError(marker_for_all(root)).concerning(root)


def recover_into(
    request: Recovery | PathLike,
    *paths: PathLike,
    target: PathLike,
    jobs: Count = 1,
    on_progress: OnProgress | None = None,
    on_plan: Callable[[Plan], None] | None = None,
) -> RecoveryResult:
    """Copy a log directory to `target`, which must be new or empty, and recover the copy, not the original. Returns the
    result for the copy.

    Partitions that cannot be read, or have links or special files, are not in the copy; the result's `declined` names
    them. With `remote_logs` in the request, missing and damaged segments of tiered logs are first copied from the
    remote tier. After an error the copy is removed, unless an execution on it was interrupted.

    Raises `UsageError` unless exactly one log directory is given, and for a partition directory or a `target` that is
    refused. Raises `RecoveryRefused` if the original is in use, has an interrupted execution, directly contains links
    or special files, or is nested too deep. Raises `StorageError` if a file cannot be read or copied, and the errors of
    `recover`.

    * `request`: how to recover; may be left out for the defaults
    * `paths`: one log directory; beside it, the metadata log in another log directory of the broker, which is only read
    * `target`: the directory of the copy
    * `jobs`: how many partitions are examined at a time, each in its own process
    * `on_progress`: called with a `ProgressState` now and then
    * `on_plan`: called with the plan before the copy is changed; an exception that it raises declines the plan
    """
    wanted, named = _asked(request, paths)
    refuse_no_path(named)
    beside = [path for path in named if _is_metadata_log(path)]
    path, *others = [path for path in named if path not in beside] or named
    if others:
        raise UsageError(f"one log directory is recovered into {os.fspath(target)}, not {1 + len(others)}")
    root, topics = os.path.realpath(path), wanted.topics
    if beside and path not in beside and topics is None:
        topics = facts_of_each([root, *map(log_directory_of, beside)])[root]

    def recover_copy(destination: str, lacking: Mapping[str, StorageError]) -> RecoveryResult:
        facts = topics if topics is None else replace(topics, roots=(destination,))  # the copy is not beside the others
        rules: Rules = rules_of(wanted, lacking=lacking, topics=facts)
        if rules.remote_logs is not None:
            rules.remote_logs.restore(destination, rules.select)
            rules = structs.replace(rules, remote_logs=None, full=True)
        return recover(rules, destination, jobs=jobs, on_progress=on_progress, on_plan=on_plan)[0]

    return copy_for(path, target, recover_copy)
