"""Record the volumes of three brokers that went apart, and what became of them: ``fixtures/replicas``.

    python tests/interop/record_replicas.py [VERSION]

from the top of the checkout, with ``tests/support`` on the path; then ``python3 fixtures/check.py --write``.

The story is told by ``fixtures/replicas/README.md``.
"""

from __future__ import annotations

import base64
import io
import json
import random
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkalog.cluster.kraft.metadata_image import PartitionImage
from testkit.kafka.real_cluster import CONTROLLER, RealCluster

if TYPE_CHECKING:
    from collections.abc import Callable

VERSIONS = ("4.3.0", "4.4.0")
BROKERS = (1, 2, 3)
FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "replicas"
DENSE = {"internal.segment.bytes": 4096, "index.interval.bytes": 256, "segment.index.bytes": 8192}
UNCLEAN = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
LEFT_OUT = (".lock", ".kafka_cleanshutdown")
Json = dict[str, Any]


def records(count: int, seed: int, keys: int = 0) -> list[Json]:
    """Values that do not compress; with some keys that come again and again, or without any."""
    rng = random.Random(seed)
    found: list[Json] = []
    for _ in range(count):
        record: Json = {"partition": 0, "v": base64.b64encode(rng.randbytes(60)).decode()}
        if keys:
            record["k"] = base64.b64encode(f"key-{rng.randrange(keys)}".encode()).decode()
        found.append(record)
    return found


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for it."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def log_of(partition: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(partition.glob("*.log")))


def archive(
    target: Path, directories: dict[str, Path], only: str = "", left_out: tuple[str, ...] = LEFT_OUT
) -> None:
    """Some directories as one archive; of their partitions those that begin with `only`."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", format=tarfile.PAX_FORMAT, compresslevel=9) as tar:
        for name, directory in directories.items():
            for path in sorted(directory.rglob("*")):
                relative = path.relative_to(directory)
                if path.name in left_out or (only and not relative.parts[0].startswith(only)):
                    continue
                member = tar.gettarinfo(str(path), f"{name}/{relative.as_posix()}")
                member.uid = member.gid = 0
                member.uname = member.gname = ""
                with path.open("rb") if path.is_file() else io.BytesIO() as content:
                    tar.addfile(member, content if path.is_file() else None)
    target.write_bytes(packed.getvalue())


def quiet(cluster: RealCluster, nodes: tuple[int, ...], topic: str) -> None:
    """Wait until cleaners have nothing more to do on these brokers, and high watermarks are on disk."""
    seen: list[tuple[str, int]] = []
    while True:
        now = [
            (path.name, path.stat().st_size)
            for node in nodes
            for path in sorted((cluster[node].log_dir / f"{topic}-0").glob("*.log"))
        ]
        if now == seen:
            return
        seen = now
        time.sleep(2)


def story(cluster: RealCluster) -> Json:
    """Drive the brokers apart; who has which part is decided by the controller's first choice of a leader."""
    cluster.start()
    first = cluster[1]
    first.client("create", topic="equal", partitions=1, replicas=3, config=DENSE)
    first.client("create", topic="tale", partitions=1, replicas=3, config={**DENSE, **UNCLEAN})
    cleaned = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "min.insync.replicas": "1"}
    first.client("create", topic="cleaned", partitions=1, replicas=3, config={**DENSE, **UNCLEAN, **cleaned})
    first.client("create", topic="alone", partitions=1, replicas=1, config=DENSE)
    tale = cluster.await_partition("tale", lambda found: len(found.isr) == 3)
    for topic in ("equal", "cleaned"):
        cluster.await_partition(topic, lambda found: len(found.isr) == 3)
    old = tale.leader
    new, behind = (node for node in BROKERS if node != old)

    def produce(topic: str, through: int, what: list[Json], acks: str = "all") -> None:
        cluster[through].client("produce", topic=topic, records=what, producer={"acks": acks, "batch.size": 400})

    produce("equal", old, records(80, 1))
    produce("alone", old, records(20, 2))
    produce("tale", old, records(60, 3))
    produce("cleaned", old, records(150, 4, keys=40))
    quiet(cluster, BROKERS, "cleaned")
    cluster[behind].kill()
    cluster.await_partition("tale", lambda found: set(found.isr) == {old, new})
    cluster.await_partition("cleaned", lambda found: set(found.isr) == {old, new})
    produce("tale", old, records(30, 5))
    produce("cleaned", old, records(150, 6, keys=40))
    quiet(cluster, (old, new), "cleaned")
    cluster[new].kill()
    cluster.await_partition("tale", lambda found: tuple(found.isr) == (old,))
    produce("tale", old, records(40, 7), acks="1")
    time.sleep(2)
    cluster[old].kill()
    cluster[new].start()
    elected: PartitionImage = cluster.await_partition("tale", lambda found: found.leader == new)
    assert elected.leader_epoch > tale.leader_epoch
    produce("tale", new, records(30, 8), acks="1")
    time.sleep(2)
    cluster[new].kill()
    return {"old_leader": old, "new_leader": new, "behind": behind}


def aftermath(cluster: RealCluster, roles: Json) -> None:
    """Start all again, the new leader first, and let the others fetch."""
    new = roles["new_leader"]
    cluster[new].start()
    cluster.await_partition("tale", lambda found: found.leader == new)
    for node in BROKERS:
        if node != new:
            cluster[node].start()
    cluster.await_partition("tale", lambda found: set(found.isr) == set(BROKERS))
    until(lambda: len({log_of(cluster[node].log_dir / "tale-0") for node in BROKERS}) == 1)
    assert "Truncating" in cluster[roles["old_leader"]].output()
    for node in (roles["old_leader"], roles["behind"], new):
        cluster[node].stop()


def record(version: str) -> None:
    target = FOLDER / f"kafka-{version}"
    target.mkdir(parents=True, exist_ok=True)
    settings = {"replica.high.watermark.checkpoint.interval.ms": 500}
    with tempfile.TemporaryDirectory() as work, RealCluster(version, Path(work), BROKERS, **settings) as cluster:
        roles = story(cluster)
        volumes = {f"broker-{node}": cluster[node].log_dir for node in BROKERS}
        archive(target / "before.tar.gz", {**volumes, "controller": cluster[CONTROLLER].log_dir})
        aftermath(cluster, roles)
        archive(target / "after.tar.gz", volumes, only="tale-")
    case = {"kafka": version, "mode": "kraft", "brokers": list(BROKERS), "controller": CONTROLLER, **roles}
    (target / "case.json").write_text(json.dumps(case, indent=1) + "\n")


if __name__ == "__main__":
    for each in sys.argv[1:] or VERSIONS:
        record(each)
