"""A real broker with a remote tier, started on what was brought back, serves every record and copies nothing again."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest

import kafka_jars
import kafkalog
from kafka_needed import kafka_needed
from kafkalog.recovery.facts.topic_facts import read_topic_facts
from kafkalog.recovery.restoring.events import rebuild_remote_metadata
from kafkalog.recovery.run import RecoveryOptions, recover_into
from kafkalog.tiers.layouts import open_tier
from tiered_cluster import DENSE, MOST_LOCAL, TieredCluster, pay, produce, quiet, states
from trees import stamps

pytestmark = pytest.mark.interop
TOPICS = ("orders", "payments")
EVENTS = "__remote_log_metadata"


def started(tmp_path: Path) -> TieredCluster:
    with kafka_needed():
        kafka_jars.setup("4.3.0")
        return TieredCluster("4.3.0", tmp_path, (1,), **{"transaction.state.log.num.partitions": 1})


def filled(cluster: TieredCluster) -> dict[str, Any]:
    """Two topics, most of which is remote; what a consumer reads of them."""
    cluster.start()
    for topic in TOPICS:
        cluster[1].client("create", topic=topic, partitions=1, replicas=1, config={**DENSE, **MOST_LOCAL})
    produce(cluster, "orders", 300, 1)
    pay(cluster, 14, 50)
    quiet(cluster, (1,))
    return read(cluster)


def read(cluster: TieredCluster) -> dict[str, Any]:
    return {
        isolation: cluster[1].client("consume", topics=dict.fromkeys(TOPICS, 1), isolation=isolation)["partitions"]
        for isolation in ("read_uncommitted", "read_committed")
    }


def serves_all_and_copies_nothing_again(cluster: TieredCluster, before: dict[str, Any], known: dict[str, int]) -> None:
    objects = {path: path.stat().st_size for path in cluster.remote.rglob("*.log")}
    cluster[1].start()
    assert read(cluster) == before
    quiet(cluster, (1,), 4)
    produce(cluster, "orders", 3, 2)
    assert read(cluster)["read_uncommitted"]["orders-0"]["start"] == before["read_uncommitted"]["orders-0"]["start"]
    assert {path: path.stat().st_size for path in cluster.remote.rglob("*.log")} == objects
    assert states([cluster[1].log_dir]) == known


def in_place(made: Path, log_dir: Path) -> None:
    shutil.move(log_dir, log_dir.with_name("before"))
    shutil.move(made, log_dir)


def test_whole_logs_from_the_remote_tier(tmp_path: Path) -> None:
    with started(tmp_path) as cluster:
        before = filled(cluster)
        cluster[1].stop()
        log_dir = cluster[1].log_dir
        known = states([log_dir])
        assert min(int(path.stem) for path in (log_dir / "orders-0").glob("*.log")) > 0
        done = recover_into(log_dir, tmp_path / "made", RecoveryOptions(), tier=open_tier(str(cluster.remote)))
        assert done.changed
        assert (tmp_path / "made" / "orders-0" / f"{0:020}.log").is_file()
        in_place(tmp_path / "made", log_dir)
        serves_all_and_copies_nothing_again(cluster, before, known)


def test_logs_that_are_gone_begin_after_their_remote_part(tmp_path: Path) -> None:
    """All that was copied is served, from the remote tier; what was not was lost with the disk."""
    with started(tmp_path) as cluster:
        before = filled(cluster)
        cluster[1].stop()
        log_dir = cluster[1].log_dir
        ends = {topic: max(int(path.stem) for path in (log_dir / f"{topic}-0").glob("*.log")) for topic in TOPICS}
        for topic in TOPICS:
            shutil.rmtree(log_dir / f"{topic}-0")
        known = states([log_dir])
        objects = {path: path.stat().st_size for path in cluster.remote.rglob("*.log")}
        recover_into(
            log_dir, tmp_path / "made", RecoveryOptions(), tier=open_tier(str(cluster.remote)), keep_remote=True
        )
        in_place(tmp_path / "made", log_dir)
        cluster[1].start()
        after = read(cluster)
        for isolation, partitions in before.items():
            for topic, end in ends.items():
                wanted = [each for each in partitions[f"{topic}-0"]["records"] if each["offset"] < end]
                assert after[isolation][f"{topic}-0"]["records"] == wanted
                assert after[isolation][f"{topic}-0"]["start"] == partitions[f"{topic}-0"]["start"]
        quiet(cluster, (1,), 4)
        assert {path: path.stat().st_size for path in cluster.remote.rglob("*.log")} == objects
        assert states([cluster[1].log_dir]) == known
        produce(cluster, "orders", 3, 2)
        assert len(read(cluster)["read_uncommitted"]["orders-0"]["records"]) == ends["orders"] + 3


def test_damaged_local_segments_left_to_the_remote_tier(tmp_path: Path) -> None:
    with started(tmp_path) as cluster:
        before = filled(cluster)
        cluster[1].stop()
        log_dir = cluster[1].log_dir
        known = states([log_dir])
        hurt = min((log_dir / "orders-0").glob("*.log"))
        data = bytearray(hurt.read_bytes())
        data[len(data) // 2] ^= 1
        hurt.write_bytes(data)
        assert kafkalog.recover(log_dir, mode="remote").changed
        assert not hurt.exists()
        serves_all_and_copies_nothing_again(cluster, before, known)


def test_events_rebuilt_from_the_objects(tmp_path: Path) -> None:
    with started(tmp_path) as cluster:
        before = filled(cluster)
        cluster[1].stop()
        log_dir = cluster[1].log_dir
        topic_id = read_topic_facts([str(log_dir)]).topic_ids[EVENTS]
        for path in log_dir.glob(f"{EVENTS}-*"):
            shutil.rmtree(path)
        rebuild_remote_metadata(
            open_tier(str(cluster.remote)), tmp_path / "events", partitions=2, topic_id=topic_id, broker_id=1
        )
        for path in (tmp_path / "events").glob(f"{EVENTS}-*"):
            shutil.move(path, log_dir / path.name)
        serves_all_and_copies_nothing_again(cluster, before, states([log_dir]))


def test_the_model_of_a_start_leaves_what_the_broker_leaves(tmp_path: Path) -> None:
    """After a kill: mode kafka on a copy, and the broker's own start; both leave the same logs and snapshots.

    Its start begins a leader epoch, which no recovery does.
    """
    with started(tmp_path) as cluster:
        filled(cluster)
        produce(cluster, "orders", 60, 3)
        time.sleep(2)
        cluster[1].kill()
        log_dir = cluster[1].log_dir
        shutil.copytree(log_dir, tmp_path / "copy")
        kafkalog.recover(tmp_path / "copy", mode="kafka")
        frozen = {"remote.log.manager.task.interval.ms": 600_000, "log.retention.check.interval.ms": 600_000,
                  "log.initial.task.delay.ms": 600_000}  # fmt: skip
        cluster[1].configure(frozen)
        cluster[1].start()
        cluster[1].stop()
        for topic in TOPICS:
            ours, theirs = (
                {name: held[:1] for name, held in stamps(root / f"{topic}-0").items()
                 if name.endswith((".log", ".snapshot", ".index", ".timeindex"))}
                for root in (tmp_path / "copy", log_dir)
            )  # fmt: skip
            assert set(ours) == set(theirs)
            for name in ours:
                if name.endswith(".log"):
                    assert (tmp_path / "copy" / f"{topic}-0" / name).read_bytes() == (
                        log_dir / f"{topic}-0" / name
                    ).read_bytes()
