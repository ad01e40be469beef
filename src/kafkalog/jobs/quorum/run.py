"""Public calls: plan the recovery of a quorum, and carry it out under the locks, as a separate execution in each
directory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack

import msgspec
from msgspec import Struct, structs

from kafkalog.cluster.kraft.quorum_log import root_of_metadata
from kafkalog.codec.common.errors import RecoveryRefused
from kafkalog.codec.files.text import encode_meta_properties, meta_properties
from kafkalog.codec.names import CLUSTER_METADATA_DIRECTORY, META_PROPERTIES
from kafkalog.jobs.quorum.metadata_tree import content_elsewhere
from kafkalog.jobs.quorum.plan import make_plan
from kafkalog.jobs.quorum.planned import DirectoryChange, QuorumPlan
from kafkalog.jobs.quorum.request import QuorumRecovery, QuorumWay
from kafkalog.log.directories.directory import new_directory
from kafkalog.log.disk.files import PathLike
from kafkalog.log.storage.content import ContentSource
from kafkalog.recovery.act.fs import PIECE, FileSystem, Owner
from kafkalog.recovery.act.job import Job, carry_out, execute, keeping_in, refuse_other_request
from kafkalog.recovery.act.lock import refuse_if_locked
from kafkalog.recovery.act.runner import CompletedRuns
from kafkalog.recovery.act.transaction import Transaction, refuse_unfinished
from kafkalog.recovery.act.working_copy import new_tree
from kafkalog.recovery.broker.node.answer import NodeStart
from kafkalog.recovery.broker.node_start import node_start
from kafkalog.recovery.facts.survey import survey

__all__ = ["QuorumResult", "plan_quorum", "recover_quorum"]


class DirectoryRun(Struct, frozen=True, kw_only=True):
    """Result for one directory; `run_id` is None if there was nothing to do."""

    root: str
    run_id: str | None
    quarantine: str | None
    earlier: CompletedRuns = msgspec.field(default_factory=CompletedRuns)
    start: NodeStart | None = None
    """forecast of the node's start on the directory as it is afterwards"""

    @property
    def never_starts(self) -> bool:
        """Whether the node does not start on the directory, by any release."""
        return self.start is not None and self.start.never_starts


class QuorumResult(Struct, frozen=True):
    """Result of `recover_quorum`; each directory has an execution of its own."""

    plan: QuorumPlan
    runs: tuple[DirectoryRun, ...]
    into: str | None = None
    """directory of the new controller; None if none was made"""

    @property
    def changed(self) -> bool:
        """Whether anything was changed."""
        return self.into is not None or any(run.run_id or run.earlier.completed for run in self.runs)


def plan_quorum(request: QuorumRecovery, *paths: PathLike) -> QuorumPlan:
    """Plan what `recover_quorum` would do; reads only. The plan's surveys keep files open; `close()` closes them.

    Raises `UsageError` for an invalid request, a path without a metadata log or an unsuitable new directory. Raises
    `StorageError` if a file cannot be read. Raises `RecoveryRefused` if the recovery is impossible, needs consent, or
    if a directory is in use or has an interrupted execution.

    * `request`: the way, and further directories to read (`QuorumRecovery`)
    * `paths`: log directories of the controllers that will form the quorum; none in the way `FROM_BROKER`
    """
    wanted, roots = request.checked(paths), _roots(paths)
    refuse_unfinished(roots)
    with ExitStack() as stack:
        quorum_plan = make_plan(stack, wanted, roots, refuse_if_locked)
        quorum_plan.request = request
        if wanted.into is not None:
            new_directory(wanted.into, beside=quorum_plan.donor.root)
        stack.pop_all()
        return quorum_plan


def _roots(paths: Sequence[PathLike]) -> list[str]:
    return list(dict.fromkeys(root_of_metadata(os.fspath(path))[0] for path in paths))


