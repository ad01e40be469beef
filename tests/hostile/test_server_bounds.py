"""What clients can make the server hold, or do, is bounded; and files that change under it are no crash."""

from __future__ import annotations

import gc
import os
import random
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from kafkalog.codec.messages.published import apis
from kafkalog.server import deferring as deferring_module
from kafkalog.server.answering import SERVED
from kafkalog.server.apis import api
from kafkalog.server.broker import Server, ServerOptions
from kafkalog.server.error_codes import Code
from kafkalog.server.groups import commits as commits_module
from kafkalog.server.groups import consumer_groups as consumer_groups_module
from kafkalog.server.groups import coordinator as coordinator_module
from kafkalog.server.groups.commits import Commit, Commits, TooManyCommitsError
from kafkalog.server.handlers import fetch as fetch_module
from kafkalog.server.handlers.list_offsets import ListOffsetsHandler
from kafkalog.server.limits import NetworkLimits
from kafkalog.server.wire import Request
from testkit.made.extreme_values import extremes
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.serving.raw_client import RawClient, fetching, frame
from testkit.serving.self_signed import self_signed
from testkit.serving.serving import serving

DIRECTORY = brokers("4.3.0/txn")[0]
KINDS = [each for each in map(api, apis()) if each is not None]
MANY = 30_000
REQUESTS = 2_000


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(DIRECTORY) as found:
        yield found


def test_requests_as_far_out_as_their_schemas_permit(server: Server) -> None:
    """`serving` fails where one of them was met by an exception that nobody expected."""
    chance = random.Random(9)
    names = [*server.topics, *(topic.id for topic in server.topics.values()), "g", "consumer", "range", "member"]
    served = [each for each in KINDS if each.name in SERVED]
    answered = 0
    client = RawClient(server.address)
    for _ in range(REQUESTS):
        kind = chance.choice(KINDS if chance.random() < 0.2 else served)
        version = chance.choice(kind.versions)
        body = extremes(kind.request.fields, version, chance, names, elements=chance.choice((5, 50, 3000)))
        client.socket.settimeout(0.1)
        client.send(frame(kind.name, version, body))
        try:
            came = client.receive() is not None
        except TimeoutError:  # it waits for something to happen
            came = False
        answered += came
        if not came:
            client.socket.close()
            client = RawClient(server.address)
    client.socket.close()
    assert answered > REQUESTS * 0.95


REPEATED: list[tuple[str, int, dict[str, Any], Callable[[dict[str, Any]], int]]] = [
    ("Metadata", 12, {"topics": [{"name": "orders-20"}] * MANY}, lambda answer: len(answer["topics"])),
    ("DescribeGroups", 5, {"groups": ["txgrp"] * MANY}, lambda answer: len(answer["groups"])),
    ("ConsumerGroupDescribe", 1, {"group_ids": ["g"] * MANY}, lambda answer: len(answer["groups"])),
    ("OffsetFetch", 8, {"groups": [{"group_id": "txgrp", "topics": None}] * MANY},
     lambda answer: len(answer["groups"])),
    ("DescribeConfigs", 4,
     {"resources": [{"resource_type": 2, "resource_name": "orders-20", "configuration_keys": None}] * MANY},
     lambda answer: len(answer["results"])),
    ("DescribeTopicPartitions", 0,
     {"topics": [{"name": "orders-20"}] * MANY, "cursor": None, "response_partition_limit": 2000},
     lambda answer: len(answer["topics"])),
    ("DescribeUserScramCredentials", 0, {"users": [{"name": "u"}] * MANY}, lambda answer: len(answer["results"])),
    ("ListConfigResources", 1, {"resource_types": [4] * MANY}, lambda answer: len(answer["config_resources"])),
]  # fmt: skip


@pytest.mark.parametrize(("name", "version", "body", "count"), REPEATED, ids=[each[0] for each in REPEATED])
def test_what_is_named_again_and_again_is_answered_once(
    server: Server, name: str, version: int, body: dict[str, Any], count: Callable[[dict[str, Any]], int]
) -> None:
    """Or a small request would make an answer without end."""
    with RawClient(server.address) as client:
        assert count(client.ask(name, version, **body)) == 1


