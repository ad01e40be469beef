"""What a replay does about transactions that a dead broker left open: decided, aborted with consent, or told."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kafkalog import Log, LogConfig, NewRecord, ProducerState
from kafkalog.cluster.transactions.transactions import TransactionState
from kafkalog.replay import Replay, ReplayPlan, plan_replay
from kafkalog.replay.target import Target
from kafkalog.server.broker import Server
from kafkalog.server.catalog import Catalog
from testkit.kafka.mock_cluster import consumed, made_in_a_mock, mock_cluster
from testkit.recorded.broker_dirs import brokers, expected_records
from testkit.recorded.fixture_data import broker_case
from testkit.running.command import kafkalog as command
from testkit.serving.raw_client import RawClient
from testkit.serving.serving import bootstrap, serving

PRODUCER, OTHER = 7, 8


@pytest.fixture(autouse=True)
def progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mock keeps what was not committed, too; a cluster keeps the progress if the transaction is committed."""
    kept: dict[tuple[str, int], int] = {}
    commit = Target._commit

    def keeping(self: Target, some: Sequence[tuple[str, int, int]]) -> None:
        commit(self, some)
        kept.update({(topic, partition): offset for topic, partition, offset in some})

    monkeypatch.setattr(Target, "_commit", keeping)
    monkeypatch.setattr(Target, "progress", lambda _: dict(kept))
    monkeypatch.setattr(Target, "create", made_in_a_mock)


