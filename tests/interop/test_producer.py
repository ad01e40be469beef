"""A live broker serves what `Producer` wrote to Kafka's consumer; partitions and batches are those of Kafka's own."""

from __future__ import annotations

import base64
import os
import random
import secrets
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog.codec.model import Record, TimestampType
from kafkalog.log.writing.choosing_partitions import StickyPartitions
from kafkalog.producer.accumulator import Accumulator
from kafkalog.producer.batch import Waiting
from testkit.kafka import kafka_jars
from testkit.kafka.kafka_needed import kafka_needed
from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.kafka.real_broker import RealBroker
from testkit.made.producer_runs import T0, Run, Told, some_bytes, some_headers

Compared = Callable[[str, int], None]
VERSION = "4.1.0"
RUNS_A_START = 500
"""Runs whose directories one start of the broker serves."""
RUNS_A_TOPIC = 5


def coded(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


# -- partitions and batches --------------------------------------------------------------------------------------------


def accumulator_run(rng: random.Random) -> dict[str, Any]:
    """Records and drains, as the harness takes them."""
    steps: list[dict[str, Any]] = []
    keyless = rng.choice([0.3, 0.9, 1.0])
    for _ in range(rng.randint(1, 60)):
        if rng.random() < 0.06:
            steps.append({"drain": True})
        key = None if rng.random() < keyless else some_bytes(rng)
        size = rng.choice([0, 1, 30, 100, 130, 400, 2000])
        value = rng.choice([None, bytes(rng.randrange(size + 1))])
        headers = [[name, coded(content)] for name, content in some_headers(rng)]
        time = T0 + rng.choice([0, 1, -70, 10_000, 10**9])
        steps.append({"k": coded(key), "v": coded(value), "h": headers, "ts": time})
    return {
        "partitions": rng.choice([1, 2, 3, 7, 50]),
        "batch_size": rng.choice([1, 70, 100, 300, 1000, 16384]),
        "randoms": [rng.getrandbits(31) for _ in range(200)],
        "steps": steps,
    }


def our_answer(run: dict[str, Any]) -> dict[str, Any]:
    randoms = iter(run["randoms"])
    config = kafkalog.ProducerConfig(batch_size=run["batch_size"], linger_ms=10**9)
    accumulator = Accumulator(config, StickyPartitions(run["batch_size"], lambda: next(randoms)))
    places: list[int] = []
    drains: list[list[list[int]]] = []

    def drain() -> None:
        batches = accumulator.drain(0, everything=True)
        found = [[each.partition, len(each.waiting), each.size] for each in batches]
        drains.append(sorted(found, key=lambda each: each[0]))

    for step in run["steps"]:
        if "drain" in step:
            drain()
            continue
        key, value = (None if step[name] is None else base64.b64decode(step[name]) for name in "kv")
        headers = tuple(kafkalog.Header(name, None if c is None else base64.b64decode(c)) for name, c in step["h"])
        waiting = Waiting(Record(0, step["ts"], TimestampType.CREATE_TIME, key, value, headers), None)
        wanted = None if key is None else kafkalog.partition_for_key(key, run["partitions"])
        places.append(accumulator.append("t", wanted, run["partitions"], waiting, 0)[0])
    drain()
    return {"places": places, "drains": drains}


def compare_accumulators(kafka: KafkaOracle, seed: str, count: int, compared: Compared) -> None:
    rng = random.Random(seed)
    runs = [accumulator_run(rng) for _ in range(count)]
    answers = kafka.ask("accumulate", timeout=300, runs=runs)["runs"]
    for number, (run, answer) in enumerate(zip(runs, answers, strict=True)):
        assert our_answer(run) == answer, (seed, number)
    compared("places of records that Kafka's accumulator chose", sum(len(each["places"]) for each in answers))
    compared("batches that Kafka's accumulator cut", sum(len(drain) for each in answers for drain in each["drains"]))


def test_partitions_and_batches_are_those_of_kafkas_accumulator(kafka: KafkaOracle, compared: Compared) -> None:
    compare_accumulators(kafka, "accumulator", 300, compared)


@pytest.mark.interop
@pytest.mark.parametrize("seed", range(20))
def test_many_more_partitions_and_batches(seed: int, kafka: KafkaOracle, compared: Compared) -> None:
    compare_accumulators(kafka, f"more/{seed}", 1000, compared)


OLD_HASH = """
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;

public final class OldHash {
    public static void main(String[] arguments) throws Exception {
        kafka.producer.Partitioner text = new kafka.producer.DefaultPartitioner(null);
        kafka.producer.Partitioner bytes = new kafka.producer.ByteArrayPartitioner(null);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split(" ", -1);
            byte[] key = Base64.getDecoder().decode(parts[1]);
            int count = Integer.parseInt(parts[2]);
            if (parts[0].equals("text")) out.append(text.partition(new String(key, StandardCharsets.UTF_8), count));
            else out.append(bytes.partition(key, count));
            out.append('\\n');
        }
        System.out.print(out);
    }
}
"""


@pytest.mark.interop
@pytest.mark.parametrize("version", ["0.8.2.2", "1.1.1"])
def test_the_hash_of_old_is_that_of_the_scala_producers(version: str, compared: Compared) -> None:
    rng = random.Random(version)
    keys: list[bytes | str] = ["", "polygenelubricants", b"", "ключ", "\U0001f600"]
    keys += [rng.randbytes(rng.randrange(30)) for _ in range(5000)]
    keys += ["".join(rng.choices("abcxyz0189_-éя", k=rng.randrange(20))) for _ in range(5000)]
    asked = [(key, rng.choice([1, 2, 3, 7, 12, 50, 1000])) for key in keys]
    with kafka_needed():
        classes = kafka_jars.compiled(version, "old-hash", {"OldHash.java": OLD_HASH})
    lines = "".join(
        f"text {coded(key.encode())} {count}\n" if isinstance(key, str) else f"bytes {coded(key)} {count}\n"
        for key, count in asked
    )
    command = kafka_jars.java(version, "OldHash", classes=(classes,))
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True, timeout=120)
    wanted = [int(line) for line in done.stdout.split()]
    assert [kafkalog.legacy_partition(key, count) for key, count in asked] == wanted
    compared(f"places of keys that the Scala producer of {version} chose", len(wanted))


