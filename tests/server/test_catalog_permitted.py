"""Users who may read some topics: they are told of no others, whatever they ask."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka.admin
import pytest

from kafkalog.codec.files.text import decode_uuid
from kafkalog.server.broker import Server, ServerOptions
from kafkalog.server.catalog import Catalog, Permitted
from kafkalog.server.error_codes import Code
from testkit.kafka.answer_comparing import ASKED, Names, plausible
from testkit.recorded.broker_dirs import brokers
from testkit.running.command import kafkalog
from testkit.serving.raw_client import RawClient, fetching, frame, kind_of
from testkit.serving.serving import serving
from testkit.serving.the_server import listening

PATH = brokers("4.3.0/txn")[0]
HIDDEN, SHOWN = "orders-20", "metrics-1"
REQUESTS = 1500
_ASKED_ABOUT: dict[str, tuple[int, dict[str, Any]]] = {
    "Metadata": (12, {"topics": [{"name": HIDDEN}]}),
    "DescribeTopicPartitions": (0, {"topics": [{"name": HIDDEN}], "cursor": None, "response_partition_limit": 10}),
    "Fetch": (11, fetching(HIDDEN, {0: 0})),
    "ListOffsets": (7, {"replica_id": -1, "isolation_level": 0, "topics": [{"name": HIDDEN, "partitions": [
        {"partition_index": 0, "current_leader_epoch": -1, "timestamp": 1}]}]}),
    "OffsetForLeaderEpoch": (4, {"topics": [{"topic": HIDDEN, "partitions": [{"partition": 0, "leader_epoch": 0}]}]}),
    "OffsetCommit": (8, {"group_id": "g", "topics": [{"name": HIDDEN, "partitions": [
        {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]}]}),
    "OffsetFetch": (7, {"group_id": "txgrp", "topics": [{"name": HIDDEN, "partition_indexes": [0]}]}),
    "DescribeProducers": (0, {"topics": [{"name": HIDDEN, "partition_indexes": [0]}]}),
    "DescribeConfigs": (4, {"resources": [{"resource_type": 2, "resource_name": HIDDEN, "configuration_keys": None}]}),
}  # fmt: skip


@pytest.fixture
def server() -> Iterator[Server]:
    options = ServerOptions(users={"anna": "s3cret", "root": "all"}, permitted={"anna": ["metrics-*", "nobodys"]})
    with serving(PATH, options=options) as found:
        yield found


def said_who(server: Server, name: str = "anna", password: str = "s3cret") -> RawClient:
    client = RawClient(server.address)
    client.ask("SaslHandshake", 1, mechanism="PLAIN")
    auth = f"\0{name}\0{password}".encode()
    assert client.ask("SaslAuthenticate", 2, auth_bytes=auth)["error_code"] == Code.NONE
    return client


def codes(value: Any) -> set[int]:
    """Every error code in a response that is one."""
    if isinstance(value, dict):
        own = {each for name, each in value.items() if name == "error_code"}
        return (own | set().union(*map(codes, value.values()))) - {Code.NONE}
    return set().union(*map(codes, value)) if isinstance(value, list) else set()


@pytest.mark.parametrize("api", _ASKED_ABOUT)
def test_what_is_named_and_not_permitted_is_refused(server: Server, api: str) -> None:
    """Whether it is there or not: the code would tell."""
    version, body = _ASKED_ABOUT[api]
    with said_who(server) as client:
        answer = client.ask(api, version, **body)
        assert codes(answer) == {Code.TOPIC_AUTHORIZATION_FAILED}
        missing = json.loads(json.dumps(body).replace(HIDDEN, "missing"))
        assert codes(client.ask(api, version, **missing)) == {Code.TOPIC_AUTHORIZATION_FAILED}
    with said_who(server, "root", "all") as client:
        assert Code.TOPIC_AUTHORIZATION_FAILED not in codes(client.ask(api, version, **body))


def test_no_answer_tells_of_what_was_not_named(server: Server) -> None:
    chance = random.Random(4)
    topics = server.topics
    names = Names((SHOWN, "missing", "not/legal"), (topics[SHOWN].id, "A" * 22), ("txgrp", "nobody", ""))
    secret = HIDDEN.encode(), decode_uuid(topics[HIDDEN].id)
    kinds = [*ASKED, "DescribeLogDirs", "ListConfigResources", "DescribeConfigs", "ConsumerGroupDescribe"]
    answered = told = 0
    client = said_who(server)
    for number in range(REQUESTS):
        kind = kind_of(kinds[number % len(kinds)])
        version = chance.choice(kind.versions)
        client.send(frame(kind.name, version, plausible(kind.request.fields, version, chance, names)))
        data = client.receive()
        if data is None:
            client.socket.close()
            client = said_who(server)
            continue
        answered += 1
        told += SHOWN.encode() in data
        assert not [each for each in secret if each in data], f"{kind.name} {version}"
    client.socket.close()
    assert answered > REQUESTS * 0.9
    assert told > 100


def test_sessions_of_others_give_nothing(server: Server) -> None:
    with said_who(server, "root", "all") as root, said_who(server) as anna:
        opened = root.ask("Fetch", 11, **fetching(HIDDEN, {0: 0}, session_id=0, session_epoch=0))
        body = fetching(HIDDEN, {}, session_id=opened["session_id"], session_epoch=1)
        answer = anna.ask("Fetch", 11, **body)
        assert all(not each["records"] for topic in answer["responses"] for each in topic["partitions"])
        assert codes(answer) <= {Code.TOPIC_AUTHORIZATION_FAILED}


def test_what_a_pattern_permits() -> None:
    catalog = Catalog([PATH])
    for patterns, shown in (([], set()), (["*"], set(catalog.topics)), (["orders-20"], {"orders-20"}),
                            (["orders-2"], set()), (["orders-2*"], {"orders-20"})):  # fmt: skip
        assert set(Permitted(catalog, patterns).topics) == shown


def test_librdkafka_lists_what_a_user_may_read(tmp_path: Path) -> None:
    users = tmp_path / "users.properties"
    users.write_text("anna=s3cret\nanna.topics=metrics-*,nobodys\nroot=all\n")
    users.chmod(0o600)
    with listening("--users", users, PATH) as (bootstrap, _):
        found = {}
        for name, password in (("anna", "s3cret"), ("root", "all")):
            admin = confluent_kafka.admin.AdminClient({
                "bootstrap.servers": bootstrap, "security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN",
                "sasl.username": name, "sasl.password": password,
            })  # fmt: skip
            found[name] = set(admin.list_topics(timeout=20).topics)
    assert found["anna"] == {each for each in found["root"] if each.startswith("metrics-")}
    assert HIDDEN in found["root"]


@pytest.mark.parametrize(("text", "told"), [
    ("anna.topics=a\n", "anna.topics says what anna may read, who has no password"),
    ("anna=s\nanna.topics=a,or*ders\n", "anna may read 'or*ders': that names no topic"),
])  # fmt: skip
def test_what_the_file_of_users_may_not_say(tmp_path: Path, text: str, told: str) -> None:
    users = tmp_path / "users.properties"
    users.write_text(text)
    declined = kafkalog("serve", "--users", users, PATH)
    assert (declined.code, told in declined.err) == (64, True), declined.err
