"""The public calls: plan, recover, undo.  Each takes a log directory, or one partition directory of it."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from kafkalog.codec.errors import RecoveryRefused, UsageError
from kafkalog.codec.names import DirectoryState, parse_partition_directory
from kafkalog.log.directory import is_log_dir, is_partition_dir
from kafkalog.log.files import scan_directory
from kafkalog.recovery.apply import prepare, roll_back, roll_forward
from kafkalog.recovery.bitrepair import Proof
from kafkalog.recovery.broker.settings import LogSettings
from kafkalog.recovery.fs import FileSystem
from kafkalog.recovery.journal import UNDOING
from kafkalog.recovery.lock import BrokerLock, refuse_if_locked
from kafkalog.recovery.modes import Mode
from kafkalog.recovery.plan import Plan, make_plan
from kafkalog.recovery.quarantine import POINTER, Runs, new_run_id
from kafkalog.recovery.survey import Survey, survey
from kafkalog.recovery.topic_facts import TopicFacts, read_topic_facts
from kafkalog.recovery.workers import OnProgress, Workers

__all__ = [
    "RecoveryOptions",
    "RecoveryResult",
    "UndoResult",
    "known_topics",
    "plan",
    "rebuild_indexes",
    "recover",
    "recover_all",
    "recover_into",
    "undo",
]

PathLike = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class RecoveryOptions:
    """What decides a plan besides the directory."""

    mode: Mode | str
    config: Mapping[str, str]
    at: int | None
    full: bool
    topic_id: str | None
    repair_bits: Proof | None = None
    mark_clean: bool = False
    rebuild_indexes: bool = False
    cluster_metadata: bool = False
    topics: TopicFacts | None = None
    """what the cluster knew of the topics; None: read it from the log directories themselves"""


@dataclass(frozen=True, slots=True)
class RecoveryResult:
    """What a recovery did; `run_id` is None if there was nothing to do."""

    plan: Plan
    run_id: str | None
    quarantine: str | None
    completed: tuple[str, ...] = ()
    """earlier runs that had been cut short and were brought to their end first"""

    @property
    def changed(self) -> bool:
        """The directory is not as it was."""
        return self.run_id is not None or bool(self.completed)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            **self.plan.as_dict(),
            "changed": self.changed,
            "run_id": self.run_id,
            "quarantine": self.quarantine,
            "completed_runs": list(self.completed),
        }


@dataclass(frozen=True, slots=True)
class UndoResult:
    """What an undo put back."""

    root: str
    run_id: str
    files: int

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"path": self.root, "run_id": self.run_id, "restored_files": self.files, "changed": True}


@cache
def _tool_version() -> str:
    try:
        return version("kafkalog")
    except PackageNotFoundError:
        return "unknown"


def _root_of(path: PathLike) -> tuple[str, frozenset[str] | None]:
    """The log directory a path means, and the partition directory if it is one."""
    given = os.fspath(path)
    if not os.path.lexists(given):
        raise UsageError(f"{given} does not exist")
    if not os.path.isdir(given):
        raise UsageError(f"{given} is not a directory; give a log directory or a partition directory")
    real = os.path.realpath(given)
    name = os.path.basename(real)
    if is_partition_dir(real):
        if parse_partition_directory(name) is None:
            raise UsageError(f"{given} holds segments, but is not named like a partition (topic-number)")
        return os.path.dirname(real), frozenset({name})
    if not is_log_dir(real):
        raise UsageError(f"{given} is no Kafka log directory: it holds no checkpoint, no marker and no partition")
    return real, None


def _plan(found: Survey, workers: Workers, options: RecoveryOptions) -> Plan:
    LogSettings.from_names(options.config)  # refused before anything is read, topics or none
    topics = read_topic_facts([found.root]) if options.topics is None else options.topics
    now_ms = time.time_ns() // 1_000_000 if options.at is None else options.at
    return make_plan(
        found,
        _mode(options.mode),
        settings=cache(lambda topic: topics.settings(topic, options.config)),
        topics=topics,
        now_ms=now_ms,
        unique=lambda directory: uuid.uuid4().hex,
        full=options.full,
        topic_id=options.topic_id,
        mark_clean=options.mark_clean,
        repair=options.repair_bits,
        rebuild=options.rebuild_indexes,
        cluster_metadata=options.cluster_metadata,
        workers=workers,
    )


def _mode(mode: Mode | str) -> Mode:
    try:
        return Mode(mode)
    except ValueError:
        raise UsageError(f"unknown mode {mode!r}: there is {', '.join(Mode)}") from None


def known_topics(paths: Sequence[PathLike]) -> TopicFacts:
    """What the metadata log in one of several log directories of a broker says of the topics in all of them."""
    return read_topic_facts(_root_of(path)[0] for path in paths)


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
    topics: TopicFacts | None = None,
    jobs: int = 1,
    on_progress: OnProgress | None = None,
) -> Plan:
    """What `recover` would do, and what the broker would do; reads only.

    `config` holds settings under Kafka's names, `at` is the time in ms that counts as now, `full` looks at segments
    below the recovery point too, `topic_id` is for partitions that have lost theirs, `repair_bits` is the least proof
    for turning a flipped bit back (default: never), `cluster_metadata` takes in the metadata log of KRaft, `topics` is
    what the cluster knew of the topics (default: what `__cluster_metadata` in the directory itself says, which wins
    over `config`), `jobs` is how many partitions are looked at at a time, each in a process
    of its own, and `on_progress` is told how far that is.  Raises `UsageError` for a path that is no log directory,
    `StorageError` for I/O.
    """
    root, only = _root_of(path)
    workers = Workers(jobs, on_progress)
    with survey(root, only=only, on_read=workers.read) as found:
        return _plan(
            found,
            workers,
            RecoveryOptions(
                mode, config or {}, at, full, topic_id, repair_bits, cluster_metadata=cluster_metadata, topics=topics
            ),
        )


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
    topics: TopicFacts | None = None,
    mark_clean: bool = False,
    quarantine: PathLike | None = None,
    expected: Plan | None = None,
    jobs: int = 1,
    on_progress: OnProgress | None = None,
) -> RecoveryResult:
    """Plan and act under the broker's lock and a journal; a run that was cut short is completed first.

    Arguments are those of `plan`; `mark_clean` writes a clean-shutdown marker after a second verification from disk
    (modes safe and strict), so that the broker need not look again; `quarantine` is where removed bytes are kept;
    `expected` is a plan made before: if the directory is no longer what it was made from, nothing is done.  Raises
    `RecoveryRefused` if the mode declines, the directory is locked or has changed.
    """
    options = RecoveryOptions(
        mode,
        config or {},
        at,
        full,
        topic_id,
        repair_bits,
        mark_clean,
        cluster_metadata=cluster_metadata,
        topics=topics,
    )
    return recover_all([path], options, quarantine=quarantine, expected=[expected], jobs=jobs, on_progress=on_progress)[
        0
    ]


def recover_all(
    paths: Sequence[PathLike],
    options: RecoveryOptions,
    *,
    quarantine: PathLike | None = None,
    expected: Sequence[Plan | None] | None = None,
    jobs: int = 1,
    on_progress: OnProgress | None = None,
) -> list[RecoveryResult]:
    """Recover several log directories of one broker: all locks are taken before the first is looked at.

    A partition that stands, live, in two of them is refused: a broker would not start on that.
    """
    places = [_root_of(path) for path in paths]
    workers = Workers(jobs, on_progress)
    wanted = list(expected) if expected is not None else [None] * len(places)
    with ExitStack() as stack:
        opened = []
        for root, only in places:
            fs = FileSystem(root)
            stack.callback(fs.close)
            stack.enter_context(BrokerLock(fs))
            opened.append((fs, only))
        _refuse_duplicates([root for root, _only in places])
        if options.topics is None:
            options = replace(options, topics=read_topic_facts(root for root, _only in places))
        return [
            _recover_locked(fs, only, options, quarantine, plan_before, workers)
            for (fs, only), plan_before in zip(opened, wanted, strict=True)
        ]


def rebuild_indexes(
    path: PathLike,
    *,
    config: Mapping[str, str] | None = None,
    at: int | None = None,
    jobs: int = 1,
    on_progress: OnProgress | None = None,
) -> RecoveryResult:
    """Make every index, snapshot and leader epoch of sound logs anew; `RecoveryRefused` if a log is damaged."""
    options = RecoveryOptions(Mode.SAFE, config or {}, at, full=True, topic_id=None, rebuild_indexes=True)
    return recover_all([path], options, jobs=jobs, on_progress=on_progress)[0]


def _refuse_duplicates(roots: Sequence[str]) -> None:
    seen: dict[tuple[str, int], str] = {}
    for root in dict.fromkeys(roots):
        for entry in scan_directory(root):
            name = parse_partition_directory(entry.name) if entry.is_dir(follow_symlinks=False) else None
            if name is None or name.state is not DirectoryState.LIVE:
                continue
            key = (name.topic, name.partition)
            other = seen.setdefault(key, root)
            if other != root:
                raise RecoveryRefused(
                    f"{name} stands in {other} and in {root}: a broker does not start on that; move one of them away",
                    reason="duplicate",
                )


def _recover_locked(
    fs: FileSystem,
    only: frozenset[str] | None,
    options: RecoveryOptions,
    quarantine: PathLike | None,
    expected: Plan | None,
    workers: Workers,
) -> RecoveryResult:
    root = fs.root
    runs = Runs(root, None if quarantine is None else os.fspath(quarantine))
    completed = _complete(fs, runs)
    with ExitStack() as stack:
        found = stack.enter_context(survey(root, only=only, on_read=workers.read))
        if expected is not None and not completed:
            _check_unchanged(expected, found)
        made = _plan(found, workers, options)
        if made.refusal is not None:
            report = RecoveryResult(made, None, None, completed).as_dict()
            raise RecoveryRefused(made.refusal, reason="mode", report=report)
        if not made.changes:
            return RecoveryResult(made, None, None, completed)
        _check_space(fs, made)
        place = runs.create()
        stack.callback(place.close)
        journal = prepare(
            fs,
            place,
            run_id=new_run_id(),
            tool_version=_tool_version(),
            mode=str(made.mode),
            actions=made.actions,
            origin=found.source,
        )
        runs.remember(fs)
        roll_forward(fs, place, journal, before_marker=lambda: _check_marker(root, only, options, workers))
        return RecoveryResult(made, journal.run_id, os.path.join(runs.place, journal.run_id), completed)


def _check_marker(root: str, only: frozenset[str] | None, options: RecoveryOptions, workers: Workers) -> None:
    """Read everything again from disk: a clean-shutdown marker must be true."""
    with survey(root, only=only, on_read=workers.read) as found:
        made = _plan(found, workers, replace(options, full=True, mark_clean=False))
        if made.refusal is not None or made.changes:
            raise RecoveryRefused("the second verification found something to change; no marker is written")


def recover_into(
    path: PathLike,
    target: PathLike,
    options: RecoveryOptions,
    *,
    quarantine: PathLike | None = None,
    jobs: int = 1,
    on_progress: OnProgress | None = None,
) -> RecoveryResult:
    """Copy a log directory to `target`, which must be new or empty, and recover the copy, not the original."""
    root, only = _root_of(path)
    if only is not None:
        raise UsageError(f"{os.fspath(path)} is one partition directory; --into copies a whole log directory")
    destination = os.path.realpath(target)
    if os.path.exists(destination) and (not os.path.isdir(destination) or os.listdir(destination)):
        raise UsageError(f"{os.fspath(target)} is there already and not an empty directory")
    if destination.startswith(os.path.join(root, "")):
        raise UsageError(f"{os.fspath(target)} lies inside the log directory")
    refuse_if_locked(root)
    copy = FileSystem.create(destination)
    try:
        copy.copy_tree(root)
    finally:
        copy.close()
    return recover_all([destination], options, quarantine=quarantine, jobs=jobs, on_progress=on_progress)[0]


def _complete(fs: FileSystem, runs: Runs) -> tuple[str, ...]:
    """Bring to their end what was cut short: runs are completed, undos too."""
    unfinished = runs.unfinished()
    if not unfinished:
        return ()
    place = runs.create()
    try:
        for journal, name in unfinished:
            if name == UNDOING:
                roll_back(fs, place, journal, name)
            else:
                roll_forward(fs, place, journal)
    finally:
        place.close()
    return tuple(journal.run_id for journal, _name in unfinished)


def _check_unchanged(expected: Plan, found: Survey) -> None:
    before = expected.survey
    for path in {*before.files, *found.files}:
        if before.files.get(path) != found.files.get(path) and not path.startswith("."):
            raise RecoveryRefused(f"{path} changed since the plan was made; make a new one", reason="changed")


def _check_space(fs: FileSystem, made: Plan) -> None:
    """Room for tails and new files, twice: staged and in place."""
    needed = 0
    for action in made.actions:
        before = made.survey.files.get(action.path)
        if action.content is not None:
            needed += 2 * action.content.size
        elif action.size is not None and before is not None and action.target is None:
            needed += before.size - action.size
    free = fs.free_bytes()
    if needed > free:
        raise RecoveryRefused(f"{needed} bytes are needed and {free} are free", reason="space")


def undo(path: PathLike, run_id: str | None = None, *, quarantine: PathLike | None = None) -> UndoResult:
    """Put back every byte and time of a run (default: the latest); also of a run that was cut short.

    Raises `RecoveryRefused` if there is no such run, or if a file was changed since.
    """
    given = os.fspath(path)
    if not os.path.isdir(given):
        raise UsageError(f"{given} is not a directory")
    root = os.path.realpath(given)
    if not is_log_dir(root) and is_partition_dir(root):
        root = os.path.dirname(root)
    runs = Runs(root, None if quarantine is None else os.fspath(quarantine))
    runs.undoable(run_id)
    with ExitStack() as stack:
        fs = FileSystem(root)
        stack.callback(fs.close)
        stack.enter_context(BrokerLock(fs))
        journal, name = runs.undoable(run_id)
        place = runs.create()
        stack.callback(place.close)
        roll_back(fs, place, journal, name)
        if not runs.has_runs():
            fs.remove(POINTER)
        return UndoResult(root, journal.run_id, len(journal.steps))
