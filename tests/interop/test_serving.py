"""Every recorded directory through the server: three clients of other people's, and Kafka's own console consumer."""

from __future__ import annotations

import base64
import os
import subprocess
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kafkalog.log.reading.consumer_view import ISOLATION_LEVELS
from testkit.kafka import kafka_jars
from testkit.kafka.kafka_needed import kafka_needed
from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.recorded.broker_dirs import KILLED, brokers, expected_offsets, expected_records
from testkit.recorded.fixture_data import BrokerCase, broker_cases
from testkit.serving.serving import CLIENTS, Given, Place, bootstrap, serving

pytestmark = pytest.mark.interop

CASES = [case for case in broker_cases() if expected_offsets(case, "read_uncommitted")]
NO_TIME = (None, "NoTimestampType")
# aiokafka refuses lz4 in messages of magic 0, whoever serves them: topics of 0.8 and 0.9, and what later brokers kept.
LZ4_IN_MAGIC_0 = (
    "0.8.2.2/codecs", "0.9.0.1/codecs", "0.11.0.3/codecs", "1.1.1/codecs", "2.8.2/codecs", "0.8.2.2/crash",
    "0.9.0.1/crash", "0.8.2.2/torn", "0.9.0.1/torn",
)  # fmt: skip
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
JAVA_CASES = ("2.8.2/txn", "4.3.0/txn", "0.9.0.1/codecs", "4.3.0/codecs")


def digest(data: bytes | None) -> tuple[int, int]:
    return (-1, 0) if data is None else (len(data), zlib.crc32(data))


def shown(record: Given, *, digests: bool) -> tuple[Any, ...]:
    """A record as it can be compared with what was recorded."""
    if digests:
        return record.timestamp, digest(record.key), digest(record.value)
    return tuple(record)


def recorded(case: BrokerCase, isolation_level: str, *, digests: bool) -> dict[Place, tuple[Any, ...]]:
    found = {}
    for place, line in expected_records(case, isolation_level).items():
        timestamp = -1 if line.get("timestampType") in NO_TIME else line["timestamp"]
        if digests:
            sizes = [(line[f"{name}Size"], line[f"{name}Crc32"] if line[f"{name}Size"] >= 0 else 0)
                     for name in ("key", "value")]  # fmt: skip
            found[place] = (timestamp, *sizes)
        else:
            found[place] = (timestamp, plain(line["key"]), plain(line["value"]),
                            tuple((name, plain(value)) for name, value in line.get("headers", ())))  # fmt: skip
    return found


def plain(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


PAIRS = [pytest.param(client, case, id=f"{client}-{case.id}") for client in CLIENTS for case in CASES
         if client != "aiokafka" or case.id not in LZ4_IN_MAGIC_0]  # fmt: skip
if os.environ.get("KAFKALOG_SWEEP") == "ci":  # every directory by one client or two, not by all three
    PAIRS = PAIRS[::2]


@pytest.mark.parametrize("isolation_level", ISOLATION_LEVELS)
@pytest.mark.parametrize(("client", "case"), PAIRS)
def test_every_directory(client: str, case: BrokerCase, isolation_level: str) -> None:
    """Of brokers that were killed up to where their own recovery has cut the logs, with damage left out."""
    killed = case.name in KILLED
    ends = expected_offsets(case, isolation_level)
    told: list[str] = []
    with serving(*brokers(case.id), replica="longest", on_damage=told.append if killed else None) as server:
        found = CLIENTS[client](bootstrap(server), ends, isolation_level)
    kept = {place: shown(each, digests=killed) for place, each in found.items() if place[2] < ends[place[:2]][1]}
    assert kept == recorded(case, isolation_level, digests=killed)
    assert killed or kept.keys() == found.keys()


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_refuses_a_damaged_batch_by_itself(client: str) -> None:
    case = next(each for each in CASES if each.id == "4.3.0/torn")
    ends = expected_offsets(case, "read_uncommitted")
    with (
        serving(*brokers(case.id)) as server,
        pytest.raises(Exception, match=r"CRC|crc"),
    ):
        CLIENTS[client](bootstrap(server), ends, "read_uncommitted")


def test_the_newest_java_consumer_reads_what_was_recorded(kafka_of: Callable[[str], KafkaOracle]) -> None:
    """From 4.4 on it tells every node which one, of which cluster, it takes it for."""
    case = next(each for each in CASES if each.id == "4.4.0/txn")
    wanted = [place for place in expected_records(case, "read_committed") if not place[0].startswith("__")]
    topics: dict[str, int] = {}
    for topic, partition, _ in wanted:
        topics[topic] = max(topics.get(topic, 0), partition + 1)
    with serving(*brokers(case.id)) as server:
        answer = kafka_of("4.4.0").client("consume", bootstrap(server), topics=topics, isolation="read_committed")
    found = {
        (*name.rsplit("-", 1), record["offset"]) for name, each in answer["partitions"].items()
        for record in each["records"]
    }  # fmt: skip
    assert found == {(topic, str(partition), offset) for topic, partition, offset in wanted}


def console(address: str, topic: str, count: int, isolation_level: str, *, group: str) -> list[Mapping[str, Any]]:
    """What Kafka's console consumer prints of a topic: partition, offset, key and value."""
    version = kafka_jars.newest_with_tools()
    printed = {f"print.{name}": "true" for name in ("key", "partition", "offset")}
    properties = [f"--formatter-property={name}={value}" for name, value in printed.items()]
    command = kafka_jars.java(
        version, CONSOLE_CONSUMER, "--bootstrap-server", address, "--topic", topic, "--from-beginning",
        "--max-messages", str(count),
        "--isolation-level", isolation_level, "--group", group, "--timeout-ms", "20000", *properties,
        "--formatter-property=key.deserializer=org.apache.kafka.common.serialization.BytesDeserializer",
        "--formatter-property=value.deserializer=org.apache.kafka.common.serialization.BytesDeserializer",
    )  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found: list[Mapping[str, Any]] = []
    for line in done.stdout.splitlines():
        partition, offset, _ = line.split("\t", 2)
        found.append({"partition": int(partition.split(":")[1]), "offset": int(offset.split(":")[1])})
    return found


@pytest.mark.parametrize("isolation_level", ISOLATION_LEVELS)
@pytest.mark.parametrize("case_id", JAVA_CASES)
def test_kafkas_console_consumer(case_id: str, isolation_level: str) -> None:
    case = next(each for each in CASES if each.id == case_id)
    expected = expected_records(case, isolation_level)
    topics: dict[str, set[tuple[int, int]]] = {}
    for topic, partition, offset in expected:
        topics.setdefault(topic, set()).add((partition, offset))
    with kafka_needed(), serving(*brokers(case_id)) as server:
        for topic, places in sorted(topics.items(), key=lambda pair: -len(pair[1]))[:2]:
            lines = console(bootstrap(server), topic, len(places), isolation_level, group=f"{topic}-{isolation_level}")
            assert {(line["partition"], line["offset"]) for line in lines} == places
