"""Why a recovery declines: every reason has its name and its place in one order, the same for all that was recorded."""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import kafkalog
from kafkalog.codec.names import PartitionName
from kafkalog.log.directories.workers import Workers
from kafkalog.recovery import Mode, plan, recover
from kafkalog.recovery.decide.actions import ActionKind, RecoveryAction
from kafkalog.recovery.decide.forecasts import SurveyedDirectory, forecast
from kafkalog.recovery.decide.plan import Plan, plan_of
from kafkalog.recovery.decide.refusals import REFUSALS, Decision, refusal_of
from kafkalog.recovery.facts.recovery_request import Recovery, Rules, settled
from kafkalog.recovery.facts.survey import survey
from kafkalog.recovery.run import plan_one
from kafkalog.recovery.safe.result import RecoveredPartition, SafeResult
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.recorded.fixture_data import recovery_case, recovery_cases
from testkit.recorded.recovery_settings import given

ORDER = [
    "damaged_log", "link_in_the_way", "through_a_link", "every_partition_declined", "nobody_named", "beyond_strict",
    "unreadable", "no_start", "log_directory_inside", "kept_by_a_run", "unsafe", "marker_in_mode_kafka",
    "marker_for_some",
]  # fmt: skip
RECORDED = {
    "safe": {"every_partition_declined": 11},
    "salvage": {"every_partition_declined": 11},
    "strict": {"every_partition_declined": 11, "beyond_strict": 190},
    "kafka": {"no_start": 80},
    "set-aside": {"nobody_named": 562},
}
"""Of all recorded damage, in how many cases each mode declines for what; as before the reasons were a table."""
SAMPLED: dict[str, dict[str, int]] = {
    "safe": {},
    "salvage": {},
    "strict": {"beyond_strict": 8},
    "kafka": {"no_start": 1},
    "set-aside": {"nobody_named": 24},
}


def refused_by(root: Path, mode: Mode, options: dict[str, object]) -> str | None:
    rules = settled(Recovery(mode=mode, **options), [str(root)])  # type: ignore[arg-type]
    with survey(str(root), tolerant=True) as found:
        directory = SurveyedDirectory(found, rules)
        return plan_of(directory, forecast(directory, Workers(), counts=False), None).refused_by


@pytest.mark.parametrize(("each", "expected"), [(24, SAMPLED), pytest.param(1, RECORDED, marks=pytest.mark.sweep)])
def test_what_is_recorded_is_declined_for_the_same_reasons(
    each: int, expected: dict[str, dict[str, int]], tmp_path: Path, compared: Callable[[str, int], None]
) -> None:
    found: dict[str, Counter[str]] = {mode: Counter() for mode in expected}
    for case in recovery_cases()[::each]:
        root = case.unpack_before(tmp_path / "root")
        for mode, counts in found.items():
            name = refused_by(root, Mode(mode), given(case))
            counts.update([name] if name is not None else [])
        shutil.rmtree(root)
    assert {mode: dict(counts) for mode, counts in found.items()} == expected
    compared("recoveries that were declined for the reason that is pinned", sum(map(Counter.total, found.values())))


def damaged(root: Path) -> Path:
    return recovery_case("bit_flip/length").unpack_before(root)


def made(root: Path, *, mark_clean: bool = False, **rules: object) -> Plan:
    options = given(recovery_case("bit_flip/length"))
    return plan_one(root, Rules(**{**options, **rules, "mark_clean": mark_clean}))


def test_the_order() -> None:
    assert list(REFUSALS) == ORDER


