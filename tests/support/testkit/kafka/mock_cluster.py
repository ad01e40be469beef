"""librdkafka's own mock of a cluster, in this process and without Java: produces, transactions, committed offsets."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import confluent_kafka

PARTITIONS = 4
"""of each topic, which it makes when it is asked for one; it has no CreateTopics"""


@contextmanager
def mock_cluster(topics: Iterable[str]) -> Iterator[str]:
    """Where it listens."""
    owner = confluent_kafka.Producer({"bootstrap.servers": "mock:1", "test.mock.num.brokers": 1, "log_level": 0})
    for topic in topics:
        until = time.monotonic() + 30
        while topic not in owner.list_topics(timeout=10).topics:
            owner.list_topics(topic, timeout=10)
            assert time.monotonic() < until
    (broker,) = owner.list_topics(timeout=10).brokers.values()
    yield f"{broker.host}:{broker.port}"
    del owner


def consumed(bootstrap: str, topic: str, partition: int, *, check_crcs: bool = False) -> list[Any]:
    """Everything that is in a partition of any cluster and was committed; the mock computes no checksums."""
    consumer = confluent_kafka.Consumer({
        "bootstrap.servers": bootstrap, "group.id": "nobody", "enable.partition.eof": True,
        "isolation.level": "read_committed", "check.crcs": check_crcs,
    })  # fmt: skip
    consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0)])
    found: list[Any] = []
    until = time.monotonic() + 60
    while time.monotonic() < until:
        message: Any = consumer.poll(5)
        if message is None:
            continue
        if message.error() is not None:
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
            consumer.close()
            return found
        found.append(message)
    raise AssertionError(f"{topic}-{partition} has no end after a minute")


def committed(bootstrap: str, group: str, topic: str, partition: int) -> int:
    """What a group has committed; below 0 if nothing."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    (found,) = consumer.committed([confluent_kafka.TopicPartition(topic, partition)], timeout=30)
    consumer.close()
    return int(found.offset)


def made_in_a_mock(target: Any, topic: str, *_: object) -> None:
    """In place of `Target.create`: the mock makes a topic that is asked for, and cannot be told to."""
    until = time.monotonic() + 30
    while topic not in target.topics():
        target._admin.list_topics(topic, timeout=10)
        assert time.monotonic() < until
