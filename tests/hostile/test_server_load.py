"""Attackers and honest clients side by side: memory stays within its stated bound, and everybody is answered.

The quick part always runs; the whole of it, with the figures of the threat model, is in the sweep.
"""

from __future__ import annotations

import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from kafkalog.server.broker import Server, ServerOptions
from kafkalog.server.catalog import Catalog
from kafkalog.server.error_codes import Code
from kafkalog.server.limits import NetworkLimits
from testkit.recorded.broker_dirs import brokers
from testkit.serving.raw_client import RawClient, fetching, frame
from testkit.serving.serving import serving
from testkit.serving.the_server import listening

DIRECTORY = brokers("4.3.0/txn")[0]
ANSWERED_WITHIN_S = 2.0
MEMORY_MIB = 300
NAMED = 60_000


def address_of(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def answered(address: tuple[str, int], timeout: float = 30) -> float:
    """Seconds in which somebody who asks for all topics, and then for a time, is answered."""
    began = time.monotonic()
    with RawClient(address, timeout) as client:
        assert "orders-20" in {each["name"] for each in client.ask("Metadata", 12, topics=None)["topics"]}
        asked = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": 1}
        body = {"replica_id": -1, "isolation_level": 0, "topics": [{"name": "orders-20", "partitions": [asked]}]}
        (topic,) = client.ask("ListOffsets", 7, **body)["topics"]
        assert topic["partitions"][0]["error_code"] == Code.NONE
    return time.monotonic() - began


def memory(pid: int, name: str) -> int:
    """MiB of a process: `VmRSS` now, `VmHWM` at most so far."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith(f"{name}:"))


@contextmanager
def attackers(count: int, attack: Callable[[int], None]) -> Iterator[None]:
    """So many threads that do it again and again."""
    stop = threading.Event()

    def again(number: int) -> None:
        while not stop.is_set():
            with suppress(OSError, AssertionError):
                attack(number)

    threads = [threading.Thread(target=again, args=(number,), daemon=True) for number in range(count)]
    for each in threads:
        each.start()
    try:
        yield
    finally:
        stop.set()
        for each in threads:
            each.join(60)


def large(count: int) -> bytes:
    names = [{"name": f"{number:026d}"} for number in range(count)]
    return frame("Metadata", 9, {"topics": names, "allow_auto_topic_creation": False})


def same_partition(count: int) -> bytes:
    asked = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": 1}
    topics = [{"name": "orders-20", "partitions": [asked] * count}]
    return frame("ListOffsets", 7, {"replica_id": -1, "isolation_level": 0, "topics": topics})


def send_and_wait(address: tuple[str, int], data: bytes, seconds: float) -> None:
    """Take nothing of the answer."""
    with RawClient(address, timeout=seconds) as client:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.send(data)
        client.socket.recv(1)
        time.sleep(seconds)


def test_a_partition_that_is_named_again_and_again_gets_an_error() -> None:
    """As a broker answers it; each look-up would be a walk over a log."""
    with serving(DIRECTORY) as server, RawClient(server.address) as client:
        began = time.monotonic()
        client.send(same_partition(NAMED))
        assert answered(server.address) < ANSWERED_WITHIN_S
        data = client.receive()
        assert data is not None
        assert time.monotonic() - began < 15
        assert data.count(Code.INVALID_REQUEST.to_bytes(2, "big") + b"\xff" * 20) == 1


@pytest.mark.parametrize("data", [large(20_000), same_partition(10_000)], ids=["large", "same"])
def test_others_are_answered_beside_large_requests(data: bytes) -> None:
    with serving(DIRECTORY) as server, attackers(8, lambda _: send_and_wait(server.address, data, 1)):
        time.sleep(0.3)
        assert max(answered(server.address) for _ in range(5)) < ANSWERED_WITHIN_S


@pytest.mark.sweep
def test_a_hundred_clients_with_three_megabytes_each(record_property: Callable[[str, object], None]) -> None:
    data = large(100_000)
    with listening(DIRECTORY) as (bootstrap, process):
        address = address_of(bootstrap)
        slowest = 0.0
        with attackers(100, lambda _: send_and_wait(address, data, 5)):
            until = time.monotonic() + 30
            while time.monotonic() < until:
                slowest = max(slowest, answered(address))
                time.sleep(0.1)
        most = memory(process.pid, "VmHWM")
        print(f"100 clients x {len(data) / 1e6:.1f} MB: at most {most} MiB, slowest answer {slowest:.2f} s")
        record_property("mebibytes", most)
        assert slowest < ANSWERED_WITHIN_S
        assert most <= MEMORY_MIB
        until = time.monotonic() + 20
        while (left := memory(process.pid, "VmRSS")) > MEMORY_MIB // 2:
            assert time.monotonic() < until, f"{left} MiB were not given back"
            time.sleep(0.5)
        process.terminate()


def from_elsewhere(address: tuple[str, int]) -> socket.socket:
    return socket.create_connection(address, 20, source_address=("127.0.0.2", 0))


def test_one_address_does_not_keep_out_another() -> None:
    """Even if all of its connections are busy."""
    options = ServerOptions(limits=NetworkLimits(connections=8))
    with serving(DIRECTORY, options=options) as server, ExitStack() as open_ones:
        end = server.topics["orders-20"].partitions[0].bounds().end
        busy = frame("Fetch", 11, fetching("orders-20", {0: end}, max_wait_ms=20_000))
        for _ in range(12):
            client = open_ones.enter_context(from_elsewhere(server.address))
            client.sendall(busy)
        with RawClient(server.address) as honest:
            for _ in range(3):
                assert honest.ask("Metadata", 12, topics=None)["topics"]
                more = open_ones.enter_context(from_elsewhere(server.address))
                more.sendall(busy)
                time.sleep(0.05)


def test_who_has_said_who_it_is_never_makes_way_for_who_has_not() -> None:
    options = ServerOptions(users={"anna": "s3cret"}, limits=NetworkLimits(connections=8, authenticate_seconds=1))
    told: list[str] = []
    with (
        Server(Catalog([DIRECTORY]), ("127.0.0.1", 0), options, complain=told.append) as server,
        ExitStack() as open_ones,
    ):
        known = [open_ones.enter_context(RawClient(server.address)) for _ in range(2)]
        for each in known:
            said_who(each)
        silent = [open_ones.enter_context(from_elsewhere(server.address)) for _ in range(30)]
        with RawClient(server.address) as another:
            said_who(another)
        for each in known:
            assert each.ask("Metadata", 12, topics=None)["topics"]
        time.sleep(2.5)
        for one in silent:  # who says nothing has a second for it
            one.settimeout(5)
            assert one.recv(1) == b""
        for each in known:
            assert each.ask("Metadata", 12, topics=None)["topics"]
    assert len(told) < 10
    assert any("it did not say in time who it is" in each for each in told)


def said_who(client: RawClient) -> None:
    client.ask("SaslHandshake", 1, mechanism="PLAIN")
    assert client.ask("SaslAuthenticate", 2, auth_bytes=b"\0anna\0s3cret")["error_code"] == Code.NONE


def test_wrong_passwords_take_longer_each_time() -> None:
    took: list[float] = []
    with serving(DIRECTORY, options=ServerOptions(users={"anna": "s3cret"})) as server:
        for _ in range(4):
            with RawClient(server.address) as client:
                client.ask("SaslHandshake", 1, mechanism="PLAIN")
                began = time.monotonic()
                answer: dict[str, Any] = client.ask("SaslAuthenticate", 2, auth_bytes=b"\0anna\0wrong")
                took.append(time.monotonic() - began)
                assert answer["error_code"] == Code.SASL_AUTHENTICATION_FAILED
                assert client.receive() is None
        with RawClient(server.address) as client:  # who knows it does not wait
            began = time.monotonic()
            said_who(client)
            assert time.monotonic() - began < took[-1]
    for number, seconds in enumerate(took):
        assert 0.1 * 2**number <= seconds < 0.1 * 2**number + 0.5


CONNECTIONS = 10_000


@pytest.mark.sweep
def test_ten_thousand_connections() -> None:
    """All of them are answered, again and again."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, CONNECTIONS + 500), hard))
    request = frame("ApiVersions", 0, {})
    clients: list[socket.socket] = []
    try:
        with listening("--max-connections", CONNECTIONS + 100, DIRECTORY) as (bootstrap, process):
            for number in range(CONNECTIONS):
                place = f"127.0.0.{2 + number // 5000}", 0
                clients.append(socket.create_connection(address_of(bootstrap), 30, source_address=place))
            for _ in range(2):
                began = time.monotonic()
                for each in clients:
                    each.sendall(request)
                for each in clients:
                    assert each.recv(4)
                    each.recv(1 << 16)
                took = time.monotonic() - began
                assert answered(address_of(bootstrap)) < ANSWERED_WITHIN_S
            most = memory(process.pid, "VmHWM")
            print(f"{CONNECTIONS} connections: answered in {took:.1f} s, at most {most} MiB")
            assert most <= MEMORY_MIB
            process.terminate()
            assert process.communicate(timeout=60)[1] == ""
    finally:
        for each in clients:
            each.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