def test_a_session_does_not_grow_without_end(server: Server) -> None:
    with RawClient(server.address) as client:
        opened = client.ask("Fetch", 11, **fetching("t", {0: 0}, session_id=0, session_epoch=0))
        number = opened["session_id"]
        assert number != 0
        for epoch, first in enumerate(range(1, 200_000, MANY), 1):
            more = dict.fromkeys(range(first, first + MANY), 0)
            body = fetching("t", more, session_id=number, session_epoch=epoch)
            code = client.ask("Fetch", 11, **body)["error_code"]
            if code != Code.NONE:
                break
        assert code == Code.FETCH_SESSION_ID_NOT_FOUND
        assert first < 110_000


def test_names_without_end_take_the_place_of_many_partitions(server: Server) -> None:
    with RawClient(server.address) as client:
        topics = [{"topic": f"{number:032000d}", "partitions": [
            {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}]} for number in range(200)]  # fmt: skip
        opened = 0
        for _ in range(12):
            body = fetching("t", {}, session_id=0, session_epoch=0, topics=topics)
            opened += client.ask("Fetch", 11, **body)["session_id"] != 0
        assert opened == 100_000 // (200 * (1 + 32_000 // 256))


def test_fetches_that_wait_are_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Further ones are answered at once; who leaves makes room."""
    monkeypatch.setattr(fetch_module, "_MOST_WAITING", 3)
    with serving(DIRECTORY) as server:
        check_how_many_wait(server)


def check_how_many_wait(server: Server) -> None:
    end = {number: log.bounds().end for number, log in server.topics["orders-20"].partitions.items()}
    waiting = fetching("orders-20", end, max_wait_ms=50_000)
    with RawClient(server.address) as one:
        one.send(frame("Fetch", 11, waiting))
        with RawClient(server.address) as other:
            time.sleep(0.2)
            assert other.ask("Fetch", 11, **waiting)["error_code"] == Code.NONE
    until = time.monotonic() + 20
    while server.connection_count:
        assert time.monotonic() < until
        time.sleep(0.05)
    with RawClient(server.address) as third:
        third.socket.settimeout(0.5)
        third.send(frame("Fetch", 11, waiting))
        with pytest.raises(TimeoutError):
            third.receive()


def held_elements() -> int:
    """Elements of all requests that are in memory as objects."""
    gc.collect()
    # isinstance() asks a weak proxy for its object's class, and that object may be gone.
    return sum(each.weight for each in gc.get_objects() if type(each) is Request and each.body)


SAME = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": 1}


@pytest.mark.parametrize("size", [pytest.param(10_000, marks=pytest.mark.sweep), 700], ids=["large", "small"])
def test_parsed_requests_that_wait_are_bounded(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is to be done by others waits as bytes, however many clients ask."""
    monkeypatch.setattr(deferring_module, "_MOST_WAITING", 30_000)
    may_go_on = threading.Event()
    find_offsets = ListOffsetsHandler.find_offsets

    def found_when_permitted(self: ListOffsetsHandler, request: Request) -> Any:
        if request.weight > 10:
            may_go_on.wait(30)
        return (yield from find_offsets(self, request))

    monkeypatch.setattr(ListOffsetsHandler, "find_offsets", found_when_permitted)
    topics = [{"name": "orders-20", "partitions": [SAME] * size}]
    body = {"replica_id": -1, "isolation_level": 0, "topics": topics}
    with serving(DIRECTORY) as server, ExitStack() as clients:
        many = [clients.enter_context(RawClient(server.address)) for _ in range(80)]
        for each in many:
            each.send(frame("ListOffsets", 7, body))
        time.sleep(2)
        held = held_elements()
        may_go_on.set()
        assert size < held < 30_000 + 11_000
        for each in many:
            assert each.receive() is not None


def bounded(**limits: Any) -> ServerOptions:
    return ServerOptions(processors=1, limits=NetworkLimits(response_memory=4 << 20, **limits))


def ask(server: Server) -> set[str]:
    with RawClient(server.address) as client:
        return {topic["name"] for topic in client.ask("Metadata", 12, topics=None)["topics"]}


