"""JSON line of `kafkalog quorum recover`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field, structs

from kafkalog.codec.common.shapes import shaped
from kafkalog.jobs.quorum.expiry import Expiry
from kafkalog.jobs.quorum.planned import QuorumPlan
from kafkalog.jobs.quorum.request import QuorumWay
from kafkalog.jobs.quorum.run import QuorumResult
from kafkalog.jobs.quorum.voters import QuorumMember
from kafkalog.recovery.decide.actions import ActionJson

__all__ = ["QuorumRecoverLine", "plan_line", "result_line"]


class ConfigurationLine(Struct, frozen=True, kw_only=True):
    """Settings that must be put in nodes' properties files."""

    who: str = field(name="for")
    """nodes whose properties files need the settings, in words, for example `controller 3`"""
    lines: list[str]
    """settings as lines of a properties file"""


class DirectoryLine(Struct, frozen=True, kw_only=True):
    """Change of one existing controller's log directory."""

    root: str = field(name="path")
    """path of the controller's log directory"""
    node: int
    """node id of the controller"""
    end_before: int
    """log end offset of the controller's metadata log before the recovery"""
    actions: list[ActionJson]
    """changes of files in this directory, in the order in which they are made; empty if none"""


class RunLine(Struct, frozen=True, kw_only=True):
    """Execution of the recovery in one controller's log directory."""

    path: str
    """path of the controller's log directory"""
    run_id: str | None
    """id of the run, for `undo`; null if nothing had to be changed in this directory"""
    quarantine: str | None
    """directory in which the run keeps the files that it removed or replaced; null if nothing had to be changed"""
    completed_runs: tuple[str, ...]
    """ids of earlier interrupted runs that were completed first, or whose interrupted undo was"""
    superseded_runs: Mapping[str, str]
    """earlier interrupted runs that can no longer be completed, because the directory was changed since: run id ->
    reason
    """
    never_starts: bool
    """whether no Kafka release starts the node on the directory as it is now"""


class QuorumRecoverLine(Struct, frozen=True, kw_only=True):
    """Plan of a quorum recovery and, once it was carried out, its result."""

    way: QuorumWay
    """way of the recovery: `standalone` (one controller becomes the quorum), `together` (the given controllers become
    the quorum), `from_broker` (a new controller is made from a broker's copy)
    """
    cluster_id: str | None = None
    """cluster id from the best copy's `meta.properties`; null if unknown or if there is no plan"""
    static: bool | None = None
    """whether the new quorum has static voters (`controller.quorum.voters`); null if there is no plan"""
    epoch: int | None = None
    """leader epoch in the controllers' new `quorum-state` files, and of the appended batch; if nothing has to be done,
    epoch of the best copy's last record; null if there is no plan
    """
    donor: str | None = None
    """log directory with the best copy of the metadata log, which all controllers of the new quorum get; null
    without a plan
    """
    end_before: int | None = None
    """log end offset of the best copy without a torn end, before the new voter set is appended; null if there is no
    plan
    """
    end: int | None = None
    """log end offset of the metadata log in the new quorum, after the new voter set is appended; null if there is no
    plan
    """
    bytes_appended: int = 0
    """size of the appended batch with the new voter set, in bytes; 0 if no batch is appended"""
    members: Sequence[QuorumMember] = ()
    """controllers of the new quorum"""
    stay_dead: list[int] = []
    """node ids of known voters that are not in the new quorum; they must never be started again with their disks"""
    loss: str | None = None
    """description of the committed metadata that may be lost, as one sentence; null if there is no plan"""
    warnings: list[str] = []
    """consequences to know before the recovery, as sentences"""
    configuration: list[ConfigurationLine] = []
    """settings that must be in properties files before the first start"""
    expiry: list[Expiry] = []
    """data that brokers would delete at their first start, because it has expired meanwhile"""
    directories: list[DirectoryLine] = []
    """planned changes by directory of an existing controller; empty with --from-broker"""
    needless: str | None = None
    """reason why nothing has to be done; null if something has to be done, or if there is no plan"""
    changed: bool = False
    """whether anything was changed on disk, including by completing earlier interrupted runs"""
    into: str | None = None
    """log directory of the new controller, once it was written; null without --from-broker, or if nothing was written
    """
    runs: list[RunLine] = []
    """runs that carried out the recovery, one per existing controller's directory; empty if nothing was carried out"""
    refusal: str | None = None
    """reason why the recovery was refused; null if it was not"""


def plan_line(plan: QuorumPlan) -> QuorumRecoverLine:
    """Return the `--json` line of a plan that was not carried out: `changed` is false, and it has no executions."""
    own = {member.node for member in plan.members}
    return QuorumRecoverLine(
        way=plan.wanted.way,
        cluster_id=plan.quorum.cluster_id,
        static=plan.is_static,
        epoch=plan.epoch,
        donor=plan.donor.root,
        end_before=plan.metadata.end_before,
        end=plan.metadata.end,
        bytes_appended=len(plan.metadata.batch),
        members=plan.members,
        stay_dead=[other.node for other in plan.others if other.node not in own],
        loss=plan.quorum.loss(),
        warnings=plan.warnings,
        configuration=[ConfigurationLine(who=who, lines=lines) for who, lines in plan.configuration],
        expiry=plan.expiry,
        directories=shaped(plan.changes, list[DirectoryLine]),
        needless=plan.needless,
    )


def result_line(result: QuorumResult) -> QuorumRecoverLine:
    """Return the `--json` line of a recovery that was carried out: the fields of its plan, with `changed`, `into` and
    the execution on each directory.
    """
    runs = [
        RunLine(
            path=run.root, run_id=run.run_id, quarantine=run.quarantine, completed_runs=run.earlier.completed,
            superseded_runs=run.earlier.superseded, never_starts=run.never_starts,
        )
        for run in result.runs
    ]  # fmt: skip
    return structs.replace(plan_line(result.plan), changed=result.changed, into=result.into, runs=runs)
