"""A merged log takes the place of a broker's own: a live cluster leads with it, and a follower fetches it."""

from __future__ import annotations

import base64
import random
import shutil
import time
from typing import TYPE_CHECKING

import pytest

from kafkalog import Merge, compare, merge_directories
from kafkalog.codec.model import BATCH
from kafkalog.codec.plain.scanner import scan
from kafkalog.log.directories.selection import Selection
from testkit.kafka.real_cluster import RealCluster

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from testkit.kafka.kafka_oracle import KafkaOracle


def records(count: int, seed: int) -> list[dict[str, object]]:
    rng = random.Random(seed)
    return [{"partition": 0, "v": base64.b64encode(rng.randbytes(60)).decode()} for _ in range(count)]


def log_of(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((directory / "t-0").glob("*.log")))


def flip(log: Path, number: int) -> None:
    """Break one batch."""
    data = bytearray(log.read_bytes())
    data[scan(bytes(data)).batches[number].position + BATCH.size + 2] ^= 0xFF
    log.write_bytes(data)


@pytest.mark.interop
def test_a_broker_leads_with_what_was_merged(
    kafka_of: Callable[[str], KafkaOracle], tmp_path: Path, compared: Callable[[str, int], None]
) -> None:
    """Both copies are damaged, each elsewhere: the merged one has everything, and the follower fetches it."""
    kafka_of("4.3.0")
    sent = records(200, 1)
    with RealCluster("4.3.0", tmp_path) as cluster:
        cluster.start()
        config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
        cluster[1].client("create", topic="t", partitions=1, replicas=2, config=config)
        first = cluster.await_partition("t", lambda found: len(found.isr) == 2)
        lead, follow = first.leader, next(each for each in first.replicas if each != first.leader)
        cluster[lead].client("produce", topic="t", records=sent, producer={"acks": "all", "batch.size": 400})
        cluster[follow].kill()
        cluster.await_partition("t", lambda found: tuple(found.isr) == (lead,))
        cluster[lead].kill()
        volumes = {node: cluster[node].log_dir for node in (lead, follow)}
        whole = log_of(volumes[lead])
        flip(next((volumes[lead] / "t-0").glob("*.log")), 2)
        flip(next((volumes[follow] / "t-0").glob("*.log")), 9)

        told = compare(*volumes.values(), select=Selection.of(["t"]))["t", 0]
        assert told.replica_state is not None
        assert told.replica_state.isr == (lead,)
        assert [copy.damage is not None for copy in told.copies] == [True, True]
        wanted = Selection.of(["t"])
        (result,) = merge_directories(Merge(select=wanted), *volumes.values(), target=tmp_path / "merged").partitions
        assert (result.gap_count, result.records_kept) == (0, len(sent))
        assert log_of(tmp_path / "merged") == whole
        shutil.rmtree(volumes[lead] / "t-0")
        shutil.rmtree(volumes[follow] / "t-0")
        shutil.copytree(tmp_path / "merged" / "t-0", volumes[lead] / "t-0")

        cluster[lead].start()
        cluster.await_partition("t", lambda found: found.leader == lead)
        seen = [record["value"] for record in cluster[lead].records("t")["t-0"]["records"]]
        assert seen == [record["v"] for record in sent]
        cluster[follow].start()
        cluster.await_partition("t", lambda found: set(found.isr) == {lead, follow})
        deadline = time.monotonic() + 30
        while log_of(volumes[follow]) != whole:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        for node in (follow, lead):
            cluster[node].stop()
        assert log_of(volumes[lead]) == whole
        assert compare(*volumes.values(), select=Selection.of(["t"])).is_clean
        compared("records that a live broker served from a merged log", len(seen))
