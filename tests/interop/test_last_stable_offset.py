"""The last stable offset of a log: that of `Log`, of `Partition` and Kafka's own, compacted logs included."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import kafkalog
from kafkalog.codec.model import TRANSACTIONAL_FLAG
from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.made import damage, histories
from testkit.made.batches import batch, record

KIND = "compacted transactions"
SEEDS = 12
PARAMS = {"now_ms": histories.T0 + 100_000}
META = "#\nversion=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\nnode.id=1\ndirectory.id=AAAAAAAAAAMAAAAAAAAABA\n"
Compared = Callable[[str, int], None]


def compacted_transactions(rng: random.Random) -> histories.Script:
    """Transactions over few keys, cleaned several times: the batches of most producers are emptied."""
    script = histories.Script(rng, segment_bytes=900, cleanup_policy="compact", delete_retention_ms=1000)
    keys: list[bytes | None] = [b"k%d" % number for number in range(4)]
    producers = [(7000 + number, 0) for number in range(6)]
    open_: set[tuple[int, int]] = set()
    for passed in range(rng.randint(2, 4)):
        for _ in range(rng.randint(10, 25)):
            producer = rng.choice(producers)
            if producer in open_ and rng.random() < 0.5:
                script.marker(producer, commit=rng.random() < 0.5)
                open_.discard(producer)
            elif rng.random() < 0.3:
                script.append(script.records(rng.randint(1, 3), keys))
            else:
                script.append(script.records(1, keys), producer=producer, txn=True)
                open_.add(producer)
        for producer in sorted(open_):
            script.marker(producer, commit=rng.random() < 0.5)
        open_.clear()
        script.append(script.records(3, keys)).op("roll")
        script.op("clean", now_ms=histories.T0 + (passed + 1) * 10_000)
    for producer in rng.sample(producers, rng.randint(0, 2)):
        script.append(script.records(1, keys), producer=producer, txn=True)
    return script.append(script.records(2, keys))


def kafkas(root: Path, kafka: KafkaOracle) -> tuple[int, int]:
    """Last stable and log end offset of a log that Kafka has loaded, all of it replicated."""
    log = next(entry for entry in kafka.read(root, PARAMS) if entry["kind"] == "log")
    undecided, end = log["first_undecided_offset"], log["log_end_offset"]
    return (end if undecided is None else max(undecided, log["log_start_offset"])), end


def ours(root: Path) -> tuple[tuple[int, int], tuple[int, int]]:
    """The same of a partition that is read, and of a log that is opened."""
    partition = kafkalog.open_partition(root / "t-0")
    with kafkalog.Log.open(root / "t-0") as log:
        written = log.last_stable_offset, log.end_offset
    return (partition.last_stable_offset(), partition.log_end_offset()), written


def emptied(root: Path) -> list[kafkalog.RecordBatch]:
    batches = kafkalog.open_partition(root / "t-0").batches()
    return [each for each in batches if each.header.is_transactional and not list(kafkalog.iter_records(each))]


def agree(root: Path, kafka: KafkaOracle) -> None:
    expected = kafkas(root, kafka)
    assert ours(root) == (expected, expected)


def test_compacted_logs(
    kafka: KafkaOracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compared: Compared
) -> None:
    monkeypatch.setitem(histories.KINDS, KIND, compacted_transactions)
    found = 0
    for seed in range(SEEDS):
        history = histories.History(KIND, f"stable/{seed}")
        tree = history.tree(kafka)
        for form in ("clean", "unclean"):
            root = tmp_path / f"{seed}-{form}"
            shutil.copytree(tree / "clean", root)
            if form == "unclean":  # everything is read again, without a snapshot to rely on
                damage.Tree(root).unclean()
                (root / damage.RECOVERY_POINT).write_text("0\n0\n")
                for snapshot in root.glob("t-0/*.snapshot"):
                    snapshot.unlink()
            found += len(emptied(root))
            agree(root, kafka)
    assert found > 50
    compared("last stable offsets of compacted logs", 2 * SEEDS)


@pytest.mark.parametrize("seed", range(6))
def test_emptied_batches_anywhere(seed: int, kafka: KafkaOracle, tmp_path: Path, compared: Compared) -> None:
    """Also where no cleaner would leave them: before a marker that is gone, in front of everything."""
    rng = random.Random(f"emptied/{seed}")
    root = tmp_path / "broker"
    (root / "t-0").mkdir(parents=True)
    (root / "meta.properties").write_text(META)
    (root / "t-0" / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAMAAAAAAAAABA")
    parts: list[bytes] = []
    for offset in range(rng.randint(1, 12)):
        producer = rng.randint(0, 2)
        fields = {"base_offset": offset, "producer_id": producer, "producer_epoch": 0, "base_sequence": 0}
        kind = rng.choice(["emptied", "emptied", "data", "plain", "marker"])
        if kind == "marker":
            parts.append(damage.marker(offset, producer, 0, commit=rng.random() < 0.5))
        elif kind == "emptied":
            parts.append(batch(b"", 0, attributes=TRANSACTIONAL_FLAG, **fields))
        elif kind == "data":
            parts.append(batch(record(0, b"k", b"v"), 1, attributes=TRANSACTIONAL_FLAG, **fields))
        else:
            parts.append(batch(record(0, b"k", b"v"), 1, base_offset=offset))
    (root / "t-0" / f"{0:020d}.log").write_bytes(b"".join(parts))
    agree(root, kafka)
    compared("last stable offsets of logs with emptied batches", 1)
