"""Record what is on the disks of three controllers and a broker when all of them are killed: ``fixtures/quorum``.

    python tests/interop/record_quorum.py [VERSION]

from the top of the checkout, with ``tests/support`` on the path; then ``python3 fixtures/check.py --write``.

The story is told by ``fixtures/quorum/README.md``.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from record_replicas import archive

from testkit.kafka import kafka_jars
from testkit.kafka.kafka_oracle import Json
from testkit.kafka.real_quorum import ALWAYS_SNAPSHOTS, RealQuorum

VERSIONS = ("4.3.0", "4.4.0")
FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "quorum"
CONTROLLERS, BROKER = (1, 2, 3), 11
OLD_LOG_SECONDS = 80


def records(count: int) -> list[Json]:
    return [{"partition": 0, "k": "aw==", "v": base64.b64encode(b"value %d" % each).decode()} for each in range(count)]


def story(quorum: RealQuorum) -> Json:
    """A topic that all know; one controller falls behind; another topic; then the power goes."""
    quorum.start(*CONTROLLERS, BROKER)
    quorum.client("create", topic="orders", partitions=2, replicas=1, config={"retention.ms": "3600000"})
    quorum.ask("grant", user="alice", topic="orders")
    quorum.client("produce", topic="orders", records=records(20))
    quorum.ask("commit", group="billing", topic="orders", partition=0, offset=7)
    leader = quorum.ask("describe")["leader"]
    behind = max(each for each in CONTROLLERS if each != leader)
    quorum.kill(behind)
    quorum.client("create", topic="later", partitions=1, replicas=1, config={})
    quorum.client("produce", topic="later", records=records(5))
    facts = quorum.ask("facts")
    described = quorum.ask("describe")
    quorum.kill()
    return {"leader": leader, "behind": behind, "facts": facts, "described": described, "cluster_id": quorum.cluster_id}


def with_snapshots(quorum: RealQuorum) -> Json:
    """Until the old log is gone, and the snapshots are all there is of it."""
    quorum.start(*CONTROLLERS, BROKER)
    deadline = time.monotonic() + OLD_LOG_SECONDS
    number = 0
    while time.monotonic() < deadline:
        quorum.client("create", topic=f"topic-{number}", partitions=1, replicas=1, config={})
        number += 1
        time.sleep(4)
    facts = quorum.ask("facts")
    described = quorum.ask("describe")
    quorum.kill()
    return {"facts": facts, "described": described, "cluster_id": quorum.cluster_id}


def dumped(version: str, log: Path) -> str:
    """What Kafka's own tool reads in a metadata log."""
    arguments = ["--cluster-metadata-decoder", "--skip-record-metadata", "--files", str(log)]
    tools = kafka_jars.versions()[version].tools
    command = kafka_jars.java(tools, "org.apache.kafka.tools.DumpLogSegments", *arguments, heap="200m")
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def record(version: str, name: str, *, static: bool = False, snapshots: bool = False) -> None:
    settings = {**ALWAYS_SNAPSHOTS} if snapshots else {}
    options: Json = {"controllers": CONTROLLERS, "brokers": (BROKER,), "static": static, "settings": settings}
    with (
        tempfile.TemporaryDirectory() as place,
        RealQuorum(version, Path(place), **options) as q,
    ):
        told = with_snapshots(q) if snapshots else story(q)
        nodes = {f"node-{node}": q[node] for node in (*CONTROLLERS, BROKER)}
        target = FOLDER / f"kafka-{version}" / name
        target.mkdir(parents=True, exist_ok=True)
        archive(target / "data.tar.gz", nodes)
        told["dump"] = {
            node: {log.name: dumped(version, log) for log in sorted((path / "__cluster_metadata-0").glob("*.log"))}
            for node, path in nodes.items()
        }
        (target / "expected.json").write_text(json.dumps(told, indent=1, sort_keys=True) + "\n")
        print(name, (target / "data.tar.gz").stat().st_size, flush=True)


if __name__ == "__main__":
    for each in sys.argv[1:] or VERSIONS:
        record(each, "dynamic")
        record(each, "static", static=True)
        record(each, "snapshots", snapshots=True)
