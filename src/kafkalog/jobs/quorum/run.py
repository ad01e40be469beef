"""The public calls: plan a quorum's return, and carry it out under the locks, each directory as a run of its own."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import msgspec
from msgspec import Struct

from kafkalog.cluster.kraft.quorum_log import root_of_metadata
from kafkalog.codec.errors import RecoveryRefused
from kafkalog.codec.names import CLUSTER_METADATA_DIRECTORY, META_PROPERTIES
from kafkalog.codec.text import encode_meta_properties, encode_uuid, meta_properties
from kafkalog.jobs.quorum.metadata_tree import content_elsewhere
from kafkalog.jobs.quorum.plan import make_plan
from kafkalog.jobs.quorum.planned import DirectoryChange, QuorumPlan
from kafkalog.jobs.quorum.request import QuorumRequest, QuorumWay
from kafkalog.log.directories.directory import new_directory
from kafkalog.log.storage.content import ContentSource
from kafkalog.recovery.act.fs import PIECE, FileSystem, Owner
from kafkalog.recovery.act.lock import refuse_if_locked
from kafkalog.recovery.act.runner import CompletedRuns
from kafkalog.recovery.act.transaction import Keeping, Transaction, transaction
from kafkalog.recovery.act.working_copy import new_tree
from kafkalog.recovery.facts.survey import survey

__all__ = ["QuorumResult", "plan_quorum", "recover_quorum"]


class DirectoryRun(Struct, frozen=True):
    """What was done to one directory; `run_id` is None if there was nothing to do."""

    root: str
    run_id: str | None
    quarantine: str | None
    earlier: CompletedRuns = msgspec.field(default_factory=CompletedRuns)


class QuorumResult(Struct, frozen=True):
    """What `recover_quorum` did; each directory has a run of its own."""

    plan: QuorumPlan
    runs: tuple[DirectoryRun, ...]
    into: str | None = None
    """the new controller's directory"""

    @property
    def changed(self) -> bool:
        """Whether anything was changed."""
        return self.into is not None or any(each.run_id or each.earlier.completed for each in self.runs)


def _new_directory_id() -> str:
    """A directory id as Kafka makes one.

    No dash first, which a command line would take for an option (`Uuid.randomUuid`).
    """
    while True:
        text = encode_uuid(uuid.uuid4().bytes)
        if not text.startswith("-"):
            return text


def plan_quorum(wanted: QuorumRequest) -> QuorumPlan:
    """What `recover_quorum` would do; only reads.  Errors are those of `recover_quorum`.

    The plan's surveys keep files open; `close()` closes them.

    * `wanted`: what is asked for (`QuorumRequest`)
    """
    wanted = wanted.checked()
    with ExitStack() as stack:
        made = make_plan(stack, wanted, wanted.directory_id or _new_directory_id(), refuse_if_locked)
        if wanted.into is not None:
            new_directory(wanted.into, beside=made.donor.root)
        stack.pop_all()
        return made


def recover_quorum(
    wanted: QuorumRequest,
    *,
    quarantine: str | None = None,
    expected: QuorumPlan | None = None,
    on_plan: Callable[[QuorumPlan], None] | None = None,
) -> QuorumResult:
    """Bring a quorum back: cut what is torn, append the new voters, and give all of its directories the best log.

    All directories are locked before the first is changed.  Each is changed as a run of its own, with a journal and a
    quarantine, and put back by `undo`.  Raises `UsageError` for a request
    that makes no sense, `StorageError` for I/O, and `RecoveryRefused`, with nothing changed, if it cannot be done,
    needs consent, or a run was cut short.

    * `wanted`: what is asked for (`QuorumRequest`)
    * `quarantine`: where runs keep what they removed, if it is not the usual place
    * `expected`: an earlier plan; if a directory has changed since, nothing is done
    * `on_plan`: called with the plan before anything is changed
    """
    wanted = wanted.checked()
    with ExitStack() as stack:
        opened = {}
        for root in _targets(wanted):
            at = stack.enter_context(transaction(root, Keeping(quarantine)))
            at.refuse_unfinished()
            opened[at.root] = at

        def refuse_in_use(root: str) -> None:
            if root not in opened:
                refuse_if_locked(root)

        made = make_plan(stack, wanted, wanted.directory_id or _new_directory_id(), refuse_in_use)
        changed = None if expected is None else expected.first_change(made)
        if changed is not None:
            raise RecoveryRefused(f"{changed} changed since the plan was made; make a new one", reason="changed")
        if wanted.into is not None:
            new_directory(wanted.into, beside=made.donor.root)
        if on_plan is not None:
            on_plan(made)
        if wanted.way is QuorumWay.FROM_BROKER:
            return QuorumResult(made, (), _make_controller(made))
        for each in made.changes:
            opened[each.root].refuse_place(each)
        return QuorumResult(made, tuple(_act(each, opened[each.root]) for each in made.changes))


def _targets(wanted: QuorumRequest) -> list[str]:
    return list(dict.fromkeys(root_of_metadata(path)[0] for path in wanted.targets))


def _act(change: DirectoryChange, at: Transaction) -> DirectoryRun:
    earlier = at.settle()
    if not change.actions:
        return DirectoryRun(change.root, None, None, earlier)
    done = at.act(change, lambda: survey(change.root, only=frozenset({CLUSTER_METADATA_DIRECTORY})))
    return DirectoryRun(change.root, done.run_id, os.path.join(done.place, done.run_id), earlier)


def _make_controller(made: QuorumPlan) -> str:
    """Write the new controller's directory; `meta.properties` last: without it no controller starts."""
    into, identity = made.wanted.into, made.identity
    if into is None or identity is None:
        raise AssertionError(made.wanted)
    destination = new_directory(into, beside=made.donor.root)
    with FileSystem(made.donor.root) as donor, new_tree(destination) as fs:
        owner: Owner = (0o644, donor.owner.st_uid, donor.owner.st_gid)
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
    return destination


def _pieces(source: ContentSource) -> Iterator[tuple[int, bytes]]:
    for start in range(0, source.size, PIECE):
        yield start, bytes(source.read(start, PIECE))
