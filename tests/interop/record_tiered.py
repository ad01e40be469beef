"""Record what two brokers with a remote tier leave on their disks: ``fixtures/tiered``, but `stopped` and `killed`.

    python tests/interop/record_tiered.py

from the top of the checkout, with ``tests/support`` on the path; then ``python3 fixtures/check.py --write``.

The story is told by ``fixtures/tiered/README.md``.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

from record_replicas import archive

from testkit.kafka.tiered_cluster import DENSE, MOST_LOCAL, TIERED, TieredCluster, pay, produce, quiet, states

VERSION = "4.3.0"
FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "tiered"
TOPICS = {
    "moved": MOST_LOCAL,
    "epochs": MOST_LOCAL,
    "payments": MOST_LOCAL,
    "both": {**TIERED, "local.retention.bytes": "-2"},
    "kept": MOST_LOCAL,
    "given-up": MOST_LOCAL,
    "plain": {},
}
COUNTS = {"plain": 60, "kept": 280, "given-up": 280}
COPY_STARTED = 0
Json = dict[str, Any]


def consumed(cluster: TieredCluster, through: int, topics: tuple[str, ...]) -> Json:
    wanted = dict.fromkeys(topics, 1)
    return {
        isolation: cluster[through].client("consume", topics=wanted, isolation=isolation)["partitions"]
        for isolation in ("read_uncommitted", "read_committed")
    }


def save(
    cluster: TieredCluster,
    name: str,
    nodes: tuple[int, ...],
    read: Json,
    note: str,
    beside: dict[str, Path] | None = None,
) -> None:
    target = FOLDER / name
    shutil.rmtree(target, ignore_errors=True)
    (target / "expected").mkdir(parents=True)
    for isolation, partitions in read.items():
        with gzip.GzipFile(target / "expected" / f"{isolation}.jsonl.gz", "wb", mtime=0) as lines:
            for partition, found in partitions.items():
                topic, _, number = partition.rpartition("-")
                for record in found["records"]:
                    del record["leader_epoch"]
                    kind = {"CreateTime": 0, "LogAppendTime": 1}[record["timestamp_type"]]
                    row = {"topic": topic, "partition": int(number), **record, "timestamp_type": kind}
                    lines.write(json.dumps(row, separators=(",", ":")).encode() + b"\n")
    volumes = {"broker" if nodes == (1,) else f"broker-{node}": cluster[node].log_dir for node in nodes}
    archive(target / "data.tar.gz", {**volumes, **(beside or {"remote": cluster.remote})}, left_out=(".lock",))
    case = {
        "note": note,
        "kafka": VERSION,
        "partitions": {name: [each["start"], each["end"]] for name, each in read["read_uncommitted"].items()},
        "local": {
            directory: {
                path.name: sorted(int(log.stem) for log in path.glob("*.log"))
                for path in sorted(volume.iterdir())
                if path.is_dir() and path.name in read["read_uncommitted"]
            }
            for directory, volume in volumes.items()
        },
        "states": states(list(volumes.values())),
    }
    (target / "case.json").write_text(json.dumps(case, indent=1) + "\n")
    print(name, (target / "data.tar.gz").stat().st_size, "bytes", case["local"])


def story(cluster: TieredCluster) -> None:
    cluster.start()
    for topic, config in TOPICS.items():
        cluster[1].client("create", topic=topic, partitions=1, replicas=2, config={**DENSE, **config})
    cluster.await_partition("plain", lambda found: len(found.isr) == 2)
    for number, topic in enumerate(TOPICS):
        if topic != "payments":
            produce(cluster, topic, COUNTS.get(topic, 140), number)
    pay(cluster, 14, 50)
    quiet(cluster, (1, 2))
    # each broker once stopped, so that leadership moves and leader epochs change
    for node, other in ((1, 2), (2, 1)):
        cluster[node].stop()
        cluster.await_partition("epochs", lambda found, other=other: found.leader == other)  # type: ignore[misc]
        produce(cluster, "epochs", 60, 20 + node, through=other)
        cluster[node].start()
        cluster.await_partition("epochs", lambda found: len(found.isr) == 2)
    pay(cluster, 6, 90)
    quiet(cluster, (1, 2))
    cluster[1].client("delete_records", topic="moved", before=50)
    all_local = {"local.retention.bytes": "-2", "local.retention.ms": "-2"}  # Kafka asks for it
    cluster[1].client("alter", topic="kept", config={**all_local, "remote.log.copy.disable": "true"})
    cluster[1].client(
        "alter", topic="given-up", config={"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}
    )
    quiet(cluster, (1, 2), 12)
    produce(cluster, "kept", 60, 30)
    produce(cluster, "given-up", 60, 31)
    quiet(cluster, (1, 2))
    topics = tuple(TOPICS)
    read = consumed(cluster, 1, topics)
    cluster[2].stop()
    cluster[1].stop()
    save(cluster, "pair", (1, 2), read, "both stopped in order, the second one first")

    cluster[1].start()
    shutil.rmtree(cluster[2].log_dir)
    cluster[2].start()
    cluster.await_partition("moved", lambda found: len(found.isr) == 2)
    quiet(cluster, (1, 2), 12)
    read = consumed(cluster, 1, topics)
    cluster[2].stop()
    cluster[1].kill()
    save(cluster, "returned", (1, 2), read, "the second broker came back with an empty disk; the first was killed")
    cluster[1].start()
    cluster[2].start()
    cluster.await_partition("both", lambda found: len(found.isr) == 2)
    cut_short(cluster)


def cut_short(cluster: TieredCluster) -> None:
    """Kill the leader while it copies a segment: stop it where it stands, look, and go on if it was not yet so far."""
    for attempt in range(60):
        quiet(cluster, (1, 2), 3)
        before = read_of(cluster)
        known = states([cluster[1].log_dir, cluster[2].log_dir])
        leader = cluster.await_partition("both", lambda found: found.leader > 0).leader
        there = {path.name for path in cluster.remote.rglob("*")}
        produce(cluster, "both", 40, 1000 + attempt, through=leader)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and {path.name for path in cluster.remote.rglob("*")} == there:
            pass
        os.kill(cluster[leader].process_id, signal.SIGSTOP)
        now = states([cluster[leader].log_dir])
        begun = [each for each, state in now.items() if state == COPY_STARTED and each not in known]
        print("attempt", attempt, "begun", len(begun))
        if begun:
            cluster[leader].kill()
            other = 3 - leader
            cluster.await_partition("both", lambda found, other=other: found.leader == other)  # type: ignore[misc]
            cluster[other].kill()
            note = "killed while it copied a segment; read before the last append"
            save(cluster, "cut-short", (leader,), before, note)
            return
        os.kill(cluster[leader].process_id, signal.SIGCONT)
    raise AssertionError("no copy was caught")


def read_of(cluster: TieredCluster) -> Json:
    return consumed(cluster, 1, ("both", "moved"))


def main() -> None:
    settings = {"transaction.state.log.num.partitions": 1, "replica.high.watermark.checkpoint.interval.ms": 500}
    with tempfile.TemporaryDirectory() as work, TieredCluster(VERSION, Path(work), **settings) as cluster:
        story(cluster)


if __name__ == "__main__":
    main()
