"""Random histories, random damage, mode safe: Kafka opens what we leave, and changes nothing.

Where recovery declines, it must name one of the known reasons and change nothing.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

import histories
import kafkalog
import seam
from kafka_oracle import KafkaOracle, OracleTimeoutError
from kafkalog import RecoveryRefused
from trees import first_difference, stamps

SHORT_SEED = 31
REASONS = ("segment.index.bytes", "topic id", "symbolic link", "hard links")
"""What only the operator can decide; every sentence names one."""


def judge(root: Path, case: histories.Case, kafka: KafkaOracle) -> tuple[str, str]:
    """ "kept" or "declined", and what is wrong (empty if nothing is)."""
    before = stamps(root)
    try:
        kafkalog.recover(root, mode="safe", config=seam.config(case.params), at=int(str(case.params["now_ms"])))
    except RecoveryRefused as refused:
        changed = first_difference(dict(stamps(root)), dict(before))
        if not any(reason in str(refused) for reason in REASONS):
            return "declined", f"declined without a known reason: {refused}"
        return "declined", changed
    for extra in ({}, {"force_unclean": 1}):
        answer = kafka.check(root, {**case.params, **extra})
        if not answer.get("accepted"):
            what = answer.get("exception") or [answer.get(name) for name in ("changed", "removed", "created")]
            return "kept", f"Kafka {answer.get('outcome')} {extra}: {str(what)[:300]}"
    return "kept", ""


def campaign(seed: int, count: int, kafka: KafkaOracle) -> None:
    kept = declined = 0
    failing: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        for case, root in histories.campaign(seed, count, Path(scratch), kafka):
            try:
                how, wrong = judge(root, case, kafka)
            except OracleTimeoutError:
                continue
            kept += how == "kept"
            declined += how == "declined"
            if wrong:
                failing.append(f"{case.history.kind}: {wrong}\n{case.to_json()}")
    print(f"safe: seed {seed}: {kept} directories left alone by Kafka, {declined} declined, {len(failing)} wrong")
    assert kept + declined >= count * 0.99
    if failing:
        pytest.fail("\n".join(failing[:10]), pytrace=False)


def test_kafka_leaves_a_hundred_random_results_alone(kafka: KafkaOracle) -> None:
    campaign(SHORT_SEED, 100, kafka)


@pytest.mark.interop
def test_kafka_leaves_a_thousand_random_results_alone(kafka: KafkaOracle, capsys: pytest.CaptureFixture[str]) -> None:
    seed = histories.chosen_seed()
    with capsys.disabled():
        campaign(seed, int(os.environ.get("KAFKALOG_INTEROP_CASES", "2000")) // 2, kafka)
