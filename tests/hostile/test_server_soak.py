"""Honest clients beside attackers, for ten minutes: they get at least half of what they get alone, and nothing grows.

`KAFKALOG_SOAK_SECONDS` says how long.  The attackers are processes of their own, so that what they compute is theirs.
"""

from __future__ import annotations

import os
import random
import selectors
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from kafkalog import Log, LogConfig
from testkit.recorded.broker_dirs import brokers
from testkit.serving.raw_client import RawClient, fetching, frame
from testkit.serving.the_server import listening

SECONDS = float(os.environ.get("KAFKALOG_SOAK_SECONDS", "600"))
ATTACKERS = 12
HONEST = 2
ANSWERED_WITHIN_S = 2.0
MEMORY_MIB = 400
"""Requests, answers, and what sessions hold; see the threat model."""
PAUSE_S = 0.05
"""Between two attacks of one attacker: what is measured is the server, not who has the processor."""


def large(chance: random.Random) -> bytes:
    names = [{"name": f"{chance.random():.20f}"} for _ in range(chance.choice((1000, 20_000)))]
    return frame("Metadata", 9, {"topics": names, "allow_auto_topic_creation": False})


def same(chance: random.Random) -> bytes:
    asked = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": chance.randrange(1 << 40)}
    topics = [{"name": "t", "partitions": [asked] * 10_000}]
    return frame("ListOffsets", 7, {"replica_id": -1, "isolation_level": 0, "topics": topics})


def times(chance: random.Random) -> bytes:
    asked = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": chance.randrange(1 << 41)}
    topics = [{"name": "t", "partitions": [asked]}]
    return frame("ListOffsets", 7, {"replica_id": -1, "isolation_level": 1, "topics": topics})


def session(chance: random.Random) -> bytes:
    wanted = {number: chance.randrange(100) for number in range(chance.choice((1, 3000)))}
    return frame("Fetch", 11, fetching("t", wanted, session_id=0, session_epoch=0, max_wait_ms=chance.randrange(500)))


def noise(chance: random.Random) -> bytes:
    return struct.pack(">i", chance.choice((10, 1 << 20, 1 << 30, -1))) + chance.randbytes(chance.randrange(100_000))


ATTACKS: tuple[Callable[[random.Random], bytes], ...] = (large, same, times, session, noise)


def attack(address: tuple[str, int], seed: int) -> None:
    """For ever: requests of all kinds whose answers are taken, not taken, or not waited for, and silent connections."""
    chance = random.Random(seed)
    frames = [each(chance) for each in ATTACKS for _ in range(8)]
    kept: list[socket.socket] = []
    while True:
        with suppress(OSError):
            one = socket.create_connection(address, 5, source_address=("127.0.0.2", 0))
            kept.append(one)
            if chance.random() < 0.8:
                one.settimeout(1)
                one.sendall(chance.choice(frames))
                if chance.random() < 0.5:
                    one.recv(1 << 16)
        while len(kept) > 40:
            kept.pop(chance.randrange(len(kept))).close()
        time.sleep(PAUSE_S)


