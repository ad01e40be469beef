"""Everything that nobody answers is refused in a form that Kafka's clients understand."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from kafkalog.codec.messages.published import apis
from kafkalog.server.answering import SERVED
from kafkalog.server.apis import Api, api, offered
from kafkalog.server.error_codes import Code
from kafkalog.server.handlers.refusals import READ_ONLY, refusal
from kafkalog.server.wire import Request, encode_response
from testkit.made.message_values import values

REFUSED = [each for each in map(api, apis()) if each is not None and each.name not in SERVED]


def codes(value: Any) -> Iterator[int]:
    """Every error code in a response."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name.endswith("error_code"):
                yield inner
            else:
                yield from codes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from codes(inner)


def test_all_that_write_are_among_them() -> None:
    names = {each.name for each in REFUSED}
    assert names >= {
        "Produce", "CreateTopics", "DeleteTopics", "DeleteRecords", "AlterConfigs", "IncrementalAlterConfigs",
        "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit", "WriteTxnMarkers",
        "CreateAcls", "DeleteAcls", "CreatePartitions", "DeleteGroups", "OffsetDelete", "ElectLeaders",
        "AlterPartitionReassignments", "AlterReplicaLogDirs", "UpdateFeatures", "UnregisterBroker",
    }  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED, ids=lambda kind: kind.name)
def test_every_place_for_an_error_has_one(kind: Api) -> None:
    for version in kind.versions:
        asked = values(kind.request.fields, version, random.Random(version), elements=2)
        request = Request(kind, version, 1, None, asked)
        answer = refusal(request)
        found = list(codes(answer))
        assert found
        assert Code.NONE not in found
        data: Any
        (data,) = encode_response(request, answer)
        header = 9 if kind.is_flexible(version) else 8
        assert list(codes(kind.response.construct(version).parse(bytes(data[header:])))) == found


def test_what_is_refused_is_named() -> None:
    kind = api(0)
    assert kind is not None
    partitions = [{"index": number, "records": b"x"} for number in (3, 4)]
    body = {"transactional_id": None, "acks": 1, "timeout_ms": 1, "topic_data": [
        {"name": "orders", "partition_data": partitions}]}  # fmt: skip
    (topic,) = refusal(Request(kind, 9, 1, None, body))["responses"]
    assert topic["name"] == "orders"
    assert [(each["index"], each["error_code"]) for each in topic["partition_responses"]] == [
        (3, Code.TOPIC_AUTHORIZATION_FAILED), (4, Code.TOPIC_AUTHORIZATION_FAILED)
    ]  # fmt: skip
    assert topic["partition_responses"][0]["error_message"] == READ_ONLY


def test_clients_are_told_of_what_clients_may_ask() -> None:
    names = {each.name for each in offered(SERVED)}
    assert {"Produce", "CreateTopics", "Fetch", "ApiVersions"} <= names
    assert not names & {"BrokerHeartbeat", "Vote", "AlterPartition", "ShareGroupHeartbeat", "ShareFetch"}
