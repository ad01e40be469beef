"""What a real broker has deleted is put back, and the broker serves every record of it again."""

from __future__ import annotations

import base64
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkalog import Undelete, Undo, deleted, open_partition, plan, undelete, undelete_into, undo
from kafkalog.jobs.undelete.remains import RemainsKind
from testkit.judging.trees import first_difference, stamps
from testkit.kafka.kafka_oracle import KafkaOracle, OracleError
from testkit.kafka.real_broker import RealBroker

pytestmark = pytest.mark.interop
AN_HOUR = 3_600_000
T0 = 1_700_000_000_000
Json = dict[str, Any]
BROKERS = [("4.1.0", "kraft"), ("4.4.0", "kraft"), ("3.9.1", "zk")]
COUNT = 300


@pytest.fixture
def broker_of(kafka_of: Callable[[str], KafkaOracle], tmp_path: Path) -> Iterator[Callable[..., RealBroker]]:
    """Makes brokers that delete late, and that are gone when the test ends."""
    made: list[RealBroker] = []

    def of(version: str, mode: str) -> RealBroker:
        kafka_of(version)
        made.append(
            RealBroker(version, tmp_path / version, mode=mode, settings={"log.segment.delete.delay.ms": AN_HOUR})
        )
        made[-1].start()
        return made[-1]

    yield of
    for broker in made:
        broker.__exit__(None, None, None)


def records(count: int, *, partitions: int = 1, seed: int = 1) -> list[Json]:
    """Records to produce."""
    rng = random.Random(seed)
    values = [base64.b64encode(rng.randbytes(rng.randint(1, 120))).decode() for _ in range(count)]
    return [{"partition": i % partitions, "ts": T0 + i * 1000, "v": value} for i, value in enumerate(values)]


def logs(broker: RealBroker, topic: str) -> dict[str, bytes]:
    files = broker.log_dir.glob(f"{topic}-*/*.log")
    return {str(path.relative_to(broker.log_dir)): path.read_bytes() for path in files}


