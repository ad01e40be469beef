"""Real brokers start damaged nodes and do as was foretold; a part of the campaign (`dev.py trials --starts`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.kafka.kafka_needed import kafka_needed
from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.kafka.start_comparing import differences, forecast
from testkit.kafka.start_stages import COMBINED, Base, clients, stage
from testkit.kafka.start_trials import Trial, damaged_copy, observe

pytestmark = pytest.mark.interop
BASE = Base("4.3.0", dynamic=True)
DAMAGES = (
    "undamaged",
    "snapshot-cut-at-batch",
    "snapshot-empty",
    "bootstrap-empty",
    "quorum-state-empty",
    "metadata-log-gone",
    "partition-metadata-missing",
    "duplicate-topic",
)


@pytest.fixture(scope="module")
def asked() -> Iterator[KafkaOracle]:
    found = clients()
    with kafka_needed():
        stage(BASE, found)
    yield found
    found.close()


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_node_starts_as_foretold(damage: str, asked: KafkaOracle, tmp_path: Path) -> None:
    trial = Trial(BASE, COMBINED, damage, 1)
    made = stage(BASE, asked)
    damaged_copy(trial, made, tmp_path / "trial")
    foretold = forecast(trial, made, tmp_path / "trial")
    found = observe(trial, made, tmp_path / "trial", asked)
    assert differences(foretold, found, tmp_path / "trial", trial) == [], (foretold, found.words)
