"""Who may ask: SASL/PLAIN, and TLS with certificates that openssl makes."""

from __future__ import annotations

import re
import shutil
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from kafkalog.server.broker import Complaints, Server, ServerOptions
from kafkalog.server.catalog import Catalog
from kafkalog.server.error_codes import Code
from testkit.recorded.broker_dirs import brokers, expected_offsets, expected_records
from testkit.recorded.fixture_data import broker_case
from testkit.serving.raw_client import RawClient
from testkit.serving.self_signed import self_signed
from testkit.serving.serving import SECONDS, bootstrap, serving

TXN = brokers("4.3.0/txn")[0]
CASE = broker_case("4.3.0", "txn")
USERS = {"anna": "s3cret", "берта": "пароль"}


def read_all(server: Server, **settings: Any) -> set[tuple[str, int, int]]:
    """The places of all records, as librdkafka with these settings reads them."""
    ends = expected_offsets(CASE, "read_uncommitted")
    consumer = confluent_kafka.Consumer({
        "bootstrap.servers": bootstrap(server), "group.id": "g", "enable.auto.commit": False,
        "enable.partition.eof": True, "isolation.level": "read_uncommitted", "fetch.wait.max.ms": 50, **settings,
    })  # fmt: skip
    try:
        consumer.assign([confluent_kafka.TopicPartition(*key, 0) for key in ends])
        found, waiting = set(), set(ends)
        until = time.monotonic() + SECONDS
        while waiting:
            assert time.monotonic() < until, f"nothing came of {waiting}"
            for message in consumer.consume(1000, 0.1):
                if message.error() is None:
                    found.add((message.topic(), message.partition(), message.offset()))
                else:
                    waiting.discard((message.topic(), message.partition()))
        return found
    finally:
        consumer.close()


EXPECTED = set(expected_records(CASE, "read_uncommitted"))


@pytest.mark.parametrize("name", USERS)
def test_a_client_that_says_who_it_is_may_read(name: str) -> None:
    with serving(TXN, options=ServerOptions(users=USERS)) as server:
        found = read_all(server, **{"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
                                    "sasl.username": name, "sasl.password": USERS[name]})  # fmt: skip
    assert found == EXPECTED


@pytest.mark.parametrize(
    "said",
    [
        b"\0anna\0wrong",
        b"\0nobody\0s3cret",
        b"\0nobody\0",
        b"anna s3cret",
        b"",
        b"berta\0anna\0s3cret",
        b"\0anna\0s3cret\0",
    ],
)
def test_who_is_not_known_is_turned_away(said: bytes) -> None:
    with serving(TXN, options=ServerOptions(users=USERS)) as server, RawClient(server.address) as client:
        assert client.ask("SaslHandshake", 1, mechanism="PLAIN")["error_code"] == Code.NONE
        answer = client.ask("SaslAuthenticate", 2, auth_bytes=said)
        assert answer["error_code"] == Code.SASL_AUTHENTICATION_FAILED
        assert client.receive() is None


def test_nothing_is_told_before() -> None:
    with serving(TXN, options=ServerOptions(users=USERS)) as server:
        with RawClient(server.address) as client:
            assert client.ask("ApiVersions", 0)["error_code"] == Code.NONE
            assert client.ask("SaslHandshake", 1, mechanism="SCRAM-SHA-256") == {
                "error_code": Code.UNSUPPORTED_SASL_MECHANISM, "mechanisms": ["PLAIN"]
            }  # fmt: skip
            assert client.ask("SaslAuthenticate", 2, auth_bytes=b"\0anna\0s3cret")["error_code"] == (
                Code.ILLEGAL_SASL_STATE
            )
        with RawClient(server.address) as client, pytest.raises(AssertionError, match="was closed"):
            client.ask("Metadata", 12, topics=None)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """A certificate for 127.0.0.1 that vouches for itself, and its key."""
    place = tmp_path_factory.mktemp("tls")
    yield self_signed(place)
    shutil.rmtree(place)


def test_with_tls(certificate: tuple[Path, Path]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with serving(TXN, options=ServerOptions(tls=lambda: context, users=USERS)) as server:
        with RawClient(server.address) as plain:  # who does not speak TLS is not answered
            plain.send(bytes(100))
            assert plain.receive() is None
        found = read_all(server, **{"security.protocol": "SASL_SSL", "ssl.ca.location": str(certificate[0]),
                                    "sasl.mechanism": "PLAIN", "sasl.username": "anna",
                                    "sasl.password": "s3cret"})  # fmt: skip
    assert found == EXPECTED


def test_who_is_turned_away_is_told_to_the_operator(certificate: tuple[Path, Path]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    told: list[str] = []
    with Server(Catalog([TXN]), ("127.0.0.1", 0), ServerOptions(tls=lambda: context), complain=told.append) as server:
        for _ in range(3):
            with RawClient(server.address) as plain:
                plain.send(bytes(100))
                assert plain.receive() is None
    told = [re.sub(r":\d+:", ":", each) for each in told]
    assert told == ["127.0.0.1: the client does not speak TLS, which is asked for here"]
    told.clear()
    with Server(Catalog([TXN]), ("127.0.0.1", 0), ServerOptions(users=USERS), complain=told.append) as server:
        for _ in range(3):
            with RawClient(server.address) as client:
                client.ask("SaslHandshake", 1, mechanism="SCRAM-SHA-256")
                client.ask("SaslHandshake", 1, mechanism="PLAIN")
                client.ask("SaslAuthenticate", 2, auth_bytes=b"\0anna\0wrong")
    assert [re.sub(r":\d+:", ":", each) for each in told] == [
        "127.0.0.1: SASL with SCRAM-SHA-256 was turned away: PLAIN alone is offered",
        "127.0.0.1: turned away: nobody has this name and password",
    ]


def test_complaints_no_faster_than_somebody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    complain, now = Complaints(told.append), 6000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    for number in range(20):
        complain(f"127.0.0.1:{number}: the same")
    assert told == ["127.0.0.1:0: the same"]
    for number in range(20):
        complain(f"10.0.0.{number}:1: the same")
    assert told[1:] == [f"10.0.0.{number}:1: the same" for number in range(4)]
    now += 1
    complain("[::1]:7: another")
    assert told[5:] == ["and 16 more of the kind", "[::1]:7: another"]
    now += 60
    complain("127.0.0.1:99: the same")
    assert told[7:] == ["127.0.0.1:99: the same"]
