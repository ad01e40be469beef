"""Which topics there are, and who has them, as a client is told."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalog.server.error_codes import Code
from testkit.recorded.broker_dirs import brokers
from testkit.serving.raw_client import RawClient
from testkit.serving.serving import serving

TXN = brokers("4.3.0/txn")[0]


def places(page: dict[str, Any]) -> list[tuple[str, int]]:
    """Topic and partition of each partition in an answer."""
    return [(topic["name"], each["partition_index"]) for topic in page["topics"] for each in topic["partitions"]]


def test_all_topics_in_every_version() -> None:
    with serving(TXN) as server, RawClient(server.address) as client:
        for version in range(14):
            topics = client.ask("Metadata", version, topics=[] if version == 0 else None)["topics"]
            assert {"orders-20", "metrics-1", "audit-42", "__consumer_offsets"} <= {each["name"] for each in topics}
            assert "__cluster_metadata" not in {each["name"] for each in topics}
            assert all(len(each["partitions"]) in (1, 2, 3) for each in topics)


@pytest.mark.parametrize(
    ("name", "code"), [("nothing", Code.UNKNOWN_TOPIC_OR_PARTITION), ("a b", Code.INVALID_TOPIC_EXCEPTION),
                       ("..", Code.INVALID_TOPIC_EXCEPTION), ("x" * 250, Code.INVALID_TOPIC_EXCEPTION)]
)  # fmt: skip
def test_topics_that_are_not_there(name: str, code: Code) -> None:
    with serving(TXN) as server, RawClient(server.address) as client:
        (topic,) = client.ask("Metadata", 12, topics=[{"name": name}])["topics"]
        assert (topic["error_code"], topic["partitions"]) == (code, [])


def test_topics_by_their_ids() -> None:
    with serving(TXN) as server, RawClient(server.address) as client:
        (named,) = client.ask("Metadata", 12, topics=[{"name": "orders-20"}])["topics"]
        (found,) = client.ask("Metadata", 12, topics=[{"name": None, "topic_id": named["topic_id"]}])["topics"]
        assert found == named
        for version in (10, 11, 12):
            name = "" if version < 12 else None
            (missing,) = client.ask("Metadata", version, topics=[{"name": name, "topic_id": "B" + "A" * 21}])["topics"]
            expected = Code.UNKNOWN_TOPIC_ID if version == 12 else Code.INVALID_REQUEST
            assert missing["error_code"] == expected


def test_pages_of_partitions_cover_all_and_repeat_none() -> None:
    with serving(TXN) as server, RawClient(server.address) as client:
        whole = client.ask("DescribeTopicPartitions", 0, topics=[], cursor=None, response_partition_limit=2000)
        assert whole["next_cursor"] is None
        expected = places(whole)
        # null in place of these ends Kafka's own admin client
        assert all(each["eligible_leader_replicas"] == [] for topic in whole["topics"] for each in topic["partitions"])
        for limit in (1, 2, 3, 7):
            found, cursor = [], None
            while True:
                body: dict[str, Any] = {"topics": [], "cursor": cursor, "response_partition_limit": limit}
                page = client.ask("DescribeTopicPartitions", 0, **body)
                assert len(places(page)) <= limit
                found += places(page)
                cursor = page["next_cursor"]
                if cursor is None:
                    break
            assert found == expected


def test_the_cluster_its_settings_and_coordinators() -> None:
    with serving(TXN) as server, RawClient(server.address) as client:
        cluster = client.ask("DescribeCluster", 2)
        (broker,) = cluster["brokers"]
        assert (broker["host"], broker["port"]) == server.address
        assert cluster["controller_id"] == broker["broker_id"]
        (one,) = client.ask("FindCoordinator", 6, key_type=0, coordinator_keys=["g"])["coordinators"]
        assert (one["node_id"], one["error_code"]) == (broker["broker_id"], 0)
        asked = [{"resource_type": kind, "resource_name": name, "configuration_keys": None}
                 for kind, name in ((2, "orders-20"), (2, "nothing"), (4, "1"), (3, "x"))]  # fmt: skip
        answers = client.ask("DescribeConfigs", 4, resources=asked)["results"]
        assert [each["error_code"] for each in answers] == [0, Code.UNKNOWN_TOPIC_OR_PARTITION, 0, Code.INVALID_REQUEST]