def swallow() -> None:
    """Accept whatever comes, and say where."""
    selector = selectors.DefaultSelector()
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
        print(listener.getsockname()[1], flush=True)
        selector.register(listener, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                with suppress(OSError):
                    if key.fileobj is listener:
                        selector.register(listener.accept()[0], selectors.EVENT_READ)
                        continue
                    found = key.fileobj
                    assert isinstance(found, socket.socket)
                    if not found.recv(1 << 20):
                        selector.unregister(found)
                        found.close()


@contextmanager
def sink() -> Iterator[tuple[str, int]]:
    """Somebody else whom the same attackers can attack: their own work is a part of both figures."""
    with subprocess.Popen([sys.executable, __file__], env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield "127.0.0.1", int(process.stdout.readline())
        finally:
            process.kill()


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


@contextmanager
def attackers(address: tuple[str, int]) -> Iterator[None]:
    words = [sys.executable, __file__, *map(str, address)]
    running = [subprocess.Popen([*words, str(seed)], env=environment()) for seed in range(ATTACKERS)]
    try:
        yield
        assert [each.poll() for each in running] == [None] * ATTACKERS
    finally:
        for each in running:
            each.kill()
        for each in running:
            each.wait()


class Honest(threading.Thread):
    """Reads a log again and again, and asks what there is."""

    def __init__(self, address: tuple[str, int], seconds: float) -> None:
        super().__init__()
        self._address = address
        self._until = time.monotonic() + seconds
        self.bytes = 0
        self.slowest = 0.0

    def run(self) -> None:
        with RawClient(self._address, 60) as client:
            offset = 0
            while time.monotonic() < self._until:
                asked: dict[str, Any] = fetching("t", {0: offset}, most=1 << 20, max_bytes=1 << 20)
                (topic,) = self._timed(client, "Fetch", 11, asked)["responses"]
                (found,) = topic["partitions"]
                self.bytes += len(found["records"])
                offset = (offset + 997) % found["high_watermark"]
                assert self._timed(client, "Metadata", 12, {"topics": None})["topics"]

    def _timed(self, client: RawClient, name: str, version: int, body: dict[str, Any]) -> dict[str, Any]:
        began = time.monotonic()
        found = client.ask(name, version, **body)
        self.slowest = max(self.slowest, time.monotonic() - began)
        return found


def honest(address: tuple[str, int], seconds: float) -> tuple[float, float]:
    """Bytes in a second, all together, and the slowest answer."""
    clients = [Honest(address, seconds) for _ in range(HONEST)]
    for each in clients:
        each.start()
    for each in clients:
        each.join()
    return sum(each.bytes for each in clients) / seconds, max(each.slowest for each in clients)


def state(pid: int) -> tuple[int, int, int]:
    """Resident MiB, open files and threads of a process."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    return int(lines["VmRSS"].split()[0]) // 1024, len(os.listdir(f"/proc/{pid}/fd")), int(lines["Threads"])


@contextmanager
def sampled(pid: int) -> Iterator[list[tuple[int, int, int]]]:
    """What a process has, once a second."""
    samples: list[tuple[int, int, int]] = []
    stop = threading.Event()

    def sample() -> None:
        while not stop.wait(1):
            samples.append(state(pid))

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        yield samples
    finally:
        stop.set()
        sampler.join()


@pytest.mark.sweep
def test_honest_clients_get_half_of_what_they_get_alone(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with Log.open(tmp_path / "data" / "t-0", LogConfig(retention_ms=-1)) as log:
        for first in range(0, 20_000, 100):
            log.append([b"%d" % number * 100 for number in range(first, first + 100)])
    alone_seconds = max(5.0, SECONDS / 20)
    with listening("--max-connections", "300", brokers("4.3.0/txn")[0], tmp_path / "data") as (bootstrap, process):
        address = bootstrap.rpartition(":")[0], int(bootstrap.rpartition(":")[2])
        with sink() as elsewhere, attackers(elsewhere):
            time.sleep(10)
            alone, _ = honest(address, alone_seconds)
        with attackers(address):
            until = time.monotonic() + 120
            while state(process.pid)[1] < 250:  # until all of them are at it
                assert time.monotonic() < until, "the attackers are not there"
                time.sleep(0.5)
            with sampled(process.pid) as samples:
                beside, slowest = honest(address, SECONDS)
        half = len(samples) // 2
        early, late = (tuple(map(max, zip(*some, strict=True))) for some in (samples[:half], samples[half:]))
        print(
            f"{SECONDS:.0f} s beside {ATTACKERS} attackers: {beside / alone:.0%} of {alone / 1e6:.0f} MB/s without, "
            f"slowest answer {slowest:.2f} s; at most MiB, files, threads {early}, in the second half {late}"
        )
        process.terminate()
        _, told = process.communicate(timeout=60)
    assert "unexpected" not in told
    assert len(told.splitlines()) < 6 * (SECONDS + 3 * alone_seconds)
    assert slowest < ANSWERED_WITHIN_S
    assert beside >= alone / 2
    assert late[0] <= MEMORY_MIB
    assert late[0] <= early[0] + 50
    assert late[1] <= early[1] + 20
    assert late[2] == early[2]


if __name__ == "__main__" and len(sys.argv) == 1:
    swallow()
elif __name__ == "__main__":
    attack((sys.argv[1], int(sys.argv[2])), int(sys.argv[3]))
