"""Requests that are cut, changed, too large or too slow, and clients that hang, end no more than their connection."""

from __future__ import annotations

import random
import resource
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from kafkalog.codec.messages.published import apis
from kafkalog.server.answering import SERVED
from kafkalog.server.apis import api
from kafkalog.server.broker import Server, ServerOptions
from kafkalog.server.catalog import Catalog
from kafkalog.server.limits import NetworkLimits
from testkit.made.message_values import values
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.serving.raw_client import RawClient, fetching, frame
from testkit.serving.serving import serving

DIRECTORY = brokers("4.3.0/txn")[0]
KINDS = [each for each in map(api, apis()) if each is not None]
REQUESTS = 10_000
HANGING = 1_000


def contents(directory: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(directory)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(directory.rglob("*")) if path.is_file()
    }  # fmt: skip


@pytest.fixture
def server() -> Iterator[Server]:
    limits = NetworkLimits(connections=2 * HANGING, request_seconds=1)
    with serving(DIRECTORY, options=ServerOptions(limits=limits)) as found:
        yield found


def answers(server: Server) -> bool:
    """Whether a client that behaves is served, by each of the processors."""
    for _ in range(4):
        with RawClient(server.address) as client:
            topics = client.ask("Metadata", 12, topics=None)["topics"]
            assert {"orders-20", "audit-42"} <= {each["name"] for each in topics}
    return True


def sound(chance: random.Random) -> bytes:
    kind = chance.choice(KINDS)
    version = chance.choice(kind.versions)
    body = values(kind.request.fields, version, chance, elements=chance.randrange(3))
    if kind.name == "Fetch":
        body["max_wait_ms"] = 0
    return frame(kind.name, version, body)


def spoiled(data: bytes, chance: random.Random) -> bytes:
    """One of the things that can be wrong with a request; the size in front is right in most of them."""
    body = bytearray(data[4:])
    way = chance.randrange(6)
    if way == 0:
        for _ in range(chance.randrange(1, 9)):
            body[chance.randrange(len(body))] = chance.randrange(256)
    elif way == 1:
        del body[chance.randrange(len(body)) :]
    elif way == 2:
        at = chance.randrange(len(body))
        body[at:at] = chance.randbytes(chance.randrange(1, 40))
    elif way == 3:
        at = chance.randrange(max(1, len(body) - 4))
        body[at : at + 4] = struct.pack(">i", chance.choice([-1, -2, 0x7FFFFFFF, -0x80000000, 1 << 24]))
    elif way == 4:
        return struct.pack(">i", chance.choice([0, -1, 0x7FFFFFFF, (8 << 20) + 1])) + bytes(body)
    else:
        body = bytearray(chance.randbytes(chance.randrange(1, 200)))
    return struct.pack(">i", len(body)) + bytes(body)


def hurl(server: Server, seed: int, count: int) -> Counter[str]:
    """Send so many requests one after the other, and see for each what comes of it."""
    chance = random.Random(seed)
    found: Counter[str] = Counter()
    client: RawClient | None = None
    for _ in range(count):
        if client is None:
            client = RawClient(server.address)
            client.socket.settimeout(0.02)
        client.send(spoiled(sound(chance), chance))
        try:
            what = "answered" if client.receive() is not None else "closed"
        except TimeoutError:  # it waits for the rest of the request, or for something to happen
            what = "waits"
        found[what] += 1
        if what != "answered":
            client.__exit__()
            client = None
    if client is not None:
        client.__exit__()
    return found


