"""A server of ours in the test's own process, and what clients of Kafka's make of it.

The clients are others' programs: kafka-python, aiokafka and librdkafka.  Each gives what it was given, by place.
"""

from __future__ import annotations

import asyncio
import ssl
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from kafkalog.server.broker import Server, ServerOptions
from kafkalog.server.catalog import Catalog

with warnings.catch_warnings():  # what they do while they are imported is not ours to mend
    warnings.simplefilter("ignore")
    import aiokafka
    import confluent_kafka

    kafka: Any = import_module("kafka")

SECONDS = 30
"""After which a client that has not read everything has failed."""

Place = tuple[str, int, int]
Ends = Mapping[tuple[str, int], tuple[int, int]]
"""Topic and partition -> the first offset and the one after the last."""


class Given(NamedTuple):
    """A record as a client gives it; no timestamp is -1."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@contextmanager
def serving(*paths: Path, options: ServerOptions | None = None, **catalog: Any) -> Iterator[Server]:
    """A server of directories on a free port, which must not meet anything that it did not expect."""
    complaints: list[str] = []
    with Server(Catalog(paths, **catalog), ("127.0.0.1", 0), options, complain=complaints.append) as server:
        yield server
    assert [each for each in complaints if "unexpected" in each] == []


def bootstrap(server: Server) -> str:
    host, port = server.address
    return f"{host}:{port}"


def by_kafka_python(address: str, ends: Ends, isolation_level: str, ca: Path | None = None) -> dict[Place, Given]:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=address, isolation_level=isolation_level, enable_auto_commit=False, group_id=None,
        auto_offset_reset="none", fetch_max_wait_ms=50,
        **({} if ca is None else {"security_protocol": "SSL", "ssl_cafile": str(ca)}),
    )  # fmt: skip
    try:
        places = {kafka.TopicPartition(*key): key for key, (start, end) in ends.items() if start < end}
        consumer.assign(list(places))
        for place, key in places.items():
            consumer.seek(place, ends[key][0])
        found: dict[Place, Given] = {}
        until = time.monotonic() + SECONDS
        while any(consumer.position(place) < ends[key][1] for place, key in places.items()):
            assert time.monotonic() < until, "kafka-python did not come to the end"
            for records in consumer.poll(timeout_ms=100).values():
                for each in records:
                    found[each.topic, each.partition, each.offset] = Given(
                        -1 if each.timestamp is None else each.timestamp, each.key, each.value, tuple(each.headers)
                    )
        return found
    finally:
        consumer.close()


def by_aiokafka(address: str, ends: Ends, isolation_level: str, ca: Path | None = None) -> dict[Place, Given]:
    async def read() -> dict[Place, Given]:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=address, isolation_level=isolation_level, enable_auto_commit=False, group_id=None,
            auto_offset_reset="none", fetch_max_wait_ms=50,
            security_protocol="PLAINTEXT" if ca is None else "SSL",
            ssl_context=None if ca is None else ssl.create_default_context(cafile=ca),
        )  # fmt: skip
        await consumer.start()
        try:
            places = {aiokafka.TopicPartition(*key): key for key, (start, end) in ends.items() if start < end}
            consumer.assign(list(places))
            for place, key in places.items():
                consumer.seek(place, ends[key][0])
            found: dict[Place, Given] = {}
            waiting = set(places)
            until = time.monotonic() + SECONDS
            while waiting:
                assert time.monotonic() < until, f"aiokafka did not come to the end of {waiting}"
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    for each in records:
                        timestamp = -1 if each.timestamp is None else each.timestamp
                        found[each.topic, each.partition, each.offset] = Given(
                            timestamp, each.key, each.value, tuple(each.headers)
                        )
                waiting = {each for each in waiting if await consumer.position(each) < ends[places[each]][1]}
            return found
        finally:
            await consumer.stop()

    return asyncio.run(read())


def by_librdkafka(address: str, ends: Ends, isolation_level: str, ca: Path | None = None) -> dict[Place, Given]:
    consumer = confluent_kafka.Consumer({
        "bootstrap.servers": address, "isolation.level": isolation_level, "enable.auto.commit": False,
        "group.id": "nobody", "auto.offset.reset": "error", "enable.partition.eof": True, "fetch.wait.max.ms": 50,
        "check.crcs": True,
        **({} if ca is None else {"security.protocol": "ssl", "ssl.ca.location": str(ca)}),
    })  # fmt: skip
    try:
        waiting = {key for key, (start, end) in ends.items() if start < end}
        consumer.assign([confluent_kafka.TopicPartition(*key, ends[key][0]) for key in waiting])
        found: dict[Place, Given] = {}
        until = time.monotonic() + SECONDS
        while waiting:
            assert time.monotonic() < until, f"librdkafka did not come to the end of {waiting}"
            for message in consumer.consume(1000, timeout=0.1):
                place = message.topic(), message.partition()
                error = message.error()
                if error is not None:
                    assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                    waiting.discard(place)
                    continue
                kind, timestamp = message.timestamp()
                found[*place, message.offset()] = Given(
                    timestamp if kind else -1, message.key(), message.value(), tuple(message.headers() or ())
                )
        return found
    finally:
        consumer.close()


CLIENTS = {"kafka-python": by_kafka_python, "aiokafka": by_aiokafka, "librdkafka": by_librdkafka}


def subscribed(
    address: str, topics: Sequence[str], group: str, count: int | None, **settings: str
) -> dict[Place, Given]:
    """What a member of a group of librdkafka's is given until it has so many records; it commits them.

    Without a count, what it is given until it has come to the end of every partition it was assigned.
    """
    consumer = confluent_kafka.Consumer({
        "bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False,
        "fetch.wait.max.ms": 50, "enable.partition.eof": count is None, **settings,
    })  # fmt: skip
    try:
        consumer.subscribe(list(topics))
        found: dict[Place, Given] = {}
        ended: set[tuple[str, int]] = set()
        until = time.monotonic() + SECONDS
        while len(found) < count if count is not None else not ended or len(ended) < len(consumer.assignment()):
            assert time.monotonic() < until, f"{len(found)} of {count} records"
            for message in consumer.consume(1000, timeout=0.1):
                error = message.error()
                if error is not None:
                    assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                    ended.add((message.topic(), message.partition()))
                    continue
                kind, timestamp = message.timestamp()
                found[message.topic(), message.partition(), message.offset()] = Given(
                    timestamp if kind else -1, message.key(), message.value(), tuple(message.headers() or ())
                )
        if found:
            consumer.commit(asynchronous=False)
        return found
    finally:
        consumer.close()
