"""Logs that we write and that Kafka writes: the same operations leave the same bytes, and Kafka changes nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import compare
import histories
import scripted
from kafka_oracle import KafkaOracle

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
@pytest.mark.parametrize("version", ["4.1.0", "4.3.0"])
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
