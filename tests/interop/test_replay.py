"""Recorded directories replayed into a live broker: consumers of it read what Kafka's own consumer once read."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import confluent_kafka.admin
import pyarrow.parquet as pq
import pytest

from kafkalog import Log, LogConfig, ProducerState
from kafkalog.codec.common.errors import RecoveryRefused
from kafkalog.codec.model import Record, TimestampType
from kafkalog.replay.target import PROGRESS_SETTINGS, Target
from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.kafka.mock_cluster import committed as committed_offset
from testkit.kafka.mock_cluster import consumed
from testkit.kafka.real_broker import RealBroker
from testkit.recorded.broker_dirs import brokers, expected_records
from testkit.recorded.fixture_data import broker_case

WEEK = {"log.retention.ms": 604_800_000}
"""what brokers do unless they are told"""
CASES = ("0.8.2.2/codecs", "0.10.2.2/groups", "0.11.0.3/txn", "2.8.2/txn", "2.8.2/groups", "4.1.1/txn", "4.3.0/groups",
         "4.3.0/compact", "4.3.0/codecs")  # fmt: skip
KILLS = 20
Row = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealBroker]:
    with RealBroker("4.3.0", tmp_path_factory.mktemp("live") / "b", settings=WEEK) as live:
        live.start()
        yield live


def command(broker: RealBroker, *words: object) -> list[str]:
    given = map(str, ("--bootstrap-server", broker.bootstrap, "--yes", "--json", *words))
    return [sys.executable, "-m", "kafkalog", "replay", *given]


def replay(broker: RealBroker, *words: object) -> int:
    finished = subprocess.run(command(broker, *words), capture_output=True, text=True, check=False, timeout=300)
    assert finished.returncode in (0, 1, 2), finished.stderr
    return finished.returncode


def read(broker: RealBroker, topic: str, partition: int) -> list[tuple[int, Row]]:
    """Offsets and records that were committed."""
    return [
        (each.offset(), (each.timestamp()[1], each.key(), each.value(), list(each.headers() or ())))
        for each in consumed(broker.bootstrap, topic, partition, check_crcs=True)
    ]


def of_line(line: dict[str, Any]) -> Row:
    def decoded(text: str | None) -> bytes | None:
        return None if text is None else b64decode(text)

    headers = [(name, decoded(value)) for name, value in line.get("headers", ())]
    return line.get("timestamp", -1), decoded(line["key"]), decoded(line["value"]), headers


@pytest.mark.interop
@pytest.mark.parametrize("case_id", CASES)
def test_what_consumers_read_is_what_was_recorded(
    case_id: str, broker: RealBroker, kafka_of: Callable[[str], KafkaOracle], tmp_path: Path,
    compared: Callable[[str, int], None],
) -> None:  # fmt: skip
    kafka_of("4.3.0")
    check_replayed(case_id, broker, tmp_path, compared)


@pytest.mark.interop
@pytest.mark.parametrize("case_id", ["0.11.0.3/txn", "4.4.0/groups"])
def test_records_years_old_survive_in_the_newest_release(
    case_id: str, kafka_of: Callable[[str], KafkaOracle], tmp_path: Path, compared: Callable[[str, int], None]
) -> None:
    """With a retention of a week."""
    kafka_of("4.4.0")
    with RealBroker("4.4.0", tmp_path / "live", settings=WEEK) as live:
        live.start()
        check_replayed(case_id, live, tmp_path, compared)


def check_replayed(case_id: str, broker: RealBroker, tmp_path: Path, compared: Callable[[str, int], None]) -> None:
    """Replay a recorded directory, and read what is there then."""
    version, _, name = case_id.partition("/")
    case = broker_case(version, name)
    prefix = f"{case_id.replace('/', '-')}."
    words = (*brokers(case_id), "--prefix", prefix, "--map", tmp_path / "map.parquet")
    waits = name == "txn"  # its producers were stopped within transactions, which nobody has decided
    assert replay(broker, *words) == (1 if waits else 2)
    assert replay(broker, *words) == (1 if waits else 0), "a second time nothing else is left to do"
    time.sleep(3)  # a broker looks for what has expired every second here
    expected: dict[tuple[str, int], list[tuple[int, Row]]] = {}
    for (topic, partition, offset), line in sorted(expected_records(case, "read_committed").items()):
        if not topic.startswith("__"):
            expected.setdefault((topic, partition), []).append((offset, of_line(line)))
    rows = pq.read_table(tmp_path / "map.parquet").to_pylist()
    target = {(row["topic"], row["partition"], row["offset"]): row["target_offset"] for row in rows}
    count = 0
    for (topic, partition), records in expected.items():
        found = dict(read(broker, f"{prefix}{topic}", partition))
        assert len(found) == len(records)
        for offset, row in records:
            there = found[target[topic, partition, offset]]
            assert there[1:] == row[1:]
            assert there[0] == row[0] or row[0] <= 0, "who had no time has that of the replay"
            count += 1
    assert count > 0
    compared(f"records of {case_id} replayed", count)
    compared(f"offsets of groups of {case_id} moved", check_groups(broker, case.expected("committed"), prefix, target)
             if case.has("committed") else 0)  # fmt: skip


def check_groups(
    broker: RealBroker, committed: list[dict[str, Any]], prefix: str, target: dict[tuple[str, int, int], int]
) -> int:
    """Each group of the target goes on with the record that it would have read next."""
    count = 0
    for line in committed:
        topic, partition, offset = line["topic"], line["partition"], line["offset"]
        places = sorted((key[2], there) for key, there in target.items() if key[:2] == (topic, partition))
        if not places:
            continue
        found = committed_offset(broker.bootstrap, line["group"], f"{prefix}{topic}", partition)
        after = [there for source, there in places if source >= offset]
        assert found == (after[0] if after else places[-1][1] + 1), line
        count += 1
    return count


def source_with_open_transactions(source: Path) -> dict[int, list[Row]]:
    """Two partitions, in which transactions of dead producers begin here and there; and what is to be read then."""
    source.mkdir()
    written: dict[int, list[Row]] = {0: [], 1: []}
    for partition, rows in written.items():
        with Log.open(source / f"many-{partition}", LogConfig()) as log:
            for first in range(0, 30_000, 100):
                some = [
                    Record(
                        -1, 1_500_000_000_000 + each, TimestampType.CREATE_TIME, b"%d" % each, b"v%d" % each * 30, ()
                    )
                    for each in range(first, first + 100)
                ]
                log.append(some, compression="lz4")
                rows += [(each.timestamp, each.key, each.value, []) for each in some]
                if first % 5000 == 0:
                    log.append(
                        [b"undecided"],
                        producer=ProducerState(
                            producer_id=first, producer_epoch=0, base_sequence=0, is_transactional=True
                        ),
                    )
    return written


@pytest.mark.interop
def test_killed_again_and_again_each_record_is_there_once(
    kafka_of: Callable[[str], KafkaOracle], tmp_path: Path, compared: Callable[[str, int], None]
) -> None:
    """The replay, or the broker that it writes to, as often as `KAFKALOG_KILLS` says, by `KAFKALOG_SEED`."""
    kafka_of("4.3.0")
    kills = int(os.environ.get("KAFKALOG_KILLS", KILLS))
    written = source_with_open_transactions(tmp_path / "data")
    chance = random.Random(int(os.environ.get("KAFKALOG_SEED", "20")))
    size = sum(len(row[2] or b"") + 75 for rows in written.values() for row in rows)
    killed: Counter[str] = Counter()
    records = 0
    with RealBroker("4.3.0", tmp_path / "live", settings=WEEK) as broker:
        broker.start()
        for number in itertools.count():  # a replay is over after some kills, and another one begins
            prefix = f"r{number}."
            path = tmp_path / f"{number}.parquet"
            words = (tmp_path / "data", "--map", path, "--id", f"r{number}", "--prefix", prefix,
                     "--open-transactions", "abort")  # fmt: skip
            for _ in range(20):
                if killed.total() >= kills or path.exists():
                    break
                kill_one(broker, command(broker, *words, "--rate", size // 25), chance, killed)
            replay(broker, *words)
            rows = pq.read_table(path).to_pylist()
            for partition, expected in written.items():
                found = read(broker, f"{prefix}many", partition)
                assert [row for _, row in found] == expected
                offsets = [row["target_offset"] for row in rows if row["partition"] == partition]
                assert offsets == [offset for offset, _ in found]
            records += len(rows)
            if killed.total() >= kills:
                break
        assert not [group for group in groups_of(broker) if group.startswith("kafkalog")]
    assert min(killed["replay"], killed["broker"]) > 0
    compared(f"records that are there once after {killed['replay']} kills of the replay and {killed['broker']} of the "
             "broker", records)  # fmt: skip


def kill_one(broker: RealBroker, words: list[str], chance: random.Random, killed: Counter[str]) -> None:
    """Begin, or go on, and kill one of the two."""
    running = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        running.wait(chance.uniform(0.8, 5))
    except subprocess.TimeoutExpired:
        if chance.random() < 0.25:
            broker.kill()
            killed["broker"] += 1
            broker.start()
            with suppress(subprocess.TimeoutExpired):
                running.wait(chance.uniform(0, 20))
        if running.poll() is None:
            running.send_signal(signal.SIGKILL)
            killed["replay"] += 1
    assert running.wait() in (-signal.SIGKILL, 0, 2, 3, 4)


def groups_of(broker: RealBroker) -> list[str]:
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    return [each.group_id for each in admin.list_consumer_groups().result(30).valid]


@pytest.mark.interop
def test_a_topic_with_records_of_others_is_refused(
    broker: RealBroker, kafka_of: Callable[[str], KafkaOracle], tmp_path: Path
) -> None:
    kafka_of("4.3.0")
    (tmp_path / "data").mkdir()
    with Log.open(tmp_path / "data" / "taken-0", LogConfig()) as log:
        log.append([Record(-1, 1, TimestampType.CREATE_TIME, None, b"x", ())])
    broker.create("taken", 1)
    broker.client("produce", topic="taken", records=[{"partition": 0, "k": None, "v": "eA=="}])
    given = command(broker, tmp_path / "data", "--map", tmp_path / "map.parquet")
    finished = subprocess.run(given, capture_output=True, text=True, check=False, timeout=100)
    assert finished.returncode == 3, finished.stderr
    assert "has records that this replay did not write" in finished.stderr
    assert len(read(broker, "taken", 0)) == 1
    assert not (tmp_path / "map.parquet").exists()


@pytest.mark.interop
def test_the_earlier_one_of_two_is_told_that_it_has_ended(broker: RealBroker) -> None:
    broker.create("fenced", 1)
    first, second = (Target(broker.bootstrap, "same", {}, compression="none", batch_bytes=1 << 20) for _ in range(2))
    record = Record(0, int(time.time() * 1000), TimestampType.CREATE_TIME, b"k", b"v")
    with first, second:
        first.create(first.progress_topic, 1, 1, PROGRESS_SETTINGS)
        first.begin()
        second.begin()
        with pytest.raises(RecoveryRefused, match="another process has gone on with the replay same"):
            first.write("fenced", 0, [record]).commit(1)
        second.write("fenced", 0, [record]).commit(1)
    until = time.monotonic() + 10  # the marker is written after the answer to the commit
    while not (found := read(broker, "fenced", 0)) and time.monotonic() < until:
        time.sleep(0.1)
    assert len(found) == 1
