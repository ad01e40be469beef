"""Random histories, random damage, mode safe: Kafka opens what we leave, and changes nothing that we changed.

Of partitions that a broker had closed in order, which are left as they are, it keeps every log.

Where recovery declines, it must name one of the known reasons and change nothing.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

import kafkalog
from testkit.judging import seam
from testkit.kafka.against_kafka import left_alone
from testkit.kafka.kafka_oracle import KafkaOracle, OracleTimeoutError
from testkit.made import histories
from testkit.recorded import recovery_cases

SHORT_SEED = 31


def campaign(seed: int, count: int, kafka: KafkaOracle) -> None:
    kept = declined = in_order = 0
    failing: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        for case, root in histories.campaign(seed, count, Path(scratch), kafka):
            try:
                how, wrong = left_alone(root, case, kafka)
            except OracleTimeoutError:
                continue
            kept += how == "kept"
            declined += how == "declined"
            in_order += how == "in order"
            if wrong:
                failing.append(f"{case.history.kind}: {wrong}\n{case.to_json()}")
    print(
        f"safe: seed {seed}: {kept} directories left alone by Kafka, {in_order} closed in order, beside whose logs it "
        f"rebuilds files, {declined} declined, {len(failing)} wrong"
    )
    assert kept + in_order + declined >= count * 0.99
    assert in_order <= count * 0.2
    if failing:
        pytest.fail("\n".join(failing[:10]), pytrace=False)


@pytest.mark.interop
@pytest.mark.parametrize("version", ["4.1.0", "4.4.0"])
def test_kafka_leaves_a_hundred_random_results_alone(version: str, kafka_of: Callable[[str], KafkaOracle]) -> None:
    campaign(SHORT_SEED, 100, kafka_of(version))


@pytest.mark.interop
@pytest.mark.parametrize("version", ["4.1.0", "4.4.0"])
def test_kafka_leaves_every_transaction_index_alone(version: str, kafka_of: Callable[[str], KafkaOracle]) -> None:
    """4.4 starts on no version but 0, and earlier releases on some."""
    kafka, count = kafka_of(version), 0
    for case in recovery_cases.unpacked_cases(family="txn_index"):
        kafkalog.recover(
            kafkalog.Recovery(mode="safe", config=seam.config(case.params), at=int(case.params["now_ms"])), case.before
        )
        answer = kafka.check(case.before, case.params)
        assert answer["accepted"], (case.name, answer)
        count += 1
    assert count == 17


@pytest.mark.interop
def test_kafka_leaves_thousands_of_random_results_alone(kafka: KafkaOracle, capsys: pytest.CaptureFixture[str]) -> None:
    seed = histories.chosen_seed()
    with capsys.disabled():
        campaign(seed, int(os.environ.get("KAFKALOG_INTEROP_CASES", "2000")), kafka)
