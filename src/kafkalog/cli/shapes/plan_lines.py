"""Lines of `plan`, `recover` and `index rebuild`: the JSON of a plan or result, with options in place of requests."""

from __future__ import annotations

from msgspec import UNSET, UnsetType, field, structs

from kafkalog.recovery.act.unfinished_business import StandingJson
from kafkalog.recovery.decide.plan_json import PartitionPlanFields, PlanFields, PlanJson, ResultFields, ResultJson
from kafkalog.recovery.decide.ways_json import WayFields, WayJson
from kafkalog.recovery.modes.table import WAYS
from kafkalog.words.ways import needs_in

__all__ = ["PlanLine", "ResultLine", "plan_line", "result_line"]


class WayLine(WayFields, frozen=True, kw_only=True):
    """One way to recover a directory or partition, and what it keeps and loses."""

    how: list[str] = field(name="needs")
    """options of `recover` that it needs, or what has to be there, in words"""
    needs_consent: UnsetType = UNSET
    leaders: UnsetType = UNSET


class PartitionPlanLine(PartitionPlanFields, frozen=True, kw_only=True):
    """What would be, or was, done to one partition."""

    ways: list[WayLine]
    """every possible way for this partition"""


class PlanLine(PlanFields, frozen=True, kw_only=True):
    """One line for each log directory."""

    identity_in: UnsetType = UNSET
    ways: list[WayLine]
    """every possible way for the directory"""
    recommended_way: UnsetType = UNSET
    partitions: list[PartitionPlanLine]
    """the partitions, in order"""
    recommended_needs: list[str]
    """options of `recover` that it needs"""
    changed: bool = False
    """the directory was changed; false for a plan"""
    run_id: str | None = None
    """the run that can be undone; null if nothing was changed"""
    standing: StandingJson
    """what to know before acting"""


class ResultLine(ResultFields, frozen=True, kw_only=True):
    """One line for each log directory, including those that were refused."""

    identity_in: UnsetType = UNSET
    ways: list[WayLine]
    """every possible way for the directory"""
    recommended_way: UnsetType = UNSET
    partitions: list[PartitionPlanLine]
    """the partitions, in order"""
    recommended_needs: list[str]
    """options of `recover` that it needs"""


def plan_line(plan: PlanJson, standing: StandingJson) -> PlanLine:
    """Line of a plan."""
    fields = {name: value for name, value in structs.asdict(plan).items() if name in PlanLine.__struct_fields__}
    return PlanLine(**{**fields, **_in_options(plan)}, standing=standing)


def result_line(result: ResultJson) -> ResultLine:
    """Line of what a recovery did."""
    return ResultLine(**{**structs.asdict(result), **_in_options(result)})


def _in_options(plan: PlanJson) -> dict[str, object]:
    """The fields of a plan that are for programs, in options."""
    best = plan.recommended_way
    needs = [] if best is None else needs_in(best)
    if plan.identity_in and (best is None or not WAYS[best.way].is_start):
        needs.append("--meta-properties")
    partitions = [
        PartitionPlanLine(**{**structs.asdict(partition), "ways": list(map(_way_line, partition.ways))})
        for partition in plan.partitions
    ]
    return {
        "identity_in": UNSET,
        "ways": list(map(_way_line, plan.ways)),
        "recommended_way": UNSET,
        "partitions": partitions,
        "recommended_needs": needs,
    }


def _way_line(way: WayJson) -> WayLine:
    return WayLine(**{**structs.asdict(way), "how": needs_in(way), "needs_consent": UNSET, "leaders": UNSET})
