"""What administrators' tools ask, of a directory whose metadata log Kafka's own dump tool has printed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kafkalog.cluster.transactions.producers import read_producers
from kafkalog.server.broker import Server
from kafkalog.server.error_codes import Code
from testkit.recorded.broker_dirs import brokers as directories
from testkit.recorded.fixture_data import broker_case
from testkit.serving.raw_client import RawClient
from testkit.serving.serving import serving

CASE = broker_case("4.3.0", "metadata")
PATH = directories("4.3.0/metadata")[0]
GROUPS = directories("4.3.0/groups")[0]


def dumped(kind: str) -> list[dict[str, Any]]:
    """The records of a kind, in order, as Kafka's dump tool printed them."""
    marker = f'payload: {{"type":"{kind}"'
    lines = [line for line in CASE.expected_text("dump_cluster_metadata.txt").splitlines() if marker in line]
    found = [json.loads(line.partition("payload: ")[2])["data"] for line in lines]
    assert found
    return found


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(PATH) as found:
        yield found


def test_directories_hold_what_they_hold() -> None:
    with serving(GROUPS) as server, RawClient(server.address) as client:
        (found,) = client.ask("DescribeLogDirs", 4, topics=None)["results"]
        assert (found["log_dir"], found["error_code"]) == (str(GROUPS), Code.NONE)
        sizes = {f"{topic['name']}-{each['partition_index']}": each["partition_size"]
                 for topic in found["topics"] for each in topic["partitions"]}  # fmt: skip
        assert sizes == {each.name: sum(path.stat().st_size for path in each.glob("*.log")) for each in GROUPS.iterdir()
                         if each.is_dir() and each.name != "__cluster_metadata-0"}  # fmt: skip
        assert any(sizes.values())
        name, _, number = next(iter(sizes)).rpartition("-")
        asked = [{"topic": name, "partitions": [int(number)]}, {"topic": "nobodys", "partitions": [0]}]
        (one,) = client.ask("DescribeLogDirs", 4, topics=asked)["results"]
        assert [(topic["name"], len(topic["partitions"])) for topic in one["topics"]] == [(name, 1)]


def test_the_quorum_is_that_of_the_metadata_log() -> None:
    state = json.loads((GROUPS / "__cluster_metadata-0" / "quorum-state").read_text())
    with serving(GROUPS) as server, RawClient(server.address) as client:
        asked = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
        answer = client.ask("DescribeQuorum", 2, topics=asked)
        (found,) = answer["topics"][0]["partitions"]
        assert (answer["error_code"], found["error_code"]) == (Code.NONE, Code.NONE)
        assert (found["leader_id"], found["leader_epoch"]) == (state["leaderId"], state["leaderEpoch"])
        assert [each["log_end_offset"] for each in found["current_voters"]] == [found["high_watermark"]]
        assert [each["node_id"] for each in answer["nodes"]] == [state["leaderId"]]
        other = [{"topic_name": "t", "partitions": [{"partition_index": 0}, {"partition_index": 1}]}]
        (topic,) = client.ask("DescribeQuorum", 2, topics=other)["topics"]
        assert {each["error_code"] for each in topic["partitions"]} == {Code.UNKNOWN_TOPIC_OR_PARTITION}


def quotas(client: RawClient, *components: tuple[str, int, str | None], strict: bool = False) -> dict[str | None, Any]:
    asked = [{"entity_type": kind, "match_type": match, "match": text} for kind, match, text in components]
    answer = client.ask("DescribeClientQuotas", 1, components=asked, strict=strict)
    assert answer["error_code"] == Code.NONE
    return {each["entity"][0]["entity_name"]: {value["key"]: value["value"] for value in each["values"]}
            for each in answer["entries"]}  # fmt: skip


def test_quotas_are_those_of_the_metadata(server: Server) -> None:
    expected: dict[str, dict[str, float]] = {}
    for each in dumped("CLIENT_QUOTA_RECORD"):
        (entity,) = each["entity"]
        assert entity["entityType"] == "client-id"
        of_entity = expected.setdefault(entity["entityName"], {})
        if each["remove"]:
            of_entity.pop(each["key"])
        else:
            of_entity[each["key"]] = each["value"]
    expected = {name: values for name, values in expected.items() if values}
    assert expected
    one = min(expected)
    with RawClient(server.address) as client:
        assert quotas(client) == expected
        assert quotas(client, ("client-id", 2, None)) == expected
        assert quotas(client, ("client-id", 0, one)) == {one: expected[one]}
        assert quotas(client, ("client-id", 1, None)) == {}
        assert quotas(client, ("user", 2, None)) == {}
        assert quotas(client, strict=True) == {}


