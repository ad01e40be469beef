"""Line of `kafkalog quorum recover`."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field, structs

from kafkalog.codec.common.shapes import shaped
from kafkalog.jobs.quorum.expiry import Expiry
from kafkalog.jobs.quorum.planned import QuorumPlan
from kafkalog.jobs.quorum.request import QuorumWay
from kafkalog.jobs.quorum.run import QuorumResult
from kafkalog.recovery.decide.actions import ActionJson

__all__ = ["QuorumRecoverLine", "plan_line", "result_line"]


class MemberLine(Struct, frozen=True, kw_only=True):
    """A controller of the new quorum."""

    node: int
    """node id"""
    directory_id: str | None
    """id of its log directory"""
    host: str | None
    """where it listens; null if not known"""
    port: int | None
    """where it listens; null if not known"""


class ConfigurationLine(Struct, frozen=True, kw_only=True):
    """Lines for properties files."""

    who: str = field(name="for")
    """whose"""
    lines: list[str]
    """to be set"""


class DirectoryLine(Struct, frozen=True, kw_only=True):
    """What is done to one controller's directory."""

    root: str = field(name="path")
    """the log directory"""
    node: int
    """node id"""
    end_before: int
    """log end offset of its own log"""
    actions: list[ActionJson]
    """in order"""


class RunLine(Struct, frozen=True, kw_only=True):
    """A run."""

    path: str
    """the log directory"""
    run_id: str | None
    """for undo; null if there was nothing to do"""
    quarantine: str | None
    """where what was there is kept"""
    completed_runs: tuple[str, ...]
    """earlier runs that had been cut short and were completed first"""
    superseded_runs: Mapping[str, str]
    """earlier runs that no longer fit the directory, and why"""
    never_starts: bool
    """whether the node does not start on the directory as it is now"""


class QuorumRecoverLine(Struct, frozen=True, kw_only=True):
    """One line."""

    way: QuorumWay
    """how the quorum comes back"""
    cluster_id: str | None = None
    """of meta.properties"""
    static: bool | None = None
    """whether the voters will be those in the configuration; null if nothing was planned"""
    epoch: int | None = None
    """of the new end; null if nothing was planned"""
    donor: str | None = None
    """the log directory whose metadata all get; null if nothing was planned"""
    end_before: int | None = None
    """where that log ended, a torn end cut off; null if nothing was planned"""
    end: int | None = None
    """where it ends afterwards; null if nothing was planned"""
    bytes_appended: int = 0
    """of the batch with the new voters; 0 if none is needed"""
    members: list[MemberLine] = []
    """the new quorum"""
    stay_dead: list[int] = []
    """controllers that must never start again with their disks"""
    loss: str | None = None
    """what may be lost; one sentence; null if nothing was planned"""
    warnings: list[str] = []
    """what else to know before"""
    configuration: list[ConfigurationLine] = []
    """what must be set before the first start"""
    expiry: list[Expiry] = []
    """what brokers would delete at their first start"""
    directories: list[DirectoryLine] = []
    """of controllers"""
    needless: str | None = None
    """why nothing has to be done; null if something has, or if it refused"""
    changed: bool = False
    """whether anything was changed"""
    into: str | None = None
    """the new controller's directory; null without --from-broker"""
    runs: list[RunLine] = []
    """one for each directory"""
    refusal: str | None = None
    """why nothing was done; null otherwise"""


def plan_line(plan: QuorumPlan) -> QuorumRecoverLine:
    """Line of a plan, of which nothing is done yet."""
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
        members=shaped(plan.members, list[MemberLine]),
        stay_dead=[other.node for other in plan.others if other.node not in own],
        loss=plan.quorum.loss(),
        warnings=plan.warnings,
        configuration=[ConfigurationLine(who=who, lines=lines) for who, lines in plan.configuration],
        expiry=plan.expiry,
        directories=shaped(plan.changes, list[DirectoryLine]),
        needless=plan.needless,
    )


def result_line(result: QuorumResult) -> QuorumRecoverLine:
    """Line of what was done."""
    runs = [
        RunLine(
            path=run.root, run_id=run.run_id, quarantine=run.quarantine, completed_runs=run.earlier.completed,
            superseded_runs=run.earlier.superseded, never_starts=run.never_starts,
        )
        for run in result.runs
    ]  # fmt: skip
    return structs.replace(plan_line(result.plan), changed=result.changed, into=result.into, runs=runs)