def test_ten_thousand_malformed_requests(server: Server) -> None:
    before = contents(DIRECTORY)
    found: Counter[str] = Counter()
    with ThreadPoolExecutor(4) as clients:
        for each in clients.map(lambda seed: hurl(server, seed, REQUESTS // 4), range(4)):
            found += each
    assert found.total() == REQUESTS
    assert found["closed"] > REQUESTS // 4
    assert found["answered"] > REQUESTS // 20
    assert answers(server)
    assert contents(DIRECTORY) == before


def test_what_would_write_changes_nothing(server: Server) -> None:
    before = contents(DIRECTORY)
    refused = 0
    for kind in KINDS:
        if kind.name in SERVED:
            continue
        for version in kind.versions:
            body = values(kind.request.fields, version, random.Random(version))
            with RawClient(server.address) as client:
                client.ask(kind.name, version, **body)
                refused += 1
    assert refused > 150
    assert contents(DIRECTORY) == before


def test_a_thousand_connections_that_hang(server: Server) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4 * HANGING), hard))
    hanging: list[socket.socket] = []
    request = frame("Fetch", 11, {"max_wait_ms": 50_000, "min_bytes": 1, "max_bytes": 1, "topics": []})
    try:
        for number in range(HANGING):
            found = socket.create_connection(server.address, 20)
            hanging.append(found)
            if number % 4 == 1:
                found.sendall(request[:3])  # not even a size
            elif number % 4 == 2:
                found.sendall(struct.pack(">i", 8 << 20) + b"\0")  # a large one, of which nothing comes
            elif number % 4 == 3:
                found.sendall(request[:-1])
        assert answers(server)
        until = time.monotonic() + 30
        while any(_is_open(each) for number, each in enumerate(hanging) if number % 4):
            assert time.monotonic() < until, "requests that do not come are still waited for"
            time.sleep(0.2)
        assert answers(server)
    finally:
        for each in hanging:
            each.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _is_open(client: socket.socket) -> bool:
    try:
        return client.recv(1, socket.MSG_DONTWAIT) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def test_silent_clients_make_way() -> None:
    with serving(DIRECTORY, options=ServerOptions(limits=NetworkLimits(connections=8))) as server:
        silent = [socket.create_connection(server.address, 20) for _ in range(8)]
        try:
            assert answers(server)
        finally:
            for each in silent:
                each.close()


def test_clients_beyond_the_limit_are_turned_away_where_nobody_is_idle() -> None:
    options = ServerOptions(limits=NetworkLimits(connections=2))
    told: list[str] = []
    with (
        Server(Catalog([DIRECTORY]), ("127.0.0.1", 0), options, complain=told.append) as server,
        RawClient(server.address) as one,
        RawClient(server.address) as other,
    ):
        ends = {number: log.bounds().end for number, log in server.topics["orders-20"].partitions.items()}
        for each, longest in ((one, 2000), (other, 60_000)):
            each.ask("ApiVersions", 0)
            each.send(frame("Fetch", 11, fetching("orders-20", ends, max_wait_ms=longest)))
        time.sleep(0.2)
        with RawClient(server.address) as third:
            assert third.receive() is None
        assert one.receive() is not None
        with RawClient(server.address) as third:  # now the first one is idle
            assert third.ask("ApiVersions", 0)["error_code"] == 0
        assert one.receive() is None
    assert len(told) == 1
    assert "turned away: 2 clients are connected, which is the most (--max-connections)" in told[0]


def test_a_request_that_comes_byte_by_byte_is_answered(server: Server) -> None:
    with RawClient(server.address) as client:
        for byte in frame("ApiVersions", 3, {"client_software_name": "a", "client_software_version": "1"}):
            client.send(bytes([byte]))
        data = client.receive()
        assert data is not None
        assert data[:4] == struct.pack(">i", 1)


def test_requests_that_come_together_are_answered_in_turn(server: Server) -> None:
    with RawClient(server.address) as client:
        client.send(b"".join(frame("ApiVersions", 0, {}, number) for number in range(300)))
        for number in range(300):
            data = client.receive()
            assert data is not None
            assert data[:4] == struct.pack(">i", number)


def test_a_response_that_nobody_takes_ends_the_connection() -> None:
    limits = NetworkLimits(send_seconds=1)
    with serving(DIRECTORY, options=ServerOptions(limits=limits)) as server:
        with RawClient(server.address) as client:
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.ask("ApiVersions", 0)
            with suppress(ConnectionError):
                client.send(frame("Metadata", 12, {"topics": None}) * 20_000)
            until = time.monotonic() + 20
            while server.connection_count:
                assert time.monotonic() < until
                time.sleep(0.1)
        assert answers(server)


def test_a_log_without_epochs_believes_the_client(tmp_path: Path) -> None:
    """A damaged disk may list none, although the batches have some; a broker rebuilds them when it starts."""
    directory = own_copy(DIRECTORY, tmp_path / "data")
    (directory / "orders-20-0" / "leader-epoch-checkpoint").unlink()
    body = fetching("orders-20", {0: 0}, version=12)
    body["topics"][0]["partitions"][0]["last_fetched_epoch"] = 0
    with Server(Catalog([directory]), ("127.0.0.1", 0)) as server, RawClient(server.address) as client:
        answer = client.ask("Fetch", 12, **body)
        end = server.topics["orders-20"].partitions[0].bounds().end
    (partition,) = answer["responses"][0]["partitions"]
    assert (partition["error_code"], partition["high_watermark"]) == (0, end)