def test_credentials_without_what_is_secret(server: Server) -> None:
    expected = {each["name"]: (each["mechanism"], each["iterations"])
                for each in dumped("USER_SCRAM_CREDENTIAL_RECORD")}  # fmt: skip
    with RawClient(server.address) as client:
        answer = client.ask("DescribeUserScramCredentials", 0, users=None)["results"]
        found = {each["user"]: [(one["mechanism"], one["iterations"]) for one in each["credential_infos"]]
                 for each in answer}  # fmt: skip
        assert found == {name: [each] for name, each in expected.items()}
        (nobody,) = client.ask("DescribeUserScramCredentials", 0, users=[{"name": "nobody"}])["results"]
        assert (nobody["error_code"], nobody["credential_infos"]) == (Code.RESOURCE_NOT_FOUND, [])


def test_settings_that_may_be_described(server: Server) -> None:
    with RawClient(server.address) as client:
        listed = client.ask("ListConfigResources", 1, resource_types=[])["config_resources"]
        topics = {each["resource_name"] for each in listed if each["resource_type"] == 2}
        assert topics == set(server.topics)
        brokers = [(each["resource_type"], each["resource_name"]) for each in listed if each["resource_type"] in (4, 8)]
        assert brokers == [(4, "3"), (8, "3")]
        assert client.ask("ListConfigResources", 0)["config_resources"] == []
        asked = [{"resource_type": kind, "resource_name": "x", "configuration_keys": None} for kind in (8, 16, 32, 99)]
        codes = [each["error_code"] for each in client.ask("DescribeConfigs", 4, resources=asked)["results"]]
        assert codes == [0, 0, 0, Code.INVALID_REQUEST]


def test_nothing_is_being_moved(server: Server) -> None:
    with RawClient(server.address) as client:
        answer = client.ask("ListPartitionReassignments", 0, timeout_ms=1, topics=None)
        assert (answer["error_code"], answer["topics"]) == (Code.NONE, [])


def test_groups_are_listed_as_they_are_described() -> None:
    """Their members were there when the broker was killed, and are gone."""
    with serving(GROUPS) as server, RawClient(server.address) as client:
        listed = client.ask("ListGroups", 5)["groups"]
        assert {each["group_state"] for each in listed} == {"Empty"}
        classic = [each["group_id"] for each in listed if each["group_type"] == "classic"]
        described = client.ask("DescribeGroups", 5, groups=classic)["groups"]
        assert {each["group_id"]: each["group_state"] for each in described} == dict.fromkeys(classic, "Empty")


@pytest.mark.parametrize("case_id", ["4.1.1/txn", "2.8.2/txn"])
def test_producers_of_each_partition(case_id: str) -> None:
    """As `kafkalog transactions` shows them, whose numbers a broker's snapshots prove."""
    with serving(*directories(case_id), replica="longest") as server, RawClient(server.address) as client:
        count = 0
        for name, topic in server.topics.items():
            asked = {"name": name, "partition_indexes": [*topic.partitions, 99]}
            (found,) = client.ask("DescribeProducers", 0, topics=[asked])["topics"]
            for each in found["partitions"]:
                if each["partition_index"] == 99:
                    assert each["error_code"] == Code.UNKNOWN_TOPIC_OR_PARTITION
                    continue
                (expected,) = read_producers([topic.partitions[each["partition_index"]].listed])
                assert [(one["producer_id"], one["producer_epoch"], one["last_sequence"], one["last_timestamp"])
                        for one in each["active_producers"]] == [
                    (one.producer_id, one.producer_epoch, one.last_sequence, one.last_timestamp)
                    for one in expected.producers
                ]  # fmt: skip
                starts = {one["current_txn_start_offset"] for one in each["active_producers"]} - {-1}
                assert starts == {one.transaction_start for one in expected.producers} - {None}
                count += len(expected.producers)
        assert count > 0
