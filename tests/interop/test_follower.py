"""Leader epochs that we rebuilt decide where a real follower cuts its log."""

from __future__ import annotations

import base64
import random
import time
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog.codec.files.text import decode_leader_epochs
from testkit.judging import seam
from testkit.kafka.real_cluster import RealCluster

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from testkit.kafka.kafka_oracle import KafkaOracle

EPOCHS = "leader-epoch-checkpoint"
Json = dict[str, Any]


def records(count: int, seed: int) -> list[Json]:
    rng = random.Random(seed)
    return [{"partition": 0, "v": base64.b64encode(rng.randbytes(60)).decode()} for _ in range(count)]


def log_of(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((directory / "t-0").glob("*.log")))


@pytest.mark.interop
def test_a_follower_truncates_to_the_epochs_that_we_rebuilt(
    kafka_of: Callable[[str], KafkaOracle], tmp_path: Path, compared: Callable[[str, int], None]
) -> None:
    """The old leader holds records of its own; the new one's epochs, rebuilt from its log, say that they must go."""
    kafka_of("4.3.0")
    with RealCluster("4.3.0", tmp_path) as cluster:
        cluster.start()
        config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
        cluster[1].client("create", topic="t", partitions=1, replicas=2, config=config)
        first = cluster.await_partition("t", lambda found: len(found.isr) == 2)
        old, new = first.leader, next(each for each in first.replicas if each != first.leader)
        cluster[old].client("produce", topic="t", records=records(60, 1), producer={"acks": "all", "batch.size": 400})
        cluster[new].kill()
        cluster.await_partition("t", lambda found: tuple(found.isr) == (old,))
        cluster[old].client("produce", topic="t", records=records(40, 2), producer={"acks": "1", "batch.size": 400})
        cluster[old].kill()
        cluster[new].start()
        after = cluster.await_partition("t", lambda found: found.leader == new)
        assert after.leader_epoch > first.leader_epoch
        cluster[new].client("produce", topic="t", records=records(30, 3), producer={"acks": "1", "batch.size": 400})
        cluster[new].kill()

        directories = {node: cluster[node].log_dir for node in (old, new)}
        for directory in directories.values():
            (directory / "t-0" / EPOCHS).unlink()
            (directory / "recovery-point-offset-checkpoint").write_text("0\n0\n")
            seam.recover(directory, {})
        ends = {node: decode_leader_epochs((path / "t-0" / EPOCHS).read_bytes()) for node, path in directories.items()}
        assert ends[new][-1].start_offset == 60
        assert ends[old][-1].start_offset <= 60
        assert log_of(directories[old]) != log_of(directories[new])

        cluster[new].start()
        cluster.await_partition("t", lambda found: found.leader == new)
        cluster[old].start()
        cluster.await_partition("t", lambda found: set(found.isr) == {old, new})
        deadline = time.monotonic() + 30
        while log_of(directories[old]) != log_of(directories[new]):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert "Truncating" in cluster[old].output()
        seen = [record["value"] for record in cluster[new].records("t")["t-0"]["records"]]
        assert seen == [record["v"] for record in records(60, 1) + records(30, 3)]
        for node in (old, new):
            cluster[node].stop()
        kept = {node: decode_leader_epochs((path / "t-0" / EPOCHS).read_bytes()) for node, path in directories.items()}
        assert kept[old] == kept[new][: len(kept[old])], "a leader writes down its epoch before its first record"
        assert kept[old][-1] == ends[new][-1]
        compared("records of a follower's own that it cut at our leader epochs", 40)