# -- a live broker -----------------------------------------------------------------------------------------------------


def in_groups(count: int) -> Iterator[range]:
    for first in range(0, count, RUNS_A_START):
        yield range(first, min(first + RUNS_A_START, count))


def serve(root: Path, seed: str, numbers: range, compared: Compared) -> None:
    """Write so many runs into the topics of one broker, start it, and read everything as Kafka's consumer does."""
    topics = {f"t{n // RUNS_A_TOPIC}": n // RUNS_A_TOPIC % 4 + 1 for n in numbers}
    told = Told()
    with RealBroker(VERSION, root) as broker:
        broker.start()
        broker.client("create_all", topics=topics)
        broker.stop()
        ids: dict[str, str] = {}
        for topic, partitions in topics.items():
            for partition in range(partitions):
                path = broker.log_dir / f"{topic}-{partition}"
                metadata = kafkalog.open_partition(path).metadata
                assert metadata is not None
                ids[topic] = metadata.topic_id
                shutil.rmtree(path)
        for number in numbers:
            topic = f"t{number // RUNS_A_TOPIC}"
            Run(seed, number).write(broker.log_dir, topic, topics[topic], ids[topic], told)
        before = {path: path.read_bytes() for path in broker.log_dir.glob("t*/*.log")}
        broker.start()
        scanned = [line for line in broker.output().splitlines() if "Recovering unflushed segment" in line]
        assert [line for line in scanned if "__cluster_metadata" not in line] == []
        for isolation in ("read_uncommitted", "read_committed"):
            answer = broker.client("consume", topics=topics, isolation=isolation, timeout=600)["partitions"]
            served = {
                (*split(name), record["offset"]): record for name, each in answer.items() for record in each["records"]
            }
            wanted = told.written if isolation == "read_uncommitted" else told.committed
            assert served.keys() == set(wanted), (seed, numbers, isolation)
            for place, record in served.items():
                assert_equal(record, told.written[place], place)
        assert {path: path.read_bytes()[: len(data)] for path, data in before.items()} == before
    compared("runs of a producer that a live broker serves to Kafka's consumer", len(numbers))
    compared("records of these runs", len(told.written))


def split(name: str) -> tuple[str, int]:
    topic, _, partition = name.rpartition("-")
    return topic, int(partition)


def assert_equal(served: dict[str, Any], sent: dict[str, Any], place: object) -> None:
    assert served["key"] == coded(sent["key"]), place
    assert served["value"] == coded(sent["value"]), place
    assert served["headers"] == [[name, coded(content)] for name, content in sent["headers"]], place
    if sent["timestamp"] is None:
        assert served["timestamp_type"] == "LogAppendTime", place
    else:
        assert (served["timestamp_type"], served["timestamp"]) == ("CreateTime", sent["timestamp"]), place


@pytest.mark.interop
def test_generated_runs_are_read_back_by_kafkas_consumer(
    kafka_of: Callable[[str], KafkaOracle], tmp_path: Path, compared: Compared
) -> None:
    kafka_of(VERSION)
    count = int(os.environ.get("KAFKALOG_INTEROP_CASES", "200"))
    seed = os.environ.get("KAFKALOG_INTEROP_SEED") or secrets.token_hex(4)
    print(f"seed {seed}")
    for numbers in in_groups(count):
        serve(tmp_path / f"broker-{numbers.start}", seed, numbers, compared)
        shutil.rmtree(tmp_path / f"broker-{numbers.start}")
