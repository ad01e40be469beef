"""The log of the transactions' coordinator is lost: the command that a plan names ends what is open."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from testkit.kafka.nights import VERSION, tools_of
from testkit.kafka.real_broker import RealBroker
from testkit.running.command import kafkalog

pytestmark = pytest.mark.interop
TOPIC = "txn"


def committed(broker: RealBroker) -> int:
    return len(broker.records(TOPIC, isolation="read_committed")[f"{TOPIC}-0"]["records"])


def test_a_transaction_without_coordinator_ends_by_the_command_that_is_named(tmp_path: Path) -> None:
    records = [{"partition": 0, "v": "dmFsdWU="} for _ in range(3)]
    with RealBroker(VERSION, tmp_path / "broker", settings={"transaction.state.log.num.partitions": 2}) as broker:
        broker.start()
        broker.create(TOPIC)
        for ending in ("commit", "open"):
            broker.client("transaction", transactional_id=ending, topic=TOPIC, records=records, end=ending)
        broker.client("produce", topic=TOPIC, records=records)
        broker.stop()
        lost = list(broker.log_dir.glob("__transaction_state-*"))
        assert len(lost) == 2
        for directory in lost:
            shutil.rmtree(directory)
        (planned,) = kafkalog("plan", "--json", broker.log_dir).objects
        (detail,) = [each["detail"] for each in planned["consequences"] if each["kind"] == "transaction_stays_open"]
        broker.start()
        assert committed(broker) == 3
        tools_of(broker)(detail[detail.index("kafka-transactions.sh"):])  # fmt: skip
        assert committed(broker) == 6
