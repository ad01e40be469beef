"""Mode kafka on every recorded case: the outcome Kafka had, the bytes Kafka left, and everything put back by undo."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog import RecoveryRefused
from kafkalog.recovery import Recovery, Undo, plan, recover, undo
from kafkalog.recovery.broker.manager import StartResult
from testkit.judging.trees import contents, first_difference, stamps
from testkit.recorded.fixture_data import RecoveryCase, recovery_case, recovery_cases, recovery_families
from testkit.running.shares import EACH

_WRITTEN_AT_STOP = {".kafka_cleanshutdown", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint", ".lock"}

STABLE_ONLY_ONCE = {"log_dir/dir-a b-0": "the name of the stray directory is one that Kafka itself refuses next time"}


ENDS_AFTER_LOADING = ("checkpoints/hw-file-garbage", "checkpoints/cleaner-file-garbage")
"""Recorded with the log manager alone, which does not read these files: a whole broker does, and ends."""


def arguments(case: RecoveryCase) -> dict[str, object]:
    """Settings and clock of a case, as `recover` takes them."""
    params = case.case["params"]
    config = {name: str(value) for name, value in params.items() if "." in name}
    return {"config": config, "at": int(params["now_ms"]), "mode": "kafka"}


def check(case: RecoveryCase, root: Path) -> str:
    """What is wrong with our recovery of one case; empty if nothing is."""
    given = arguments(case)
    before = stamps(root)
    made = plan(Recovery(**given), root)[0]  # type: ignore[arg-type]
    if case.id not in ENDS_AFTER_LOADING and made.broker.outcome != case.outcome:
        return f"outcome {made.broker.outcome}, Kafka had {case.outcome}"
    if stamps(root) != before:
        return "planning changed something"
    if case.outcome != StartResult.LOADED:
        exception = case.case["result"]["exception"]  # none where the directory goes offline without one
        if exception is not None and made.broker.exception != exception["class"]:
            return f"exception {made.broker.exception}, Kafka's was {exception['class']}"
        try:
            recover(Recovery(**given), root)  # type: ignore[arg-type]
        except RecoveryRefused:
            return first_difference(dict(stamps(root)), dict(before))
        return "a start that fails was not refused"
    result = recover(Recovery(**given), root)[0]  # type: ignore[arg-type]
    got = {
        path: held
        for path, held in contents(root).items()
        if path not in _WRITTEN_AT_STOP and not path.endswith(".deleted")
    }
    want = {path: held for path, held in case.expected_after().items() if path not in _WRITTEN_AT_STOP}
    different = first_difference(dict(got), dict(want))
    if different:
        return different
    if result.run_id is not None:
        undo(Undo(run_ids=[result.run_id]), root)
    different = first_difference(dict(stamps(root)), dict(before))
    return f"after undo, {different}" if different else ""


@EACH
@pytest.mark.parametrize("family", [name for name in recovery_families() if name != "bases"])
def test_recovery_leaves_what_kafka_left(
    family: str, each: int, tmp_path: Path, compared: Callable[[str, int], None]
) -> None:
    problems = []
    loaded = refused = 0
    for number, case in enumerate(recovery_cases([family])[::each]):
        root = case.unpack_before(tmp_path / str(number))
        problem = check(case, root)
        if problem:
            problems.append(f"{case.id}: {problem}")
        elif case.outcome == StartResult.LOADED:
            loaded += 1
        else:
            refused += 1
    assert not problems
    compared("recovery cases, files as Kafka left them (and undone to the byte and time)", loaded)
    compared("recovery cases, refusal foreseen with Kafka's exception (and nothing changed)", refused)


@pytest.mark.parametrize("case", recovery_cases(["torn_tail"])[:6], ids=lambda case: case.id)
def test_recovered_again_there_is_nothing_to_do_where_kafka_is_stable(case: RecoveryCase, tmp_path: Path) -> None:
    root = case.unpack_before(tmp_path / "before")
    given = arguments(case)
    recover(Recovery(**given), root)  # type: ignore[arg-type]
    if case.case["second_pass"].get("accepted"):
        assert recover(Recovery(**given), root)[0].run_id is None  # type: ignore[arg-type]


def test_the_forecast_says_what_kafka_would_lose(tmp_path: Path) -> None:
    """A retried copy of all batches after themselves: Kafka empties the segment, safe keeps it."""
    case = recovery_case("offset_order/all-batches-twice")
    root = case.unpack_before(tmp_path / "logs")
    given = arguments(case)
    made = plan(Recovery(**given), root)[0]  # type: ignore[arg-type]
    assert made.broker.log_end_offsets == {"t-0": case.case["result"]["partitions"]["t-0"]["log_end_offset"]}
    assert made.broker.valid_records_lost is not None
    assert made.broker.valid_records_lost["t-0"] >= 27
    safe = plan(Recovery(**{**given, "mode": "safe"}), root)[0]  # type: ignore[arg-type]
    assert safe.partitions[0].log_end_offset == 27
