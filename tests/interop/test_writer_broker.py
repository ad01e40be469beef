"""A real broker serves what we wrote: a partition of our own, and one of its own that we appended to."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.kafka.real_broker import RealBroker

T0 = 1_700_000_000_000
CONFIG = kafkalog.LogConfig(segment_bytes=4096, segment_index_bytes=8192, index_interval_bytes=256)
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
Compared = Callable[[str, int], None]


@pytest.fixture
def broker(kafka_of: Callable[[str], KafkaOracle], tmp_path: Path) -> Iterator[RealBroker]:
    kafka_of("4.3.0")
    with RealBroker("4.3.0", tmp_path / "broker") as running:
        running.start()
        yield running


def append(log: kafkalog.Log, seed: int) -> None:
    """Five batches, one of each compression, then a committed, an aborted and a plain one."""
    for number, codec in enumerate(CODECS):
        records = [
            kafkalog.NewRecord(b"%d/%d/%d" % (seed, number, n) * 5, b"key", T0 + seed * 1000 + number, ())
            for n in range(20)
        ]
        log.append(records, compression=codec)
    for producer_id, commit in ((900 + seed, True), (950 + seed, False)):
        producer = kafkalog.ProducerState(
            producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True
        )
        log.append([kafkalog.NewRecord(b"in a transaction", None, T0 + seed)], producer=producer)
        log.end_transaction(producer_id, 0, commit=commit, timestamp=T0 + seed)
    log.append([kafkalog.NewRecord(None, b"gone", T0 + seed, (kafkalog.Header("h", None),))])


def seen(partition: kafkalog.Partition, isolation_level: str) -> list[tuple[int, int]]:
    return [
        (record.offset, record.timestamp)
        for record in partition.records(kafkalog.RecordFilter(isolation_level=isolation_level))
    ]


def logs(broker: RealBroker) -> dict[str, bytes]:
    names = ("fresh-0", "grown-0")
    kinds = (".log", ".txnindex", ".snapshot")
    found = [path for name in names for path in (broker.log_dir / name).iterdir() if path.suffix in kinds]
    return {str(path): path.read_bytes() for path in found}


@pytest.mark.interop
def test_a_broker_serves_what_we_wrote(broker: RealBroker, compared: Compared) -> None:
    broker.create("fresh")
    broker.create("grown")
    sent: list[dict[str, Any]] = [{"partition": 0, "ts": T0, "v": "YWJj"}] * 30
    broker.client("produce", topic="grown", records=sent, producer={"compression.type": "lz4"})
    broker.stop()
    fresh, grown = broker.log_dir / "fresh-0", broker.log_dir / "grown-0"
    metadata = kafkalog.open_partition(fresh).metadata
    assert metadata is not None
    shutil.rmtree(fresh)
    with kafkalog.Log.open(fresh, CONFIG, topic_id=metadata.topic_id) as log:
        append(log, 1)
        append(log, 2)
    with kafkalog.Log.open(grown, CONFIG) as log:
        assert log.end_offset == 30
        append(log, 3)
    before = logs(broker)
    assert len([path for path in before if path.endswith(".log")]) > 2, "one was rolled"
    expected = {
        (name, level): seen(kafkalog.open_partition(broker.log_dir / f"{name}-0"), level)
        for name in ("fresh", "grown")
        for level in ("read_uncommitted", "read_committed")
    }
    broker.start()
    scanned = [line for line in broker.output().splitlines() if "Recovering unflushed segment" in line]
    assert [line for line in scanned if "fresh" in line or "grown" in line] == []
    assert {path: data for path, data in logs(broker).items() if path in before} == before
    for (name, level), records in expected.items():
        served = broker.records(name, isolation=level)[f"{name}-0"]["records"]
        assert [(record["offset"], record["timestamp"]) for record in served] == records, (name, level)
        compared("records that a broker serves from logs that we wrote", len(served))
    broker.client("produce", topic="fresh", records=sent, producer={"compression.type": "zstd"})
    assert len(broker.records("fresh")["fresh-0"]["records"]) == len(expected["fresh", "read_uncommitted"]) + 30
    broker.stop()
    with kafkalog.Log.open(fresh, CONFIG) as log:
        append(log, 4)
    broker.start()
    served = broker.records("fresh")["fresh-0"]["records"]
    assert [(r["offset"], r["timestamp"]) for r in served] == seen(kafkalog.open_partition(fresh), "read_uncommitted")
