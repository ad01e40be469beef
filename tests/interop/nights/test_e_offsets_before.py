"""A group's offsets were reset; what they were before goes back into the live cluster by the page's own lines."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

import confluent_kafka
import pytest

from testkit.kafka.nights import produced, shell_lines, tools_of, type_page
from testkit.kafka.real_broker import RealBroker

pytestmark = pytest.mark.interop
GROUP = "alive-68"
PARTITIONS = 3


def committed(broker: RealBroker, offsets: list[int] | None = None) -> list[int]:
    """The group's offsets as the coordinator has them; with `offsets`, once these are committed."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": GROUP})
    places = [confluent_kafka.TopicPartition("clicks-21", number) for number in range(PARTITIONS)]
    if offsets is not None:
        for place, offset in zip(places, offsets, strict=True):
            place.offset = offset
        consumer.commit(offsets=places, asynchronous=False)
    found = [each.offset for each in consumer.committed(places, 30)]
    consumer.close()
    return found


def test_offsets_go_back_to_what_they_were(broker: RealBroker, compared: Callable[[str, int], None]) -> None:
    """Beside the running broker, which goes on."""
    broker.start()
    broker.create("clicks-21", PARTITIONS)
    produced(broker, "clicks-21", 300, PARTITIONS)
    before = [40, 71, 12]
    assert committed(broker, [7, 7, 7]) == [7, 7, 7]
    assert committed(broker, before) == before
    time.sleep(2)
    moment = datetime.now(UTC).isoformat(timespec="seconds")
    time.sleep(2)
    assert committed(broker, [0, 0, 0]) == [0, 0, 0]

    words = {"2026-11-21T00:36:41Z": moment.replace("+00:00", "Z")}
    typed = type_page("offsets-before", broker.directory, words)
    (asked,) = (each for each in typed if "reset-csv" in each.command.text)
    assert asked.output.splitlines() == [f"clicks-21,{number},{offset}" for number, offset in enumerate(before)]
    type_line = tools_of(broker)
    for line in shell_lines("offsets-before"):
        for word, other in words.items():
            line = line.replace(word, other)
        type_line(line)
    assert committed(broker) == before
    broker.stop()
    compared("offsets that a coordinator has again as they were before an accident", len(before))
