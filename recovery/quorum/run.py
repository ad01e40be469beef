"""The public calls: plan a quorum's return, and carry it out under the locks, each directory as a run of its own."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from kafkalog import __version__
from kafkalog.cluster.quorum_log import root_of_metadata
from kafkalog.codec.arguments import checked
from kafkalog.codec.errors import RecoveryRefused, StorageError
from kafkalog.codec.names import CLUSTER_METADATA_DIRECTORY, META_PROPERTIES
from kafkalog.codec.text import encode_meta_properties, encode_uuid, meta_properties
from kafkalog.log.directory import new_directory
from kafkalog.log.storage.content import ContentSource
from kafkalog.recovery.fs import PIECE, FileSystem, Owner
from kafkalog.recovery.lock import BrokerLock, refuse_if_locked
from kafkalog.recovery.quarantine import Runs
from kafkalog.recovery.quorum.metadata_tree import content_elsewhere
from kafkalog.recovery.quorum.plan import DirectoryChange, QuorumPlan, make_plan
from kafkalog.recovery.quorum.request import QuorumRequest, QuorumWay
from kafkalog.recovery.rules import Rules
from kafkalog.recovery.run import RecoveryOptions, complete_earlier
from kafkalog.recovery.runner import Completed, act, refuse_foreign, refuse_place
from kafkalog.recovery.survey import survey
from kafkalog.recovery.topic_facts import NO_FACTS
from kafkalog.recovery.workers import Workers

__all__ = ["QuorumResult", "plan_quorum", "recover_quorum"]


@dataclass(frozen=True, slots=True)
class DirectoryRun:
    """What was done to one directory; `run_id` is None if there was nothing to do."""

    root: str
    run_id: str | None
    quarantine: str | None
    earlier: Completed = field(default_factory=Completed)


@dataclass(frozen=True, slots=True)
class QuorumResult:
    """What `recover_quorum` did; each directory has a run of its own."""

    plan: QuorumPlan
    runs: tuple[DirectoryRun, ...]
    into: str | None = None
    """the new controller's directory"""

    @property
    def changed(self) -> bool:
        """Whether anything was changed."""
        return self.into is not None or any(each.run_id or each.earlier.completed for each in self.runs)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            **self.plan.as_dict(),
            "changed": self.changed,
            "into": self.into,
            "runs": [
                {
                    "path": each.root,
                    "run_id": each.run_id,
                    "quarantine": each.quarantine,
                    "completed_runs": list(each.earlier.completed),
                    "superseded_runs": dict(each.earlier.superseded),
                }
                for each in self.runs
            ],
        }


def _new_directory_id() -> str:
    """As Kafka makes one: no dash first, which a command line would take for an option (`Uuid.randomUuid`)."""
    while True:
        text = encode_uuid(uuid.uuid4().bytes)
        if not text.startswith("-"):
            return text


@checked
def plan_quorum(wanted: QuorumRequest) -> QuorumPlan:
    """What `recover_quorum` would do; only reads.  Errors are those of `recover_quorum`.

    The plan's surveys keep files open; `close()` closes them.
    """
    wanted = wanted.checked()
    with ExitStack() as stack:
        made = make_plan(stack, wanted, wanted.directory_id or _new_directory_id(), refuse_if_locked)
        if wanted.into is not None:
            new_directory(wanted.into, beside=made.donor.root)
        stack.pop_all()
        return made


