"""Lives of real brokers: produce, stop or kill, damage, recover, start again, consume the same.

After every recovery the broker's own start must leave the topic's ``.log`` files as they are: it found nothing to cut.
"""

from __future__ import annotations

import base64
import random
import time
from typing import TYPE_CHECKING, Any

import pytest

from testkit.judging import seam
from testkit.kafka.real_broker import RealBroker
from testkit.made import damage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from testkit.kafka.kafka_oracle import KafkaOracle

T0 = 1_700_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
DERIVED = (".index", ".timeindex", ".txnindex", ".snapshot")
Json = dict[str, Any]


@pytest.fixture
def broker_of(kafka_of: Callable[[str], KafkaOracle], tmp_path: Path) -> Iterator[Callable[..., RealBroker]]:
    """Makes brokers that are gone when the test ends; skips as every test that needs Kafka does."""
    made: list[RealBroker] = []

    def of(version: str, mode: str = "kraft") -> RealBroker:
        kafka_of(version)
        made.append(RealBroker(version, tmp_path / f"{version}-{len(made)}", mode=mode))
        made[-1].start()
        return made[-1]

    yield of
    for broker in made:
        broker.__exit__(None, None, None)


def records(count: int, *, keys: int = 0, partitions: int = 1, seed: int = 1) -> list[Json]:
    """Records to produce; with keys, every ninth is a tombstone."""
    rng, made = random.Random(seed), []
    for i in range(count):
        value = rng.randbytes(rng.randint(1, 120))
        record: Json = {"partition": i % partitions, "ts": T0 + i * 1000, "v": base64.b64encode(value).decode()}
        if keys:
            record["k"] = base64.b64encode(b"key-%d" % rng.randrange(keys)).decode()
            record["v"] = None if i % 9 == 8 else record["v"]
        elif i % 3:
            record |= {"k": base64.b64encode(b"k%d" % i).decode(), "h": [["trace", None], ["n", "AAEC"]]}
        made.append(record)
    return made


def logs(broker: RealBroker, topic: str) -> dict[str, bytes]:
    files = broker.log_dir.glob(f"{topic}-*/*.log")
    return {str(path.relative_to(broker.log_dir)): path.read_bytes() for path in files}


def partitions(broker: RealBroker, topic: str) -> list[damage.Tree]:
    return [damage.Tree(broker.log_dir, path.name) for path in sorted(broker.log_dir.glob(f"{topic}-*"))]


def tear(broker: RealBroker, topic: str) -> None:
    """As a power cut may leave it: half a batch at the end, no marker, indexes gone, recovery points at 0."""
    for tree in partitions(broker, topic):
        active = tree.file(tree.bases()[-1])
        half = damage.batch(tree.end_offset(), [damage.record(0, value=b"never acknowledged")])[:70]
        tree.do("append", active, hex=half).unclean()
        for name in tree.names(".index") + tree.names(".timeindex"):
            tree.do("delete", tree.inside(name))
    (broker.log_dir / damage.RECOVERY_POINT).write_text("0\n0\n")


def recover_and_start(broker: RealBroker, topic: str) -> None:
    seam.recover(broker.log_dir, {})
    recovered = logs(broker, topic)
    assert recovered
    broker.start()
    assert logs(broker, topic) == recovered, "the broker changed a log that we had recovered"


def produce(broker: RealBroker, topic: str, made: list[Json], codec: str) -> None:
    broker.client("produce", topic=topic, records=made, producer={"compression.type": codec})


def live(broker: RealBroker, end: Callable[[], None]) -> None:
    """Every codec, several segments, two partitions; end, tear, recover; the same records, and more can be produced."""
    broker.create("plain", 2)
    for number, codec in enumerate(CODECS):
        produce(broker, "plain", records(60, partitions=2, seed=number), codec)
    before = broker.records("plain", 2)
    assert sum(len(p["records"]) for p in before.values()) == 60 * len(CODECS)
    assert len(logs(broker, "plain")) > 4
    end()
    tear(broker, "plain")
    recover_and_start(broker, "plain")
    assert broker.records("plain", 2) == before
    produce(broker, "plain", records(20, partitions=2, seed=99), "zstd")
    after = broker.records("plain", 2)
    for name, partition in before.items():
        assert after[name]["records"][: len(partition["records"])] == partition["records"]
        assert after[name]["end"] == partition["end"] + 10


def test_a_plain_life(broker_of: Callable[..., RealBroker]) -> None:
    broker = broker_of("4.3.0")
    live(broker, broker.stop)


@pytest.mark.interop
def test_a_life_with_zookeeper(broker_of: Callable[..., RealBroker]) -> None:
    broker = broker_of("3.9.1", "zk")
    live(broker, broker.stop)


@pytest.mark.interop
@pytest.mark.parametrize(("version", "mode"), [("4.4.0", "kraft"), ("3.9.1", "zk"), ("3.9.1", "kraft")])
def test_a_killed_life(version: str, mode: str, broker_of: Callable[..., RealBroker]) -> None:
    broker = broker_of(version, mode)
    live(broker, broker.kill)