def recover_quorum(
    request: QuorumRecovery,
    *paths: PathLike,
    expected: QuorumPlan | None = None,
    on_plan: Callable[[QuorumPlan], None] | None = None,
) -> QuorumResult:
    """Recover a quorum: truncate torn tails, append the new voters, and write the best log into the directories of all
    its controllers. In the way `FROM_BROKER`, write a new controller's directory instead. Return the plan, the result
    for each directory, and the path of the new directory (None without one). If nothing has to be done (`needless` of
    the plan), nothing is changed.

    All directories are locked and planned for before the first is changed, so a refused plan changes none. Each is
    changed by an execution of its own, with a journal and a quarantine, which `undo` reverses. If changing a later
    directory fails, those before it stay changed, and the error names them. Raises `UsageError` for an invalid request,
    a path without a metadata log, or an unsuitable new directory. Raises `RecoveryRefused` if the recovery is
    impossible, needs consent, or if a directory is in use or has an interrupted execution. Raises `StorageError` if a
    file cannot be read or written.

    * `request`: the way, and further directories to read (`QuorumRecovery`)
    * `paths`: log directories of the controllers that will form the quorum; none in the way `FROM_BROKER`
    * `expected`: an earlier plan, whose new directory id replaces that of the request. If a directory has changed since
      then, or if the plan is for another request, `RecoveryRefused` is raised and nothing is changed
    * `on_plan`: called with the plan before anything is changed; an exception that it raises declines the plan
    """
    if expected is not None:
        refuse_other_request(expected.request, request)
        request = structs.replace(request, directory_id=expected.wanted.directory_id)  # the one that was shown
    job = _QuorumJob(request.checked(paths), _roots(paths), expected, on_plan)
    runs = carry_out(job)
    return QuorumResult(job.whole, tuple(runs), job.into)


class _QuorumJob(Job[QuorumRecovery, DirectoryChange, DirectoryRun]):
    """Recover a quorum, with one plan for all of its directories."""

    whole: QuorumPlan
    into: str | None = None

    def __init__(
        self,
        wanted: QuorumRecovery,
        roots: list[str],
        expected: QuorumPlan | None,
        on_plan: Callable[[QuorumPlan], None] | None,
    ) -> None:
        super().__init__(roots, keeping_in(wanted.quarantine), wanted)
        self._expected = expected
        self._on_plan = on_plan

    def prepare(self, opened: Mapping[str, Transaction]) -> None:
        wanted = self.request

        def refuse_in_use(root: str) -> None:
            if root not in opened:
                refuse_if_locked(root)

        self.whole = make_plan(self.files, wanted, self.roots, refuse_in_use)
        changed = None if self._expected is None else self._expected.first_change(self.whole)
        if changed is not None:
            raise RecoveryRefused(f"{changed} changed since the plan was made; make a new one", reason="changed")
        if wanted.into is not None:
            new_directory(wanted.into, beside=self.whole.donor.root)
        if self._on_plan is not None:
            self._on_plan(self.whole)

    def plan(self, opened: Transaction) -> DirectoryChange | None:
        return next((change for change in self.whole.changes if change.root == opened.root), None)

    def changes(self, planned: DirectoryChange) -> DirectoryChange:
        return planned

    def act(self, opened: Transaction, planned: DirectoryChange) -> DirectoryRun:
        only = frozenset({CLUSTER_METADATA_DIRECTORY})
        done = execute(opened, planned, lambda: survey(opened.root, only=only))
        return DirectoryRun(root=opened.root, run_id=done.run_id, quarantine=done.quarantine, earlier=done.earlier)

    def finish(self, results: list[DirectoryRun]) -> list[DirectoryRun]:
        results = [structs.replace(run, start=node_start([run.root], loads_others=False)) for run in results]
        if self.request.way is QuorumWay.FROM_BROKER:
            self.into = _make_controller(self.whole)
        return results


def _make_controller(quorum_plan: QuorumPlan) -> str:
    """Write the new controller's log directory from the donor's metadata; return its path. `meta.properties` is written
    last, because no controller starts without it. On an error, the files written so far are removed. Raises
    `UsageError` if the directory exists and is not empty, or lies in a log directory; `StorageError` if reading or
    writing fails.
    """
    into, identity = quorum_plan.wanted.into, quorum_plan.identity
    if into is None or identity is None:
        raise AssertionError(quorum_plan.wanted)
    destination = new_directory(into, beside=quorum_plan.donor.root)
    with FileSystem(quorum_plan.donor.root) as donor, new_tree(destination) as fs:
        owner: Owner = (0o644, donor.owner.st_uid, donor.owner.st_gid)
        fs.make_directory(CLUSTER_METADATA_DIRECTORY, 0o755)
        for name, content in content_elsewhere(quorum_plan.metadata.files, quorum_plan.donor.root).items():
            source = ContentSource(content, quorum_plan.donor_survey.source)
            fs.write_new(f"{CLUSTER_METADATA_DIRECTORY}/{name}", _pieces(source), source.size, owner)
        fs.sync_directory(CLUSTER_METADATA_DIRECTORY)
        node, directory_id = identity
        cluster = quorum_plan.quorum.cluster_id
        meta = meta_properties(version=1, node_id=node, cluster_id=cluster, directory_id=directory_id)
        data = encode_meta_properties(meta)
        fs.write_new(META_PROPERTIES, iter([(0, data)]), len(data), owner)
        fs.sync_directory("")
    return destination


def _pieces(source: ContentSource) -> Iterator[tuple[int, bytes]]:
    for start in range(0, source.size, PIECE):
        yield start, bytes(source.read(start, PIECE))