def wait_for(what: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline, "the broker does not do it"
        time.sleep(0.2)


def create_again(broker: RealBroker, topic: str, partitions: int) -> None:
    """As soon as the cluster lets it: a controller with ZooKeeper forgets a topic only after its replicas did."""
    deadline = time.monotonic() + 60
    while True:
        try:
            broker.create(topic, partitions)
        except OracleError as error:
            if "TopicExists" not in f"{error} {error.failure}" or time.monotonic() > deadline:
                raise
            time.sleep(0.5)
        else:
            break
    wait_for(lambda: all((broker.log_dir / f"{topic}-{number}").is_dir() for number in range(partitions)))


def end(broker: RealBroker, how: str) -> None:
    if how == "stopped":
        broker.stop()
    else:
        broker.kill()


def is_in_order(root: Path, *directories: str) -> bool:
    return not any(plan(root / each)[0].changes for each in directories)


@pytest.mark.parametrize("how", ["stopped", "killed"])
@pytest.mark.parametrize(("version", "mode"), BROKERS)
def test_a_topic_that_was_deleted(version: str, mode: str, how: str, broker_of: Callable[..., RealBroker]) -> None:
    """Deleted, created again, put in place of the empty logs: all records are there, and more can be written."""
    broker = broker_of(version, mode)
    root = broker.log_dir
    broker.create("orders", 2)
    broker.client("produce", topic="orders", records=records(COUNT, partitions=2))
    before, written = broker.records("orders", 2), logs(broker, "orders")
    broker.client("delete", topic="orders")
    wait_for(lambda: len(list(root.glob("orders-*-delete"))) == 2)
    create_again(broker, "orders", 2)
    broker.client("ready")
    end(broker, how)
    assert [(each.kind, each.records, each.why_not) for each in deleted(root)] == [
        (RemainsKind.DIRECTORY, COUNT // 2, None)
    ] * 2
    as_deleted = stamps(root)
    run_id = undelete(Undelete(topic="orders"), root)[0].run_id
    assert is_in_order(root, "orders-0", "orders-1")
    undo(Undo(run_ids=[run_id]), root)
    assert first_difference(dict(stamps(root)), dict(as_deleted)) == ""
    undelete(Undelete(topic="orders"), root)
    assert logs(broker, "orders") == written
    broker.start()
    assert broker.records("orders", 2) == before
    assert logs(broker, "orders") == written
    broker.client("produce", topic="orders", records=records(50, partitions=2, seed=2))
    assert sum(len(each["records"]) for each in broker.records("orders", 2).values()) == COUNT + 50
    broker.stop()
    assert not list(root.glob("orders-*-stray"))


@pytest.mark.parametrize(("version", "mode"), BROKERS)
def test_a_topic_that_is_held_while_a_broker_deletes_at_once(
    version: str, mode: str, broker_of: Callable[..., RealBroker]
) -> None:
    broker = broker_of(version, mode)
    root = broker.log_dir
    broker.create("orders", 2)
    broker.client("produce", topic="orders", records=records(COUNT, partitions=2))
    before, written = broker.records("orders", 2), logs(broker, "orders")
    broker.client("delete", topic="orders")
    wait_for(lambda: len(list(root.glob("orders-*-delete"))) == 2)
    broker.kill()
    undelete(Undelete(topic="orders", hold=True), root)
    broker.configure({"log.segment.delete.delay.ms": 1})
    broker.start()
    broker.create("other")
    broker.client("delete", topic="other")
    wait_for(lambda: not list(root.glob("other-0*")))  # what is deleted is gone
    create_again(broker, "orders", 2)
    broker.stop()
    undelete(Undelete(topic="orders"), root)
    assert is_in_order(root, "orders-0", "orders-1")
    broker.start()
    assert broker.records("orders", 2) == before
    assert logs(broker, "orders") == written
    broker.stop()


@pytest.mark.parametrize(("version", "mode"), BROKERS)
def test_segments_that_retention_deleted(version: str, mode: str, broker_of: Callable[..., RealBroker]) -> None:
    broker = broker_of(version, mode)
    root = broker.log_dir
    broker.create("kept", 1, file_delete_delay_ms=AN_HOUR)
    broker.client("produce", topic="kept", records=records(COUNT))
    before, written = broker.records("kept"), logs(broker, "kept")
    broker.client("alter", topic="kept", config={"retention.bytes": "6000"})
    wait_for(lambda: list(root.glob("kept-0/*.log.deleted")))
    wait_for(lambda: broker.records("kept")["kept-0"]["start"] > 0)
    broker.client("alter", topic="kept", config={"retention.bytes": "-1"})
    broker.kill()
    (found,) = deleted(root)
    assert (found.kind, found.first_offset, found.why_not) == (RemainsKind.SEGMENTS, 0, None)
    as_deleted = stamps(root)
    result = undelete(Undelete(topic="kept"), root)[0]
    assert (result.done.put_back[0].log_start_offset, result.done.put_back[0].log_end_offset) == (0, COUNT)
    assert is_in_order(root, "kept-0")
    undo(Undo(run_ids=[result.run_id]), root)
    assert first_difference(dict(stamps(root)), dict(as_deleted)) == ""
    undelete(Undelete(topic="kept"), root)
    assert logs(broker, "kept") == written
    broker.start()
    assert broker.records("kept") == before
    assert logs(broker, "kept") == written
    broker.stop()


def test_what_is_written_into_a_directory_of_its_own(
    broker_of: Callable[..., RealBroker], kafka: KafkaOracle, tmp_path: Path
) -> None:
    """The cluster knows the topic no more; Kafka opens the copy without changing a byte."""
    broker = broker_of("4.1.0", "kraft")
    broker.create("orders", 2)
    broker.client("produce", topic="orders", records=records(COUNT, partitions=2))
    broker.client("delete", topic="orders")
    wait_for(lambda: len(list(broker.log_dir.glob("orders-*-delete"))) == 2)
    broker.kill()
    before = stamps(broker.log_dir)
    taken = undelete_into(Undelete(topic="orders"), broker.log_dir, target=tmp_path / "new")
    assert first_difference(dict(stamps(broker.log_dir)), dict(before)) == ""
    assert [each.records for each in taken.put_back] == [COUNT // 2] * 2
    assert not plan(tmp_path / "new")[0].changes
    for number in range(2):
        assert sum(1 for _ in open_partition(tmp_path / "new" / f"orders-{number}").records()) == COUNT // 2
    answer = kafka.check(tmp_path / "new", {"now_ms": 1_700_000_100_000, "force_unclean": 1})
    assert answer.get("accepted"), answer
