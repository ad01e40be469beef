"""A broker whose log directory is `data` beside what a page makes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.kafka.nights import VERSION
from testkit.kafka.real_broker import RealBroker


@pytest.fixture
def broker(kafka_of: Callable[[str], KafkaOracle], tmp_path: Path) -> Iterator[RealBroker]:
    """Not started."""
    kafka_of(VERSION)
    with RealBroker(VERSION, tmp_path / "place") as made:
        yield made