@pytest.mark.sweep
def test_answers_that_nobody_takes_are_dropped_where_they_are_too_many() -> None:
    names = [{"name": f"{number:0200d}"} for number in range(25_000)]
    request = frame("Metadata", 9, {"topics": names, "allow_auto_topic_creation": False})
    with serving(DIRECTORY, options=bounded()) as server, ExitStack() as clients:
        for _ in range(12):
            client = clients.enter_context(RawClient(server.address))
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.send(request)
        until = time.monotonic() + 30
        while server.connection_count > 3:
            assert time.monotonic() < until, f"{server.connection_count} clients hold answers"
            time.sleep(0.1)
        assert "orders-20" in ask(server)


def test_requests_that_do_not_end_make_way_for_those_that_wait_for_memory() -> None:
    """Bytes of large requests are admitted, and what has no room stays with its client."""
    some = {"topics": [{"name": f"{number:0200d}"} for number in range(4000)], "allow_auto_topic_creation": False}
    options = bounded(request_memory=4 << 20, request_bytes=2 << 20, waiting_seconds=0.5)
    most = 0
    with serving(DIRECTORY, options=options) as server, ExitStack() as clients:
        for _ in range(5):
            client = clients.enter_context(RawClient(server.address))
            client.socket.settimeout(0.2)
            with suppress(TimeoutError):
                client.send(struct.pack(">i", 2 << 20) + bytes(1 << 20))
            most = max(most, server.memory.taken)  # on a slow machine the first may have been given up at the end
        until = time.monotonic() + 20
        while most < 4 << 20 and time.monotonic() < until:  # or the server has not come to any of them yet
            most = max(most, server.memory.taken)
            time.sleep(0.005)
        assert most == 4 << 20
        began = time.monotonic()
        assert "orders-20" in ask(server)
        assert time.monotonic() - began < 2
        with RawClient(server.address, timeout=60) as large:
            assert len(large.ask("Metadata", 9, **some)["topics"]) == 4000
        clients.close()
        until = time.monotonic() + 20
        while server.memory.taken:
            assert time.monotonic() < until, f"{server.memory.taken} bytes were not given back"
            time.sleep(0.1)


def test_before_it_is_known_who_asks_requests_are_small() -> None:
    with serving(DIRECTORY, options=ServerOptions(users={"anna": "s3cret"})) as server:
        with RawClient(server.address) as client:
            with suppress(ConnectionError):
                client.send(struct.pack(">i", 1 << 20) + bytes(1 << 20))
            assert client.receive() is None
        with RawClient(server.address) as client:
            client.ask("SaslHandshake", 1, mechanism="PLAIN")
            assert client.ask("SaslAuthenticate", 2, auth_bytes=b"\0anna\0s3cret")["error_code"] == Code.NONE
            topics = [{"name": "x" * 200}, *({"name": f"{number:0200d}"} for number in range(5000))]
            assert len(client.ask("Metadata", 9, topics=topics)["topics"]) == 5001


def test_ids_are_not_as_long_as_a_client_calls_itself(server: Server) -> None:
    body = {"group_id": "g", "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "member_id": "",
            "group_instance_id": "i" * 30_000, "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}]}  # fmt: skip
    with RawClient(server.address) as client:
        answer = client.ask("JoinGroup", 5, **body)
        assert answer["error_code"] == Code.NONE
        assert len(answer["member_id"]) < 300


def test_members_are_bounded_by_what_they_say(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_groups_module, "_MOST_CHARACTERS", 100_000)
    monkeypatch.setattr(coordinator_module, "_MOST_BYTES", 100_000)
    with RawClient(server.address) as client:
        codes = []
        for number in range(10):
            body = {"group_id": f"g{number}", "member_id": f"{number:030000d}", "member_epoch": 0, "instance_id": None,
                    "rack_id": None, "rebalance_timeout_ms": 1000, "subscribed_topic_names": ["t"],
                    "subscribed_topic_regex": None, "server_assignor": None, "topic_partitions": []}  # fmt: skip
            codes.append(client.ask("ConsumerGroupHeartbeat", 1, **body)["error_code"])
        assert codes == [Code.NONE] * 3 + [Code.GROUP_MAX_SIZE_REACHED] * 7
        codes = []
        for number in range(10):
            body = {"group_id": f"c{number}", "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000,
                    "member_id": "", "group_instance_id": f"{number:030000d}", "protocol_type": "consumer",
                    "protocols": [{"name": "range", "metadata": b""}]}  # fmt: skip
            codes.append(client.ask("JoinGroup", 5, **body)["error_code"])
        assert codes[:3] == [Code.NONE] * 3
        assert codes[-3:] == [Code.GROUP_MAX_SIZE_REACHED] * 3


def test_commits_are_bounded_by_what_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits_module, "_MOST_BYTES", 10_000)
    kept = Commits(tuple)
    for number in range(9):
        kept.commit({("g", "t", number): Commit(1, -1, "m" * 1000)})
    kept.commit({("g", "t", 0): Commit(2)})
    with pytest.raises(TooManyCommitsError):
        kept.commit({("g" * 5000, "t", 0): Commit(1)})
    assert kept.of_group("g")["t", 0] == Commit(2)
    assert len(kept.of_group("g")) == 9