def coordinator(root: Path, producer_id: int, state: TransactionState, partitions: dict[str, list[int]]) -> None:
    """A `__transaction_state` that says this of a producer (`TransactionLogKey`, `TransactionLogValue`)."""
    key = struct.pack(">hh3s", 0, 3, b"pay")
    topics = b"".join(
        struct.pack(f">h{len(name)}si{len(numbers)}i", len(name), name.encode(), len(numbers), *numbers)
        for name, numbers in partitions.items()
    )
    value = struct.pack(">hqhibi", 0, producer_id, 0, 60_000, state, len(partitions)) + topics
    value += struct.pack(">qq", 1_700_000_000_000, 1_700_000_000_000)
    with Log.open(root / "__transaction_state-0") as log:
        log.append([NewRecord(key=key, value=value, timestamp=1_700_000_000_000)])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Five records, a transaction of three that nobody ended, ten acknowledged records of another producer."""
    root = tmp_path / "data"
    root.mkdir()
    with Log.open(root / "orders-0", LogConfig(retention_ms=-1)) as log:
        log.append([b"before %d" % number for number in range(5)])
        log.append(
            [b"open %d" % number for number in range(3)],
            producer=ProducerState(producer_id=PRODUCER, producer_epoch=0, base_sequence=0, is_transactional=True),
        )
        for number in range(10):
            log.append(
                [b"behind %d" % number],
                producer=ProducerState(
                    producer_id=OTHER, producer_epoch=0, base_sequence=number, is_transactional=False
                ),
            )
    return root


def plan_of(root: Path, *, abort: bool = False) -> ReplayPlan:
    return plan_replay(Replay(abort_open=abort), root)


def test_what_waits_is_counted_by_partition_and_producer(source: Path) -> None:
    (waiting,) = plan_of(source).waiting
    assert (waiting.topic, waiting.partition, waiting.first_offset, waiting.records) == ("orders", 0, 5, 10)
    (producer,) = waiting.producers
    assert (producer.producer_id, producer.first_offset, producer.records) == (PRODUCER, 5, 3)
    assert (producer.transactional_id, producer.state) == (None, None)
    coordinator(source, PRODUCER, TransactionState.ONGOING, {"orders": [0]})
    ((producer,),) = (each.producers for each in plan_of(source).waiting)
    assert (producer.transactional_id, producer.state) == ("pay", "Ongoing")
    assert plan_of(source, abort=True).waiting == ()


@pytest.mark.parametrize(
    ("state", "partitions", "texts"),
    [
        (TransactionState.PREPARE_COMMIT, {"orders": [0]}, ["before 0", "open 2", "behind 9"]),
        (TransactionState.PREPARE_ABORT, {"orders": [0]}, ["before 0", "behind 9"]),
        (TransactionState.PREPARE_COMMIT, {"orders": [1]}, ["before 0"]),
        (TransactionState.ONGOING, {"orders": [0]}, ["before 0"]),
        (TransactionState.COMPLETE_COMMIT, {}, ["before 0"]),
    ],
)
def test_the_coordinators_log_decides_what_it_can(
    source: Path, state: TransactionState, partitions: dict[str, list[int]], texts: list[str], tmp_path: Path
) -> None:
    coordinator(source, PRODUCER, state, partitions)
    with mock_cluster(["orders"]) as bootstrap:
        done = command("replay", "--yes", "--bootstrap-server", bootstrap, "--map", tmp_path / "m.parquet", source)
        found = [message.value().decode() for message in consumed(bootstrap, "orders", 0)]
    for text in ("before 0", "open 2", "behind 9"):
        assert (text in found) == (text in texts), done.err
    assert done.code == (2 if "behind 9" in texts else 1)
    assert ("left behind" in done.out) == (done.code == 1)


def test_nothing_is_left_behind_without_a_word(source: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.parquet"
    with mock_cluster(["orders"]) as bootstrap:
        given = ("replay", "--yes", "--json", "--bootstrap-server", bootstrap, "--map", path, source)
        for records in (5, 0):  # a second time nothing else is left to do
            done = command(*given)
            assert done.code == 1, done.err
            assert done.objects[-1]["records"] == records
            assert done.objects[-1]["records_left_behind"] == 10
        assert len(consumed(bootstrap, "orders", 0)) == 5
        text = command("replay", "--bootstrap-server", bootstrap, source)
        assert "10 record(s) of other producers wait behind open transactions" in text.out
        aborted = command(*given[:-1], "--open-transactions", "abort", source)
        assert (aborted.code, aborted.objects[-1]["records"]) == (2, 10), aborted.err
        there = {message.offset(): message.value() for message in consumed(bootstrap, "orders", 0)}
        assert list(there.values()) == [*(b"before %d" % n for n in range(5)), *(b"behind %d" % n for n in range(10))]
        rows = pq.read_table(path).to_pylist()
        assert [row["offset"] for row in rows] == [*range(5), *range(8, 18)]
        assert [row["target_offset"] for row in rows] == sorted(there)
        again = command(*given[:-1], "--open-transactions", "abort", source)
        assert (again.code, again.objects[-1]["records"]) == (0, 0)
        assert not path.with_suffix(".parquet.journal").exists()


class _KilledError(Exception):
    """In place of a kill."""


def test_going_on_behind_a_map_may_be_cut_short_too(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.parquet"
    with mock_cluster(["orders"]) as bootstrap:
        given = ("replay", "--yes", "--bootstrap-server", bootstrap, "--map", path, source)
        assert command(*given).code == 1
        before = path.read_bytes()
        monkeypatch.setattr("kafkalog.replay.run._CHUNK_RECORDS", 4)
        for name in ("read_parquet", "write_parquet"):
            with monkeypatch.context() as patch:
                patch.setattr(f"kafkalog.replay.run.{name}", lambda *_: (_ for _ in ()).throw(_KilledError))
                assert command(*given, "--open-transactions", "abort").code == 70
            assert path.read_bytes() == before
        assert path.with_suffix(".parquet.journal").exists()
        assert command(*given, "--open-transactions", "abort").code == 2
        rows = pq.read_table(path).to_pylist()
        assert [row["offset"] for row in rows] == [*range(5), *range(8, 18)]


def test_of_a_real_broker_all_that_waits_is_counted() -> None:
    """What Kafka's consumer got of uncommitted data and not of committed data is aborted, open, or waiting."""
    (root,) = brokers("4.1.1/txn")
    case = broker_case("4.1.1", "txn")
    committed, everything = (
        {key for key in expected_records(case, level) if key[0][:2] != "__"}
        for level in ("read_committed", "read_uncommitted")
    )
    plan, aborting = plan_of(root), plan_of(root, abort=True)
    assert plan.waiting
    for each in plan.waiting:
        (topic,) = (topic for topic in aborting.topics if topic.name == each.topic)
        partition = topic.partitions[each.partition]
        aborted = {(one.producer_id, one.first_offset) for one in partition.transactions().aborted}
        assert {(one.producer_id, one.first_offset) for one in each.producers} <= aborted
        behind = {key for key in everything if key[:2] == (each.topic, each.partition) and key[2] >= each.first_offset}
        assert not behind & committed
        own = sum(one.records for one in each.producers)
        assert 0 < each.records + own <= len(behind)


WHY = (
    "orders-0: read_committed ends at offset 5, where a transaction of producer 7 is open; of the offsets from there "
    "up to 17 nothing is read, records of other producers included"
)


