"""Requests and responses against kio, which is made from Kafka's schemas by other people with another program."""

from __future__ import annotations

import random
from importlib import import_module
from typing import Any

import pytest
from kio.serial import entity_reader, entity_writer

from kafkalog.cluster.kraft.cluster_facts import ClusterFacts
from kafkalog.codec.messages.leaves import Output
from kafkalog.codec.messages.message import Message
from kafkalog.codec.messages.published import apis, newest
from kafkalog.codec.messages.schema import snake_case
from kafkalog.server.answering import OFFERED
from kafkalog.server.apis import API_VERSIONS, api
from kafkalog.server.handlers.versions import api_versions
from kafkalog.server.wire import SIZE, Request, RequestError, encode_response, parse_request
from testkit.made.message_values import values
from testkit.running.shares import EACH

KIND = {"Request": "request", "Response": "response"}


def of_kio(name: str, kind: str, version: int) -> Any | None:
    """The class that kio has for a message; None where it has none."""
    try:
        module = import_module(f"kio.schema.{snake_case(name)}.v{version}.{kind.lower()}")
    except ModuleNotFoundError:
        return None
    return getattr(module, f"{name}{kind}")


def through_kio(entity: Any, data: bytes) -> bytes:
    """What kio writes of what it reads."""
    read, end = entity_reader(entity)(data, 0)
    assert end == len(data)
    output = Output()
    entity_writer(entity)(output, read)
    return output.getvalue()


def compared(message: Message, kind: str, elements: int) -> int:
    """How many versions kio has too, all of which it reads and writes as we do."""
    count = 0
    for version in message.versions:
        entity = of_kio(message.name.removesuffix(kind), kind, version)
        if entity is None:
            continue
        given = values(message.fields, version, random.Random(f"{message.name} {version}"), elements=elements)
        data = message.construct(version).build(given)
        assert message.construct(version).parse(data) == given
        assert through_kio(entity, data) == data, (message.name, version)
        count += 1
    return count


@EACH
@pytest.mark.parametrize("elements", [0, 2])
def test_every_message_reads_and_writes_as_with_kio(elements: int, each: int) -> None:
    count = 0
    for name in list(apis().values())[elements // 2 :: each]:
        count += sum(compared(newest(f"{name}{kind}"), kind, elements) for kind in KIND)
    assert count > 590 // each - 50


def request(key: int, version: int, body: dict[str, Any]) -> bytes:
    kind = api(key)
    assert kind is not None
    header = newest("RequestHeader").construct(2 if kind.is_flexible(version) else 1)
    fields = {"request_api_key": key, "request_api_version": version, "correlation_id": 7, "client_id": "me"}
    return bytes(header.build(fields)) + bytes(kind.request.construct(version).build(body))


def test_a_request_with_its_header() -> None:
    parsed = parse_request(request(3, 12, {"topics": None}))
    assert (parsed.api.name, parsed.version, parsed.correlation_id, parsed.client_id) == ("Metadata", 12, 7, "me")
    assert parsed.body["topics"] is None


def test_bytes_behind_a_request_are_passed_over() -> None:
    assert parse_request(request(3, 12, {"topics": None}) + b"\0\0\0").body["topics"] is None


def test_api_versions_of_the_future_are_asked_for_without_a_body() -> None:
    parsed = parse_request(bytes.fromhex("0012 7fff 00000009 ffff"))
    assert parsed.unsupported
    assert parsed.correlation_id == 9


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\1\0",
        bytes.fromhex("0400 0000 00000001 ffff"),  # no such kind
        bytes.fromhex("0004 0000 00000001 ffff"),  # one that is gone
        bytes.fromhex("0001 0003 00000001 ffff"),  # a fetch of before 0.11
        bytes.fromhex("0003 0000 00000001 ffff 7fffffff"),  # more topics than bytes
        bytes.fromhex("0003 000d 00000001 ffff 00 ffffffff0f 00 00 00"),
        bytes.fromhex("0003 000c 00000001 0005"),
    ],
)
def test_what_is_no_request_is_an_error(data: bytes) -> None:
    with pytest.raises(RequestError):
        parse_request(data)


def test_a_response_has_holes_for_records() -> None:
    kind = api(1)
    assert kind is not None
    asked = Request(kind, 4, 5, None, {})

    class Hole:
        size = 1000

    partition = {"partition_index": 0, "error_code": 0, "high_watermark": 0, "aborted_transactions": None}
    body = {"responses": [{"topic": "t", "partitions": [{**partition, "records": Hole()}] * 2}]}
    parts: list[Any] = list(encode_response(asked, body))
    sizes = [part.size if isinstance(part, Hole) else len(part) for part in parts]
    whole = {"responses": [{"topic": "t", "partitions": [{**partition, "records": bytes(1000)}] * 2}]}
    expected = kind.response.construct(4).build(whole)
    assert b"".join(bytes(1000) if isinstance(part, Hole) else bytes(part) for part in parts) == (
        SIZE.pack(len(expected) + 4) + SIZE.pack(5) + expected
    )
    assert sizes[1] == sizes[3] == 1000


def test_api_versions_of_the_future_are_answered_in_version_0() -> None:
    asked = parse_request(bytes.fromhex("0012 7fff 00000009 ffff"))
    data: Any
    (data,) = encode_response(asked, api_versions(asked, ClusterFacts(id=None, node_id=1), OFFERED))
    answer = asked.api.response.construct(0).parse(bytes(data)[8:])
    assert answer == {"error_code": 35, "api_keys": [{"api_key": 18, "min_version": 0, "max_version": 5}]}


@pytest.mark.parametrize(
    ("version", "body", "error"),
    [
        (5, {"cluster_id": "here", "node_id": 7}, 0),
        (5, {"cluster_id": None, "node_id": -1}, 0),
        (5, {"cluster_id": "there", "node_id": 7}, 129),
        (5, {"cluster_id": "here", "node_id": 8}, 129),
        (5, {"cluster_id": "here", "node_id": -1}, 42),
        (5, {"cluster_id": None, "node_id": 7}, 42),
        (4, {}, 0),
    ],
)
def test_a_client_that_wants_another_node_is_sent_away(version: int, body: dict[str, Any], error: int) -> None:
    """`KafkaApis.handleApiVersionsRequest` of 4.4."""
    kind = api(API_VERSIONS)
    assert kind is not None
    answer = api_versions(Request(kind, version, 1, None, body), ClusterFacts(id="here", node_id=7), OFFERED)
    assert answer["error_code"] == error
    assert bool(answer["api_keys"]) is (error == 0)


def test_the_header_of_api_versions_is_never_flexible() -> None:
    kind = api(API_VERSIONS)
    assert kind is not None
    data: Any
    (data,) = encode_response(Request(kind, 3, 5, None, {}), {"error_code": 0})
    assert bytes(data)[4:10] == SIZE.pack(5) + b"\0\0"
