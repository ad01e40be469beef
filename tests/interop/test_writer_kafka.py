"""Logs that we write and that Kafka writes: the same operations leave the same bytes, and Kafka changes nothing."""

from __future__ import annotations

import base64
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from testkit.judging import compare, scripted
from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.made import histories

KINDS = sorted(set(histories.KINDS) - {"compacted"})
META = "#\nversion=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\nnode.id=1\ndirectory.id=AAAAAAAAAAMAAAAAAAAABA\n"
BESIDE = (*compare.LOG_DIR_FILES, "replication-offset-checkpoint")
Compared = Callable[[str, int], None]


def params_of(script: dict[str, Any]) -> dict[str, Any]:
    names = ("segment.bytes", "segment.index.bytes", "index.interval.bytes", "message.timestamp.type")
    found = {name: script["config"][name] for name in names if name in script["config"]}
    return {**found, "now_ms": script["now_ms"] + 100_000}


def written(history: histories.History, root: Path, kafka: KafkaOracle) -> scripted.Player:
    root.mkdir()
    (root / "meta.properties").write_text(META)
    player = scripted.Player(history.script(), root, scripted.batches_of(history.tree(kafka) / "clean"))
    player.play()
    return player


@pytest.mark.parametrize("seed", ["a", "b", "c"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_operations_leave_the_bytes_that_kafka_leaves(
    kind: str, seed: str, kafka: KafkaOracle, tmp_path: Path, compared: Compared
) -> None:
    history = histories.History(kind, f"writer/{seed}")
    player = written(history, tmp_path / "ours", kafka)
    theirs = tmp_path / "theirs"
    shutil.copytree(history.tree(kafka) / "clean", theirs)
    params = params_of(history.script())
    # a start and a stop remove the snapshots that no start would use; ours has removed them when it closed
    assert kafka.recover(theirs, params)["outcome"] == "loaded"
    differences = compare.compare(theirs, tmp_path / "ours", BESIDE)
    assert [str(found) for found in differences] == []
    compared("operations of a log whose files are Kafka's byte for byte", player.operations)
    compared("batches written as Kafka writes them", player.appended)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "version", ["4.1.0", *(pytest.param(version, marks=pytest.mark.interop) for version in ("4.3.0", "4.4.0"))]
)
def test_kafka_opens_what_we_wrote_and_changes_nothing(
    kind: str, version: str, kafka: KafkaOracle, kafka_of: Callable[[str], KafkaOracle], tmp_path: Path,
    compared: Compared,
) -> None:  # fmt: skip
    history = histories.History(kind, "writer/d")
    root = tmp_path / "ours"
    written(history, root, kafka)
    judge, params = kafka_of(version), params_of(history.script())
    for unclean in (0, 1):
        answer = judge.check(root, {**params, "force_unclean": unclean})
        assert answer["accepted"], (unclean, answer)
    compared("directories that Kafka opens and leaves as they are, after an orderly stop and after none", 2)


@pytest.mark.interop
@pytest.mark.parametrize("kind", KINDS)
def test_many_more_histories(kind: str, kafka: KafkaOracle, tmp_path: Path, compared: Compared) -> None:
    for seed in range(30):
        below = tmp_path / str(seed)
        below.mkdir()
        test_the_same_operations_leave_the_bytes_that_kafka_leaves(kind, f"more/{seed}", kafka, below, compared)


@pytest.mark.parametrize("kind", KINDS)
def test_kafka_reads_what_we_wrote_as_we_do(kind: str, kafka: KafkaOracle, tmp_path: Path, compared: Compared) -> None:
    """Records, where a fetch at each offset begins, and the offset for each time that occurs."""
    history = histories.History(kind, "writer/e")
    root = tmp_path / "ours"
    written(history, root, kafka)
    partition = kafkalog.open_partition(root / "t-0")
    ours = [record for batch in partition.batches() for record in kafkalog.iter_records(batch)]
    entries = kafka.read(root, params_of(history.script()))
    theirs = [record for entry in entries if entry["kind"] == "batch" for record in entry["records"]]
    assert [(r.offset, r.timestamp, b64(r.key), b64(r.value), r.sequence) for r in ours] == [
        (r["offset"], r["timestamp"], r["key"], r["value"], r["sequence"]) for r in theirs
    ]
    compared("records of logs that we wrote, as Kafka reads them", len(theirs))
    compared("fetches at an offset, begun at the same batch", _fetches(partition, entries))
    compared("offsets for times", _times(partition, entries))


def b64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _fetches(partition: kafkalog.Partition, entries: list[dict[str, Any]]) -> int:
    asked = [entry for entry in entries if entry["kind"] == "read_at"]
    for entry in asked:
        if "exception" in entry:
            assert "OffsetOutOfRange" in entry["exception"]["class"]
            with pytest.raises(kafkalog.OffsetOutOfRangeError, match="the log holds"):
                partition.read(entry["query"], 1)
            continue
        batches = partition.read(entry["query"], 1).batches
        assert bool(batches) == ("last_offset" in entry), entry
        if batches:
            assert batches[0].last_offset == entry["last_offset"], entry
            assert batches[0].size == entry["bytes"], entry
    return len(asked)


def _times(partition: kafkalog.Partition, entries: list[dict[str, Any]]) -> int:
    asked = [entry for entry in entries if entry["kind"] == "offset_for_timestamp" and entry["query"] >= 0]
    batches = [entry for entry in entries if entry["kind"] == "batch"]
    markers = {record["offset"] for batch in batches if batch["control"] for record in batch["records"]}
    kept = [r for batch in batches if not batch["control"] for r in batch["records"]]
    data = [(r["offset"], r["timestamp"]) for r in kept if r["offset"] >= partition.log_start_offset]
    for entry in asked:
        found = partition.offset_for_timestamp(entry["query"])
        expected = (entry["offset"], entry["timestamp"]) if "offset" in entry else None
        if expected is not None and expected[0] in markers:  # Kafka may point to a marker, which no consumer sees
            expected = next(((o, t) for o, t in data if t >= entry["query"]), None)
        assert (None if found is None else (found.offset, found.timestamp)) == expected, entry
    return len(asked)


def _rolled_by_time(rng: random.Random) -> histories.Script:
    script = histories.Script(rng, segment_bytes=1 << 20, segment_ms=60)
    for number in range(30):
        script.some(2, now_ms=histories.T0 + number * 10)
    return script


def _rolled_by_full_indexes(rng: random.Random) -> histories.Script:
    interval = rng.choice([0, 90])
    script = histories.Script(rng, segment_bytes=1 << 20, segment_index_bytes=48, index_interval_bytes=interval)
    for _ in range(40):
        script.some(2)
    return script


def _rolled_by_offset_range(rng: random.Random) -> histories.Script:
    """A follower of a leader whose compaction left gaps of more than 2^31."""
    script, offset = histories.Script(rng, segment_bytes=1 << 20), 0
    for _ in range(9):
        offset += rng.choice([1, 3, 2**31 - 2, 2**31 - 1, 2**31, 2**33])
        batch = {"records": script.records(1), "base": offset, "leader_epoch": 0}
        script.op("append", role="follower", batches=[batch], leader_epoch=0, base=offset)
    return script


def _retained_by_size(rng: random.Random) -> histories.Script:
    script = histories.Script(rng, segment_bytes=700, retention_bytes=rng.choice([0, 700, 1500, 2500]))
    for number in range(25):
        script.some(3)
        if number in (12, 24):
            script.op("delete_before", offset=0, retention=True)
    return script.some(2).some(2)


def _retained_by_age(rng: random.Random) -> histories.Script:
    script = histories.Script(rng, segment_bytes=700, retention_ms=rng.choice([100, 300, 10**6]))
    for number in range(25):
        script.some(3)
        if number in (12, 24):
            script.op("delete_before", offset=0, retention=True, now_ms=script.timestamp + 120)
    return script.some(2).some(2)


def _transactions_truncated(rng: random.Random) -> histories.Script:
    script = histories.KINDS["txn"](rng).op("truncate", offset=rng.randint(5, 45))
    script.leader_epoch += 2
    return script.some().some().some()


OWN = {
    "time": _rolled_by_time,
    "full_indexes": _rolled_by_full_indexes,
    "offset_range": _rolled_by_offset_range,
    "size": _retained_by_size,
    "age": _retained_by_age,
    "transactions_truncated": _transactions_truncated,
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", OWN)
def test_rolls_retention_and_truncation_as_kafka_does_them(
    name: str, seed: int, kafka: KafkaOracle, tmp_path: Path, compared: Compared
) -> None:
    made = OWN[name](random.Random(f"{name}/{seed}"))
    script = {"now_ms": histories.T0, "config": made.config, "topic_id": "AAAAAAAAAAEAAAAAAAAAAQ", "ops": made.ops}
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    result = kafka.generate({**script, "dir": str(theirs / "t-0"), "ops": [*made.ops, {"op": "close"}]})
    assert len(result["segments"]) > 1 or result["segments"][0][0] > 0 or name == "transactions_truncated"
    ours.mkdir()
    player = scripted.Player(script, ours, scripted.batches_of(theirs))
    player.play()
    (theirs / "meta.properties").write_text(META)
    (ours / "meta.properties").write_text(META)
    shutil.copy(ours / ".kafka_cleanshutdown", theirs)
    for checkpoint in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
        shutil.copy(ours / checkpoint, theirs)
    if result["log_start_offset"] < result["log_end_offset"]:
        answer = kafka.check(ours, params_of(script))
        assert answer["accepted"], answer
    assert kafka.recover(theirs, params_of(script))["outcome"] == "loaded"
    assert [str(found) for found in compare.compare(theirs, ours, BESIDE)] == []
    log = kafkalog.open_partition(ours / "t-0")
    assert [[s.base_offset, s.size] for s in log.segments] == result["segments"]
    assert log.log_start_offset == result["log_start_offset"]
    compared("operations of a log whose files are Kafka's byte for byte", player.operations)
