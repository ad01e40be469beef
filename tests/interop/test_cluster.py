"""What kafkalog makes of a cluster's state against Kafka's own classes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker_dirs import brokers
from fixture_data import BrokerCase, broker_cases
from kafka_oracle import KafkaOracle
from kafkalog.cluster.metadata_json import state_json
from kafkalog.cluster.metadata_log import MetadataLog
from kafkalog.log import open_partition

Note = Callable[[str, int], None]
KRAFT = [case for case in broker_cases() if case.case["mode"] == "kraft"]


@pytest.mark.parametrize("case", KRAFT, ids=lambda case: case.id)
def test_the_metadata_image_is_kafkas(case: BrokerCase, kafka_of: Callable[[str], KafkaOracle], compared: Note) -> None:
    (broker,) = brokers(case.id)
    directory = broker / "__cluster_metadata-0"
    log = MetadataLog(open_partition(directory))
    for until in (None, *(end for end, _, _ in log.snapshots if end), log.state().next_offset // 2):
        if until is not None and until < log.partition.log_start_offset:
            continue
        wanted = kafka_of("4.3.0").image(directory, until)
        got = state_json(log.state(until))
        if wanted["epoch"] == 0:  # the harness takes epochs from the log, and no record of it was applied
            del wanted["epoch"]
        assert {name: got[name] for name in wanted} == wanted
        partitions = sum(len(topic["partitions"]) for topic in wanted["topics"].values())
        compared("metadata images of Kafka", 1)
        compared("partitions in metadata images of Kafka", partitions)
