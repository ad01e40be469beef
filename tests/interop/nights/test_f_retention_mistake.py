"""A retention that was set too low: the segments come back, with the setting put right by the controllers alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.kafka.nights import VERSION, produced, shell_lines, tools_of, type_page, values, wait_for
from testkit.kafka.real_cluster import RealCluster

pytestmark = pytest.mark.interop
COUNT = 600
AN_HOUR = 3_600_000


@pytest.fixture
def cluster(kafka_of: Callable[[str], KafkaOracle], tmp_path: Path) -> Iterator[RealCluster]:
    """A controller and one broker."""
    kafka_of(VERSION)
    with RealCluster(VERSION, tmp_path, (1,)) as made:
        made.start()
        yield made


def test_segments_come_back(cluster: RealCluster, compared: Callable[[str, int], None]) -> None:
    broker = cluster[1]
    broker.create("stock-41", file_delete_delay_ms=AN_HOUR)
    sent = produced(broker, "stock-41", COUNT)
    broker.client("alter", topic="stock-41", config={"retention.ms": "1000"})
    partition = broker.log_dir / "stock-41-0"
    wait_for(lambda: sum(path.stat().st_size for path in partition.glob("*.log")) == 0)
    broker.kill()
    assert sum(path.stat().st_size for path in partition.glob("*.log")) == 0
    type_page("retention-mistake", broker.directory)
    (line,) = shell_lines("retention-mistake")
    tools_of(broker)(line.replace("CONTROLLER:PORT", cluster.controller))
    broker.start()
    got = values(broker.records("stock-41"))
    broker.stop()
    assert got == sent
    compared("records that a consumer reads again after a retention mistake", len(got))