def test_the_first_of_several_reasons_is_told(tmp_path: Path) -> None:
    root = damaged(tmp_path / "root")
    assert made(root).refused_by is None
    assert made(root, mode=Mode.KAFKA, mark_clean=True).refused_by == "marker_in_mode_kafka"
    assert made(root, mode=Mode.SET_ASIDE).refused_by == "nobody_named"
    os.link(min(root.glob("t-0/*.log")), tmp_path / "snapshot")
    for log in root.glob("t-0/*.log"):
        os.link(log, tmp_path / f"snapshot-{log.name}")
    assert made(root).refused_by == "unsafe"
    assert made(root, mode=Mode.KAFKA, mark_clean=True).refused_by == "unsafe"
    assert made(root, mode=Mode.STRICT).refused_by == "beyond_strict"
    assert made(root, rebuild_indexes=True).refused_by == "damaged_log"
    (root / "recovery-point-offset-checkpoint").unlink()
    (root / "recovery-point-offset-checkpoint").symlink_to(tmp_path / "nowhere")
    assert made(root).refused_by == "link_in_the_way"
    assert made(root, mode=Mode.STRICT).refused_by == "link_in_the_way"
    assert made(root, rebuild_indexes=True).refused_by == "damaged_log"


def test_a_marker_is_for_all(tmp_path: Path) -> None:
    """One partition directory is left as it is, whatever becomes of the others."""
    root = damaged(tmp_path / "root")
    rules = settled(Recovery(**given(recovery_case("bit_flip/length"))), [str(root)])
    with survey(str(root), tolerant=True) as found:
        forecasts = forecast(SurveyedDirectory(found, rules), Workers(), counts=False)
        decision = Decision(
            survey=found, rules=rules, kafka=forecasts.kafka, own=forecasts.own, actions=[],
            declined={"t-1": "it cannot be read"}, mark_clean=True,
        )  # fmt: skip
        assert refusal_of(decision) == ("marker_for_some", "it cannot be read")
        assert refusal_of(replace(decision, mark_clean=False)) is None


def test_what_is_only_renamed_is_another_partition_too(tmp_path: Path) -> None:
    """A partition that becomes stray is recovered, whatever becomes of the one that is left as it is."""
    root = damaged(tmp_path / "root")
    rules = settled(Recovery(**given(recovery_case("bit_flip/length"))), [str(root)])
    with survey(str(root), tolerant=True) as found:
        forecasts = forecast(SurveyedDirectory(found, rules), Workers(), counts=False)
        own = SafeResult(tree=found.tree())
        own.add(RecoveredPartition(directory="t-1", name=PartitionName("t", 1), refusal="it never settles"))
        decision = Decision(survey=found, rules=rules, kafka=forecasts.kafka, own=own, actions=[], declined={})
        assert refusal_of(decision) == ("every_partition_declined", "it never settles")
        renamed = RecoveryAction(kind=ActionKind.RENAME_DIRECTORY, path="t-0", target="t-0.0-stray")
        assert refusal_of(replace(decision, actions=[renamed])) is None


def test_a_link_in_the_same_directory_is_named(tmp_path: Path) -> None:
    root = damaged(tmp_path / "root")
    for number, log in enumerate(sorted(root.glob("t-0/*.log"))):
        os.link(log, root / f"copy-{number}")
    assert re.search(r"one is copy-\d: a broker that starts here writes into both", str(made(root).refusal))


def test_a_plan_refuses_a_marker_for_some_partitions_as_a_recovery_does(tmp_path: Path) -> None:
    root = own_copy(brokers("4.1.1/segments")[0], tmp_path / "data")
    (root / ".kafka_cleanshutdown").unlink()
    request = Recovery(mark_clean=True, select=kafkalog.Selection.of(["sessions-20"]))
    (made,) = plan(request, root)
    assert made.refusal is not None
    with pytest.raises(kafkalog.UsageError) as refused:
        recover(request, root)
    assert str(refused.value).endswith(made.refusal)


@pytest.mark.parametrize("field", ["at", "release"])
def test_what_cannot_be_is_refused(field: str, tmp_path: Path) -> None:
    root = own_copy(brokers("4.1.1/segments")[0], tmp_path / "data")
    wrong: dict[str, Any] = {"at": -1} if field == "at" else {"release": "9.9"}
    with pytest.raises(kafkalog.UsageError, match=r"smallest possible value is 0|newest release that is known is 4\.4"):
        plan(Recovery(**wrong), root)
