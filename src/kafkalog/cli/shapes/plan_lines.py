"""JSON lines of `plan`, `recover` and `index rebuild`: plan or result, with needs as command-line options."""

from __future__ import annotations

from msgspec import UNSET, UnsetType, field, structs

from kafkalog.recovery.act.unfinished_business import StandingJson
from kafkalog.recovery.decide.plan_json import PartitionPlanFields, PlanFields, PlanJson, ResultFields, ResultJson
from kafkalog.recovery.decide.ways_json import WayFields, WayJson
from kafkalog.recovery.modes.table import WAYS
from kafkalog.words.ways import needs_in, rest_in

__all__ = ["PlanLine", "ResultLine", "plan_line", "result_line"]


class WayLine(WayFields, frozen=True, kw_only=True):
    """One way to recover a directory or partition, with the records that it keeps and loses."""

    how: list[str] = field(name="needs")
    """options with which `recover` takes this way, or its precondition in words if `recover` cannot take it; empty if
    nothing is needed
    """
    rest: list[str] | None
    """options with which `recover` takes all other partitions after that; null if `needs` is for all"""
    needs_consent: UnsetType = UNSET
    leaders: UnsetType = UNSET


class PartitionPlanLine(PartitionPlanFields, frozen=True, kw_only=True):
    """Planned or completed changes of one partition."""

    ways: list[WayLine]
    """possible ways to recover this partition"""


class PlanLine(PlanFields, frozen=True, kw_only=True):
    """Plan for one log directory."""

    identity_in: UnsetType = UNSET
    ways: list[WayLine]
    """possible ways to recover this log directory"""
    recommended_way: UnsetType = UNSET
    partitions: list[PartitionPlanLine]
    """planned changes by partition"""
    recommended_needs: list[str]
    """options with which `recover` takes the recommended way, or its precondition in words if `recover` cannot take it;
    empty if nothing is needed, or if no way is recommended
    """
    changed: bool = False
    """whether the directory was changed: always false for a plan"""
    run_id: str | None = None
    """id of the run that can be undone: always null for a plan"""
    standing: StandingJson
    """state of the directory's runs and of the broker's lock, to check before a recovery"""


class ResultLine(ResultFields, frozen=True, kw_only=True):
    """Result for one log directory; refused directories have a line too."""

    identity_in: UnsetType = UNSET
    ways: list[WayLine]
    """possible ways to recover this log directory"""
    recommended_way: UnsetType = UNSET
    partitions: list[PartitionPlanLine]
    """planned or completed changes by partition"""
    recommended_needs: list[str]
    """options with which `recover` takes the recommended way, or its precondition in words if `recover` cannot take it;
    empty if nothing is needed, or if no way is recommended
    """


def plan_line(plan: PlanJson, standing: StandingJson) -> PlanLine:
    """Return the line of a plan."""
    fields = {name: value for name, value in structs.asdict(plan).items() if name in PlanLine.__struct_fields__}
    return PlanLine(**{**fields, **_in_options(plan)}, standing=standing)


def result_line(result: ResultJson) -> ResultLine:
    """Return the line of a recovery's result."""
    return ResultLine(**{**structs.asdict(result), **_in_options(result)})


def _in_options(plan: PlanJson) -> dict[str, object]:
    """Return the fields of the JSON line that differ from the plan, by name. Ways and needs are given as command-line
    options. `identity_in` and `recommended_way` are `UNSET`, so the line does not have them.
    """
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
    rest = None if way.rest is None else rest_in(way)
    more = {"how": needs_in(way), "rest": rest, "needs_consent": UNSET, "leaders": UNSET}
    return WayLine(**{**structs.asdict(way), **more})