def test_a_client_with_tls_that_never_pauses_leaves_others_their_turn(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    trusting = ssl.create_default_context(cafile=str(certificate))
    stop = threading.Event()
    some = b"".join(frame("ApiVersions", 0, {}, number) for number in range(500))

    def flood(secured: ssl.SSLSocket) -> None:
        with suppress(OSError):
            while not stop.is_set():
                secured.sendall(some)

    def drain(secured: ssl.SSLSocket) -> None:
        with suppress(OSError):
            while not stop.is_set() and secured.recv(1 << 16):
                pass

    with serving(DIRECTORY, options=ServerOptions(processors=1, tls=lambda: context)) as server:
        secured = trusting.wrap_socket(socket.create_connection(server.address, 20), server_hostname="127.0.0.1")
        threads = [threading.Thread(target=each, args=(secured,)) for each in (flood, drain)]
        for each in threads:
            each.start()
        try:
            time.sleep(0.5)
            for _ in range(5):
                with RawClient(server.address) as client:
                    client.socket = trusting.wrap_socket(client.socket, server_hostname="127.0.0.1")
                    assert client.ask("Metadata", 12, topics=None)["topics"]
        finally:
            stop.set()
            with suppress(OSError):  # the server may have let go of it
                secured.shutdown(socket.SHUT_RDWR)  # closing alone wakes nobody who waits for bytes
            for each in threads:
                each.join()
            secured.close()


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_files_that_are_cut_and_deleted_while_they_are_read(tmp_path: Path, isolation_level: int) -> None:
    copy = own_copy(DIRECTORY, tmp_path / "copy")
    logs = sorted(copy.glob("orders-20-*/*.log"))
    whole = {path: path.read_bytes() for path in logs}
    stop = threading.Event()
    chance = random.Random(3)

    def change() -> None:
        while not stop.is_set():
            path = chance.choice(logs)
            if chance.random() < 0.5:
                with suppress(FileNotFoundError):
                    os.truncate(path, chance.randrange(len(whole[path])))
            else:
                path.unlink(missing_ok=True)
            time.sleep(0.002)
            path.write_bytes(whole[path])

    with serving(copy, options=ServerOptions(refresh_seconds=0.05)) as server:
        changer = threading.Thread(target=change)
        changer.start()
        try:
            for number in range(1500):
                with RawClient(server.address) as client:
                    body = fetching("orders-20", {number % 2: number % 60}, isolation_level=isolation_level)
                    with suppress(AssertionError, struct.error):  # a range that became shorter ends its connection
                        client.ask("Fetch", 11, **body)
        finally:
            stop.set()
            changer.join()
        until = time.monotonic() + 20
        while True:
            with RawClient(server.address) as client:
                body = fetching("orders-20", {0: 0}, isolation_level=isolation_level)
                found = client.ask("Fetch", 11, **body)["responses"][0]["partitions"][0]
            if found["error_code"] == 0 and found["records"]:
                break
            assert time.monotonic() < until, found
            time.sleep(0.1)