@checked
def recover_quorum(
    wanted: QuorumRequest,
    *,
    quarantine: str | None = None,
    expected: QuorumPlan | None = None,
    on_plan: Callable[[QuorumPlan], None] | None = None,
) -> QuorumResult:
    """Bring a quorum back: cut what is torn, append the new voters, and give all of its directories the best log.

    All directories are locked before the first is changed.  Each is changed as a run of its own, with a journal and a
    quarantine, and put back by `undo`; a run that was cut short is completed first.  Raises `UsageError` for a request
    that makes no sense, `StorageError` for I/O, and `RecoveryRefused`, with nothing changed, if it cannot be done or
    needs consent.
    """
    wanted = wanted.checked()
    with ExitStack() as stack:
        opened = []
        for root in _targets(wanted):
            fs = FileSystem(root)
            stack.callback(fs.close)
            stack.enter_context(BrokerLock(fs))
            kept = Runs(root, quarantine)
            refuse_foreign(kept, None)
            opened.append((fs, kept))
        options = RecoveryOptions(rules=Rules(topics=NO_FACTS, at=wanted.at).settled(()))
        earlier = {fs.root: complete_earlier(fs, kept, options, Workers()) for fs, kept in opened}
        held = frozenset(fs.root for fs, _ in opened)

        def refuse_in_use(root: str) -> None:
            if root not in held:
                refuse_if_locked(root)

        made = make_plan(stack, wanted, wanted.directory_id or _new_directory_id(), refuse_in_use)
        was_cut_short = any(each.completed for each in earlier.values())
        changed = None if expected is None or was_cut_short else expected.first_change(made)
        if changed is not None:
            raise RecoveryRefused(f"{changed} changed since the plan was made; make a new one", reason="changed")
        if wanted.into is not None:
            new_directory(wanted.into, beside=made.donor.root)
        if on_plan is not None:
            on_plan(made)
        if wanted.way is QuorumWay.FROM_BROKER:
            return QuorumResult(made, (), _make_controller(made))
        by_root = {fs.root: (fs, kept) for fs, kept in opened}
        for each in made.changes:
            if each.actions:
                refuse_place(by_root[each.root][1], each)
        return QuorumResult(made, tuple(_act(each, *by_root[each.root], earlier[each.root]) for each in made.changes))


def _targets(wanted: QuorumRequest) -> list[str]:
    return list(dict.fromkeys(root_of_metadata(path)[0] for path in wanted.targets))


def _act(change: DirectoryChange, fs: FileSystem, kept: Runs, earlier: Completed) -> DirectoryRun:
    if not change.actions:
        return DirectoryRun(change.root, None, None, earlier)
    done = act(
        fs,
        kept,
        change,
        still=lambda: survey(change.root, only=frozenset({CLUSTER_METADATA_DIRECTORY})),
        tool_version=__version__,
        withhold_marker=lambda: None,
    )
    return DirectoryRun(change.root, done.run_id, os.path.join(done.place, done.run_id), earlier)


def _make_controller(made: QuorumPlan) -> str:
    """Write the new controller's directory; `meta.properties` last: without it no controller starts."""
    into, identity = made.wanted.into, made.identity
    if into is None or identity is None:
        raise AssertionError(made.wanted)
    destination = new_directory(into, beside=made.donor.root)
    missing = FileSystem.missing(destination)
    with FileSystem(made.donor.root) as donor, FileSystem.create(destination) as fs:
        owner: Owner = (0o644, donor.owner.st_uid, donor.owner.st_gid)
        try:
            fs.make_directory(CLUSTER_METADATA_DIRECTORY, 0o755)
            for name, content in content_elsewhere(made.metadata.files, made.donor.root).items():
                source = ContentSource(content, made.donor_survey.source)
                fs.write_new(f"{CLUSTER_METADATA_DIRECTORY}/{name}", _pieces(source), source.size, owner)
            fs.sync_directory(CLUSTER_METADATA_DIRECTORY)
            node, directory_id = identity
            cluster = made.quorum.cluster_id
            meta = meta_properties(version=1, node_id=node, cluster_id=cluster, directory_id=directory_id)
            data = encode_meta_properties(meta)
            fs.write_new(META_PROPERTIES, iter([(0, data)]), len(data), owner)
            fs.sync_directory("")
        except (RecoveryRefused, StorageError, KeyboardInterrupt):
            fs.remove_content()
            fs.remove_if_empty(missing)
            raise
    return destination


def _pieces(source: ContentSource) -> Iterator[tuple[int, bytes]]:
    for start in range(0, source.size, PIECE):
        yield start, bytes(source.read(start, PIECE))
