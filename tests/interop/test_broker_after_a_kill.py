"""A recovery is stopped before each of its changes, and a real Kafka starts on what is there, and stops in order.

Then an operator comes back: `undo` declines without a change or gives back what it has, `recover` works, Kafka opens
its result without changing a byte, and no byte that was there when Kafka had stopped is gone.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from kafkalog import RecoveryRefused
from kafkalog.recovery import Recovery, Undo, recover, undo
from testkit.judging import seam
from testkit.judging.every_byte import Originals
from testkit.judging.trees import copy_tree, first_difference, stamps
from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.recorded.fixture_data import RecoveryCase, recovery_cases
from testkit.recorded.recovery_settings import given
from testkit.running.elsewhere import PLACES, quarantine_at
from testkit.running.stopping import Stopped, failing_at

pytestmark = pytest.mark.interop
CASES = [
    next(case for case in recovery_cases([family]) if case.outcome == "loaded" and case.case["result"]["changed"])
    for family in ("torn_tail", "segment_set", "swap_files", "overflow")
]
STEP = int(os.environ.get("KAFKALOG_INTEROP_STEP", "4"))
"""every so many of a recovery's changes it is stopped; 1 tries all"""


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id.replace("/", ":"))
def test_kafka_starts_on_a_run_that_was_cut_short(
    case: RecoveryCase,
    place: str,
    tmp_path: Path,
    kafka: KafkaOracle,
    monkeypatch: pytest.MonkeyPatch,
    compared: Callable[[str, int], None],
) -> None:
    original = case.unpack_before(tmp_path / "original")
    number, starts, stops = CASES.index(case) % STEP, 0, 0
    while True:
        number += STEP
        stops += 1
        root = copy_tree(original, tmp_path / "logs")
        with quarantine_at(place, tmp_path) as kept:
            with failing_at(number, Stopped, monkeypatch) as count, suppress(Stopped):
                recover(Recovery(quarantine=kept, accept_loss=True, **given(case)), root)
            if count[0] < number:
                break
            where = kept or root.with_name("logs.recovery")
            (root / ".lock").unlink(missing_ok=True)
            if kafka.recover(root, case.case["params"]).get("outcome") == "loaded":
                starts += 1
            _operator_comes_back(root, where, case, kafka, f"stop {number}", kept)
        shutil.rmtree(tmp_path / "logs")
        shutil.rmtree(tmp_path / "logs.recovery", ignore_errors=True)
    assert starts > stops / 2
    compared(f"starts of Kafka on runs cut short, quarantine {place}, recovered and left alone", starts)


def _operator_comes_back(
    root: Path, where: Path, case: RecoveryCase, kafka: KafkaOracle, what: str, kept: Path | None
) -> None:
    originals = Originals(root)
    before, saved = stamps(root), stamps(where)
    with pytest.raises(RecoveryRefused):
        undo(Undo(quarantine=kept), root)
    assert first_difference(stamps(root), before) == "", what
    assert first_difference(stamps(where), saved) == "", what
    recover(Recovery(quarantine=kept, accept_loss=True, **given(case)), root)
    assert originals.missing(root, where) == [], what
    answer = kafka.check(root, {**case.case["params"], "force_unclean": 1})
    assert answer.get("accepted"), (what, seam.broker_outcome(root, case.case["params"]), answer.get("exception"))
