"""A batch that no consumer can decode, and whose checksum is right: groups pass it, or it is taken out."""

from __future__ import annotations

import re
from collections.abc import Callable

import confluent_kafka
import pytest

from kafkalog import open_segment
from testkit.kafka.kafka_oracle import OracleError
from testkit.kafka.nights import newest_log, produced, section, tools_of, values, values_of
from testkit.kafka.real_broker import RealBroker
from testkit.made import damage
from testkit.running.pages import type_commands

pytestmark = pytest.mark.interop
COUNT = 300


def test_a_record_that_stops_consumers(broker: RealBroker, compared: Callable[[str, int], None]) -> None:
    broker.start()
    broker.create("metrics-22", segment_bytes=1 << 20, compression_type="lz4")
    sent = produced(broker, "metrics-22", COUNT)
    broker.stop()
    log = newest_log(broker.log_dir / "metrics-22-0")
    poisoned = list(open_segment(log).batches())[9]
    lost = values_of([poisoned])
    whole, end = bytearray(log.read_bytes()), poisoned.position + poisoned.size
    whole[poisoned.position : end] = damage.with_crc(bytes(whole[poisoned.position : end - 40]) + b"\xff" * 40)
    log.write_bytes(whole)

    broker.start()
    with pytest.raises(OracleError, match="Received exception when fetching the next record"):
        broker.records("metrics-22")
    (verified,) = type_commands(section("poison-record", "1."), broker.directory)
    printed = re.search(r"kafka-consumer-groups\.sh .*--execute", verified.output)
    assert printed is not None, verified.output
    tools_of(broker)(printed.group().replace("GROUP", "readers"))
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "readers"})
    (place,) = consumer.committed([confluent_kafka.TopicPartition("metrics-22", 0)], 30)
    assert place.offset == poisoned.header.next_offset
    consumer.assign([place])
    passed = consumer.poll(30)
    consumer.close()
    assert passed is not None
    assert (passed.error(), passed.offset()) == (None, place.offset)

    broker.stop()
    type_commands(section("poison-record", "3."), broker.directory)
    type_commands(section("poison-record", "How to know"), broker.directory)
    broker.start()
    got = values(broker.records("metrics-22"))
    broker.stop()
    assert got == sorted(set(sent) - set(lost))
    compared("records that a consumer reads around a batch that stopped it", len(got))