def test_who_reads_committed_data_is_told_where_it_ends(source: Path) -> None:
    committed = ("dump", source, "--isolation-level", "read_committed")
    done = command(*committed)
    assert (done.code, WHY in done.err) == (0, True), done.err
    for other in (("dump", source), (*committed, "-q"), (*committed, "--end-offset", "5"), (*committed, "--all")):
        assert "read_committed ends" not in command(*other).err
    with Log.open(source / "orders-0", LogConfig(retention_ms=-1)) as log:
        log.end_transaction(PRODUCER, 0, commit=True)
    assert "read_committed ends" not in command(*committed).err


@pytest.mark.parametrize("age", [0, 61])
def test_serve_tells_of_a_transaction_that_stays_open(source: Path, age: int) -> None:
    """While somebody writes, transactions come and go."""
    (log,) = (source / "orders-0").glob("*.log")
    os.utime(log, (time.time() - age,) * 2)
    told: list[str] = []
    catalog = Catalog([source], complain=told.append)
    with Server(catalog, ("127.0.0.1", 0)) as server, RawClient(server.address) as client:
        for _ in range(2):
            asked = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
            body = {"replica_id": -1, "isolation_level": 1, "topics": [{"name": "orders", "partitions": [asked]}]}
            (topic,) = client.ask("ListOffsets", 7, **body)["topics"]
            assert topic["partitions"][0]["offset"] == 5
    assert told == ([WHY] if age else [])


T0 = 1_700_000_000_000


@pytest.mark.parametrize(
    ("given", "offsets"),
    [
        ((), range(20)),
        (("--start-offset", 3, "--end-offset", 15), range(3, 15)),
        (("--start-time", T0 + 7, "--end-time", T0 + 12), range(7, 12)),
        (("--start-offset", 9, "--end-time", T0 + 12), range(9, 12)),
        (("--start-offset", 90), ()),
    ],
)
def test_a_part_of_each_partition(given: tuple[object, ...], offsets: Sequence[int], tmp_path: Path) -> None:
    """Batches of several records, some of which are within it; a second time nothing is left to do."""
    root = tmp_path / "data"
    root.mkdir()
    with Log.open(root / "orders-0", LogConfig(retention_ms=-1)) as log:
        for first in range(0, 20, 5):
            log.append([NewRecord(value=b"%d" % n, timestamp=T0 + n) for n in range(first, first + 5)])
    path = tmp_path / "m.parquet"
    with mock_cluster(["orders"]) as bootstrap:
        words = ("replay", "--yes", "--json", "--bootstrap-server", bootstrap, "--map", path, *given, root)
        done = command(*words)
        assert done.code == 2, done.err
        assert done.objects[-1]["records"] == len(offsets)
        assert [int(message.value()) for message in consumed(bootstrap, "orders", 0)] == list(offsets)
        assert [row["offset"] for row in pq.read_table(path).to_pylist()] == list(offsets)
        again = command(*words)
        assert (again.code, again.objects[-1]["records"]) == (0, 0), again.err


def test_only_what_waits_within_the_part_is_counted(source: Path) -> None:
    for start, end, records in ((0, 5, None), (0, 12, 4), (10, None, 8), (7, 10, 2)):
        plan = plan_replay(Replay(start_offset=start, end_offset=end), source)
        assert sum(each.records for each in plan.waiting) == (records or 0)
        assert bool(plan.waiting) == (records is not None)


def test_a_transaction_that_begins_behind_the_part_is_not_named(source: Path) -> None:
    with Log.open(source / "orders-0") as log:
        late = ProducerState(producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True)
        log.append([b"late"], producer=late)
    for end, ids in ((None, [PRODUCER, 9]), (18, [PRODUCER])):
        (waiting,) = plan_replay(Replay(end_offset=end), source).waiting
        assert [each.producer_id for each in waiting.producers] == ids


def test_a_partition_with_only_an_open_transaction_is_not_empty(tmp_path: Path) -> None:
    """Its last stable offset is 0, which consumers with `read_committed` get in place of the high watermark."""
    topics = {"open": ProducerState(producer_id=PRODUCER, producer_epoch=0, base_sequence=0, is_transactional=True)}
    for topic in ("open", "empty"):
        with Log.open(tmp_path / f"{topic}-0", LogConfig(retention_ms=-1)) as log:
            if topic in topics:
                log.append([b"record"], producer=topics[topic])
    with serving(tmp_path) as server, Target(bootstrap(server), "id", {}, compression="none", batch_bytes=1) as target:
        assert not target.is_empty("open", 0)
        assert target.is_empty("empty", 0)
