"""kcat, and Kafka's own command-line tools: each prints what is there, or Kafka's own error, and none hangs."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from kafkalog.log.reading.consumer_view import ISOLATION_LEVELS
from testkit.kafka import kafka_jars
from testkit.kafka.kafka_needed import kafka_needed
from testkit.kafka.kcat import consumed, kcat
from testkit.recorded.broker_dirs import brokers, expected_records
from testkit.recorded.fixture_data import broker_case
from testkit.serving.serving import bootstrap, serving

pytestmark = pytest.mark.interop

TOOLS = "org.apache.kafka.tools"
CONFIGS = "kafka.admin.ConfigCommand"
GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
SECONDS = 45
QUIET = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=error",)


def plain(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


@pytest.mark.parametrize("isolation_level", ISOLATION_LEVELS)
@pytest.mark.parametrize("case_id", ["0.10.2.2/segments", "2.8.2/txn", "4.3.0/txn", "4.3.0/compact"])
def test_kcat_reads_what_kafkas_consumer_read(case_id: str, isolation_level: str) -> None:
    version, _, name = case_id.partition("/")
    expected: dict[str, dict[tuple[int, int], tuple[Any, ...]]] = {}
    for (topic, partition, offset), line in expected_records(broker_case(version, name), isolation_level).items():
        row = line["timestamp"], plain(line["key"]), plain(line["value"])
        expected.setdefault(topic, {})[partition, offset] = row
    assert expected
    with kafka_needed(), serving(*brokers(case_id)) as server:
        for topic, records in expected.items():
            found = consumed(bootstrap(server), topic, isolation_level)
            assert {(partition, offset): tuple(row) for _, partition, offset, *row in found} == records
            assert len(found) == len(records)


def test_kcat_lists_and_asks_for_offsets() -> None:
    with kafka_needed(), serving(*brokers("4.3.0/txn")) as server:
        listed = json.loads(kcat(bootstrap(server), "-L", "-J"))
        assert {each["topic"]: len(each["partitions"]) for each in listed["topics"]} == {
            name: topic.partition_count for name, topic in server.topics.items()
        }
        assert kcat(bootstrap(server), "-Q", "-t", "orders-20:0:-2").split() == [b"orders-20", b"[0]", b"offset", b"0"]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving(*brokers("4.3.0/groups")) as server:
        yield bootstrap(server)


def tool(address: str, main: str, *words: str) -> tuple[int, str]:
    """What a tool of Kafka's ends with, and all that it says."""
    with kafka_needed():
        version = kafka_jars.newest_with_tools()
        command = kafka_jars.java(version, main, "--bootstrap-server", address, *words, flags=QUIET)
    if main.endswith("ClusterTool"):  # wants the verb first
        at = command.index("--bootstrap-server")
        command[at : at + 3] = [words[0], "--bootstrap-server", address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    return done.returncode, done.stdout + done.stderr


# main class, words, what it must say
ANSWERED = [
    (f"{TOOLS}.TopicCommand", ("--list",), ["__consumer_offsets", "alerts-20", "stock-1"]),
    (f"{TOOLS}.TopicCommand", ("--describe", "--topic", "stock-1"), ["PartitionCount: 2", "Leader: 12"]),
    (f"{TOOLS}.GetOffsetShell", (), ["alerts-20:0:20", "stock-1:1:15"]),
    (f"{TOOLS}.GetOffsetShell", ("--time", "-2"), ["alerts-20:0:0"]),
    (f"{TOOLS}.GetOffsetShell", ("--time", "-3"), ["alerts-20:0:19"]),
    (GROUPS, ("--list", "--state"), ["alive-62", "kip848-57", "Empty"]),
    (GROUPS, ("--describe", "--group", "alive-62"), ["no active members", "alerts-20"]),
    (GROUPS, ("--describe", "--group", "kip848-57", "--state"), ["no active members", "Empty"]),
    (GROUPS, ("--describe", "--all-groups", "--members"), ["no active members"]),
    (GROUPS, ("--describe", "--group", "nobody"), ["GroupIdNotFoundException"]),
    (GROUPS, ("--reset-offsets", "--topic", "stock-1", "--to-latest", "--dry-run", "--group", "new"), ["stock-1"]),
    (f"{TOOLS}.GroupsCommand", ("--list",), ["kip848-57", "Consumer", "Classic"]),
    (f"{TOOLS}.consumer.group.ShareGroupCommand", ("--list",), []),
    (CONFIGS, ("--describe", "--entity-type", "topics"), ["cleanup.policy=compact", "segment.bytes=104857600"]),
    (CONFIGS, ("--describe", "--entity-type", "brokers", "--all"), ["All configs for broker 12"]),
    (CONFIGS, ("--describe", "--entity-type", "groups"), ["Dynamic configs for group alive-62"]),
    (CONFIGS, ("--describe", "--entity-type", "client-metrics"), []),
    (CONFIGS, ("--describe", "--entity-type", "users"), []),
    (CONFIGS, ("--describe", "--entity-type", "clients"), []),
    (f"{TOOLS}.LogDirsCommand", ("--describe",), ['"partition":"stock-1-1"', '"isFuture":false']),
    (f"{TOOLS}.reassign.ReassignPartitionsCommand", ("--list",), ["No partition reassignments found"]),
    (f"{TOOLS}.ClusterTool", ("cluster-id",), ["Cluster ID: "]),
    (f"{TOOLS}.MetadataQuorumCommand", ("describe", "--status"), ["LeaderId:", "HighWatermark:", "CurrentVoters:"]),
    (f"{TOOLS}.MetadataQuorumCommand", ("describe", "--replication"), ["LogEndOffset", "Leader"]),
    (f"{TOOLS}.FeatureCommand", ("describe",), []),
    (f"{TOOLS}.BrokerApiVersionsCommand", (), ["ConsumerGroupHeartbeat(68): 0 to 1 [usable: 1]"]),
]  # fmt: skip
DECLINED = [
    (f"{TOOLS}.AclCommand", ("--list",), "SecurityDisabledException"),
    (f"{TOOLS}.TransactionsCommand", ("list",), "does not support LIST_TRANSACTIONS"),
    (f"{TOOLS}.TopicCommand", ("--create", "--topic", "t"), "Authorization"),
    (f"{TOOLS}.TopicCommand", ("--delete", "--topic", "stock-1"), "Authorization"),
    (CONFIGS, ("--alter", "--entity-type", "topics", "--entity-name", "stock-1", "--add-config", "retention.ms=1"),
     "Authorization"),
    (GROUPS, ("--delete", "--group", "alive-62"), "Authorization"),
]  # fmt: skip


def _ids(rows: list[tuple[str, tuple[str, ...], Any]]) -> list[str]:
    return [" ".join([main.rpartition(".")[2], *words]) for main, words, _ in rows]


@pytest.mark.parametrize(("main", "words", "said"), ANSWERED, ids=_ids(ANSWERED))
def test_what_a_tool_prints(address: str, main: str, words: tuple[str, ...], said: list[str]) -> None:
    code, text = tool(address, main, *words)
    assert all(each in text for each in said), text
    assert code == 0, text
    assert "UnsupportedVersion" not in text


@pytest.mark.parametrize(("main", "words", "said"), DECLINED, ids=_ids(DECLINED))
def test_what_a_tool_is_refused(address: str, main: str, words: tuple[str, ...], said: str) -> None:
    _, text = tool(address, main, *words)
    assert said in text


def test_kafkas_consumer_in_a_group_of_the_new_protocol() -> None:
    """`group.protocol=consumer`, with a pattern that the client resolves."""
    expected = {
        (topic, partition, offset)
        for topic, partition, offset in expected_records(broker_case("4.3.0", "segments"), "read_uncommitted")
        if not topic.startswith("__")
    }
    with serving(*brokers("4.3.0/segments")) as server:
        code, text = tool(
            bootstrap(server), f"{TOOLS}.consumer.ConsoleConsumer", "--include", ".*-.*", "--group", "new",
            "--command-property", "group.protocol=consumer", "--command-property", "auto.offset.reset=earliest",
            "--max-messages", str(len(expected)), "--timeout-ms", "20000", "--formatter-property", "print.offset=true",
            "--formatter-property", "print.value=false",
        )  # fmt: skip
    assert code == 0, text
    assert f"Processed a total of {len(expected)} messages" in text
