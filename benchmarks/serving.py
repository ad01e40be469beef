"""Serving a log to clients, beside a real broker on the same files, in the same run, with the same clients.

    python benchmarks/serving.py [--megabytes 400] [--version 4.3.0]

A broker takes over a copy of the directory, so that both serve the same bytes from the page cache.  Each client reads
the log from its start to its end: librdkafka, as a program would, and one that only counts bytes; the latter also from
a server that knows each answer beforehand and calls `sendfile`, which bounds the others.  Rounds alternate between the
servers, and the best of each counts.  Prints MB/s, processor seconds of the server for each GB, and what the server's
memory does with 100 connections.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from benchmarks.support.fetching import CountingClient  # noqa: E402

from kafkalog import Log, LogConfig, NewRecord  # noqa: E402

TOPIC = "served"
RECORD_BYTES = 1024
BATCH_RECORDS = 16
SEGMENT_BYTES = 200 << 20
CHUNK = 1 << 20
ROUNDS = 5
CONNECTIONS = 100
MEMORY_BYTES = 20 << 20
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Server:
    """Somebody who serves: its name, where, and its process."""

    name: str
    address: tuple[str, int]
    process: int

    def seconds(self) -> float:
        """Processor time so far."""
        fields = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory(self) -> int:
        """Resident bytes that are no file's."""
        lines = Path(f"/proc/{self.process}/status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon"))


def write_log(directory: Path, megabytes: int) -> None:
    """A topic of one partition, of random bytes that nobody compresses."""
    noise = os.urandom(1 << 20)
    batches = (megabytes << 20) // (RECORD_BYTES * BATCH_RECORDS)
    with Log.open(directory / f"{TOPIC}-0", LogConfig(segment_bytes=SEGMENT_BYTES)) as log:
        for batch in range(batches):
            starts = [(batch * 7919 + number * 1031) % (len(noise) - RECORD_BYTES) for number in range(BATCH_RECORDS)]
            log.append([NewRecord(value=noise[start : start + RECORD_BYTES], timestamp=1_700_000_000_000 + batch)
                        for start in starts])  # fmt: skip


@contextmanager
def ours(directory: Path) -> Iterator[Server]:
    words = [sys.executable, "-m", "kafkalog", "serve", "--listen", "127.0.0.1:0", "--json", str(directory)]
    with subprocess.Popen([*words, "--topic", TOPIC], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            host, _, port = json.loads(process.stdout.readline())["bootstrap"].rpartition(":")
            yield Server("kafkalog serve", (host, int(port)), process.pid)
        finally:
            process.terminate()


@contextmanager
def bare(log: Path) -> Iterator[Server]:
    """A server that knows every answer beforehand: the bound that sockets and this client set."""
    words = [sys.executable, "-m", "benchmarks.support.bare_sending", str(log), str(CHUNK), str(CHUNK)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            yield Server("sendfile alone", ("127.0.0.1", int(process.stdout.readline())), process.pid)
        finally:
            process.terminate()


@contextmanager
def kafkas(directory: Path, version: str, log: Path) -> Iterator[Server]:
    """A broker that makes the topic itself and is then given the files of the log."""
    from testkit.kafka.real_broker import RealBroker

    with RealBroker(version, directory, settings={"log.segment.bytes": SEGMENT_BYTES}) as broker:
        broker.start()
        broker.client("create", topic=TOPIC, partitions=1)
        broker.stop()
        place = Path(broker.log_dir) / f"{TOPIC}-0"
        for path in log.iterdir():
            if path.name != "partition.metadata":
                (place / path.name).unlink(missing_ok=True)
                (os.link if path.suffix == ".log" else shutil.copy2)(path, place / path.name)
        for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", ".kafka_cleanshutdown"):
            (Path(broker.log_dir) / name).unlink(missing_ok=True)
        broker.start()
        yield Server(f"Kafka {version}", ("127.0.0.1", broker.port), broker.process_id)


def counted(server: Server) -> int:
    """Bytes that a client sees that only counts them."""
    client = CountingClient(server.address, TOPIC)
    try:
        return client.count(CHUNK)[0]
    finally:
        client.close()


def librdkafka(server: Server, isolation_level: str) -> int:
    """Bytes of values that librdkafka gives a Python program."""
    import confluent_kafka

    consumer = confluent_kafka.Consumer({
        "bootstrap.servers": f"{server.address[0]}:{server.address[1]}", "group.id": "benchmark",
        "enable.auto.commit": False, "enable.partition.eof": True, "isolation.level": isolation_level,
    })  # fmt: skip
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
    total = 0
    try:
        while True:
            for message in consumer.consume(10_000, 1):
                if message.error() is not None:
                    if message.error().code() != confluent_kafka.KafkaError._PARTITION_EOF:  # noqa: SLF001
                        raise SystemExit(f"{server.name}: {message.error()}")
                    return total
                total += len(message.value())
    finally:
        consumer.close()


CLIENTS: dict[str, Callable[[Server], int]] = {
    "counts bytes": counted,
    "librdkafka, read_uncommitted": lambda server: librdkafka(server, "read_uncommitted"),
    "librdkafka, read_committed": lambda server: librdkafka(server, "read_committed"),
}


def measure(client: Callable[[Server], int], server: Server) -> tuple[float, float]:
    """MB/s, and the server's processor seconds for each GB."""
    before, began = server.seconds(), time.perf_counter()
    size = client(server)
    took = time.perf_counter() - began
    return size / took / 1e6, (server.seconds() - before) / (size / 1e9)


def hundred_connections(server: Server) -> None:
    """Memory before, with so many clients that read a part each in turn, and after."""
    before = server.memory()
    clients = [CountingClient(server.address, TOPIC) for _ in range(CONNECTIONS)]
    for client in clients:
        client.end()
    open_ = server.memory()
    for client in clients:
        client.count(CHUNK, MEMORY_BYTES)
    read = server.memory()
    for client in clients:
        client.close()
    values = ", ".join(f"{each / 1e6:.1f}" for each in (before, open_, read))
    print(f"{server.name}: memory with 0 connections, {CONNECTIONS}, and when each has read 20 MiB: {values} MB")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--version", default="4.3.0")
    options = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="kafkalog-serving-"))
    try:
        data = place / "data"
        data.mkdir()
        write_log(data, options.megabytes)
        log = data / f"{TOPIC}-0"
        with ours(data) as own, bare(log) as bound, kafkas(place / "broker", options.version, log) as theirs:
            for name, client in CLIENTS.items():
                servers = (own, theirs, bound) if client is counted else (own, theirs)
                best: dict[str, tuple[float, float]] = {}
                for number in range(ROUNDS + 1):
                    for server in servers:
                        result = measure(client, server)
                        if number:  # the first round warms both
                            best[server.name] = max(best.get(server.name, (0.0, 0.0)), result)
                        elif server is own:
                            print(f"{name}: {server.name}, first read of all: {result[0]:.0f} MB/s")
                for server in servers:
                    rate, cost = best[server.name]
                    print(f"{name}: {server.name}: {rate:.0f} MB/s, {cost:.2f} processor seconds/GB")
                ratio = best[own.name][0] / best[theirs.name][0]
                print(f"{name}: {ratio:.2f} times the broker's rate")
            hundred_connections(own)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