@pytest.mark.interop
def test_a_transactional_life(broker_of: Callable[..., RealBroker]) -> None:
    """Committed, aborted and open transactions are still that, and the open one can be ended."""
    broker = broker_of("4.3.0")
    broker.create("txn")
    for number in range(12):
        end = "abort" if number % 3 == 1 else "commit"
        made = records(5, seed=number)
        broker.client("transaction", transactional_id=f"id-{number % 2}", topic="txn", records=made, end=end)
    broker.client("transaction", transactional_id="open", topic="txn", records=records(3, seed=50), end="open")
    produce(broker, "txn", records(4, seed=51), "none")
    committed = broker.records("txn", isolation="read_committed")["txn-0"]
    everything = broker.records("txn")["txn-0"]
    assert len(committed["records"]) == 8 * 5
    assert len(everything["records"]) == 12 * 5 + 3 + 4
    assert committed["end"] < everything["end"], "the open transaction holds the last stable offset back"
    broker.kill()
    tear(broker, "txn")
    recover_and_start(broker, "txn")
    assert broker.records("txn", isolation="read_committed")["txn-0"] == committed
    assert broker.records("txn")["txn-0"] == everything
    broker.client("transaction", transactional_id="open", topic="txn", records=records(2, seed=52), end="commit")
    ended = broker.records("txn", isolation="read_committed")["txn-0"]
    assert len(ended["records"]) == 8 * 5 + 4 + 2, "the open transaction was aborted, what was after it can be read"


def cleaned_to(broker: RealBroker, topic: str) -> int:
    path = broker.log_dir / "cleaner-offset-checkpoint"
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    return max((int(line.split()[2]) for line in lines if line.split()[0] == topic), default=-1)


def await_cleaning(broker: RealBroker, topic: str, beyond: int) -> int:
    deadline = time.monotonic() + 40
    while cleaned_to(broker, topic) <= beyond:
        assert time.monotonic() < deadline, "the cleaner did not run"
        time.sleep(0.2)
    return cleaned_to(broker, topic)


def latest(partition: Json) -> dict[str, str | None]:
    """The last value of each key that has not been deleted."""
    values = {record["key"]: record["value"] for record in partition["records"]}
    return {key: value for key, value in values.items() if value is not None}


@pytest.mark.interop
def test_a_compacted_life(broker_of: Callable[..., RealBroker]) -> None:
    """A cleaned log is recovered with its gaps, and is cleaned again afterwards."""
    broker = broker_of("4.3.0")
    broker.create("compact", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01", delete_retention_ms=1)
    produce(broker, "compact", records(400, keys=15), "lz4")
    first = await_cleaning(broker, "compact", -1)
    time.sleep(1)
    broker.stop()
    tear(broker, "compact")
    tree = partitions(broker, "compact")[0]
    kept = sum(damage.get(b, "records_count") for base in tree.bases() for _, b in tree.batches(tree.file(base)))
    assert kept < 400, "there are gaps"
    recover_and_start(broker, "compact")
    expected = latest({"records": [{"key": r["k"], "value": r["v"]} for r in records(400, keys=15)]})
    assert latest(broker.records("compact")["compact-0"]) == expected
    more = records(400, keys=15, seed=2)
    produce(broker, "compact", more, "none")
    await_cleaning(broker, "compact", first)
    expected |= {r["k"]: r["v"] for r in more}
    found = latest(broker.records("compact")["compact-0"])
    assert found == {key: value for key, value in expected.items() if value is not None}


def await_flood(broker: RealBroker, enough: Callable[[Json], bool]) -> None:
    deadline = time.monotonic() + 30
    while not enough(state := broker.client("flood_state", topic="load")):
        assert time.monotonic() < deadline, state
        time.sleep(0.1)


@pytest.mark.interop
@pytest.mark.parametrize(("version", "mode"), [("4.3.0", "kraft"), ("3.9.1", "zk")])
def test_no_acknowledged_record_is_lost_when_a_broker_is_killed_under_load(
    version: str, mode: str, broker_of: Callable[..., RealBroker]
) -> None:
    broker = broker_of(version, mode)
    broker.create("load", 3, segment_bytes=65536)
    out = broker.directory / "acknowledged.txt"
    impatient = {"linger.ms": 2, "retries": 0, "request.timeout.ms": 1500, "delivery.timeout.ms": 3000}
    broker.client("flood", topic="load", partitions=3, out=str(out), producer=impatient)
    await_flood(broker, lambda state: state["acknowledged"] >= 2000)
    broker.kill()
    await_flood(broker, lambda state: state["ended"])  # or it would go on with the broker that comes back
    tear(broker, "load")
    recover_and_start(broker, "load")
    found = {
        (name, record["offset"]): base64.b64decode(record["key"]).decode()
        for name, partition in broker.records("load", 3).items()
        for record in partition["records"]
    }
    lines = [line.split() for line in out.read_text().splitlines()]
    acknowledged = [
        (f"load-{partition}", int(offset), key) for partition, offset, key in (x for x in lines if len(x) == 3)
    ]
    assert len(acknowledged) >= 2000
    lost = [(name, offset) for name, offset, key in acknowledged if found.get((name, offset)) != key]
    assert lost == []


@pytest.mark.interop
def test_a_broker_serves_a_directory_of_which_only_the_logs_were_left(broker_of: Callable[..., RealBroker]) -> None:
    """Indexes, producer snapshots, leader epochs and checkpoints gone: rebuilt from the logs alone."""
    broker = broker_of("4.3.0")
    broker.create("bare")
    produce(broker, "bare", records(150), "snappy")
    broker.client("transaction", transactional_id="x", topic="bare", records=records(9, seed=3), end="abort")
    broker.client("transaction", transactional_id="x", topic="bare", records=records(9, seed=4), end="commit")
    before = broker.records("bare", isolation="read_committed")
    broker.stop()
    (tree,) = partitions(broker, "bare")
    tree.unclean().do("delete", tree.inside("leader-epoch-checkpoint"))
    for suffix in DERIVED:
        for name in tree.names(suffix):
            tree.do("delete", tree.inside(name))
    for name in (damage.RECOVERY_POINT, damage.LOG_START, "replication-offset-checkpoint"):
        tree.do("delete", name)
    recover_and_start(broker, "bare")
    after = broker.records("bare", isolation="read_committed")
    assert after == before
