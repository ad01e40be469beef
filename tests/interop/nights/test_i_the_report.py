"""The report for the incident: it says what the broker will lose, before the broker is started, and it is true."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from kafkalog import open_segment
from testkit.kafka.nights import newest_log, produced, values
from testkit.kafka.real_broker import RealBroker
from testkit.running.command import kafkalog

pytestmark = pytest.mark.interop
COUNT = 400


def test_it_says_what_a_broker_would_lose(broker: RealBroker, compared: Callable[[str, int], None]) -> None:
    broker.start()
    broker.create("orders", segment_bytes=1 << 20)
    sent = produced(broker, "orders", COUNT)
    broker.kill()
    log = newest_log(broker.log_dir / "orders-0")
    bad = list(open_segment(log).batches())[25]
    with log.open("r+b") as file:
        file.seek(bad.position + 80)
        file.write(b"\xa5" * 40)
    report = broker.directory / "report.md"
    assert kafkalog("report", broker.log_dir, "-o", report).code == 1
    text = report.read_text()
    first = bad.header.first_offset
    verdict = text.replace("\\", "").split("###")[0]
    assert "Affected: orders" in verdict
    offsets = f"orders-0: offsets {first} to {first + 9}"
    assert f"Lost: 10 records, by the way that is recommended (salvage): {offsets}" in verdict
    lost = len(sent) - bad.header.next_offset
    foreseen = re.search(r"a start of Kafka would drop (\d+) records that can still be read", verdict)
    assert foreseen is not None, verdict
    assert int(foreseen.group(1)) == lost

    broker.start()  # against the advice
    left = values(broker.records("orders"))
    broker.stop()
    assert len(left) == first
    assert len(sent) - len(left) - len(range(first, bad.header.next_offset)) == lost
    compared("records that a broker deleted as the report had said", lost)
