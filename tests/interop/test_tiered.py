"""A real broker with a remote tier, started on what was brought back, serves every record and copies nothing again."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog.jobs.restore.events import RemoteMetadataRebuild, rebuild_remote_metadata
from kafkalog.jobs.restore.remote_logs import RemoteLogs
from kafkalog.recovery.facts.recovery_request import Recovery
from kafkalog.recovery.facts.topic_facts import read_topic_facts
from kafkalog.recovery.modes.table import Mode
from kafkalog.recovery.run import recover, recover_into
from kafkalog.tiers.remote_tier import RemoteTier
from testkit.judging.trees import stamps
from testkit.kafka import kafka_jars
from testkit.kafka.kafka_needed import kafka_needed
from testkit.kafka.tiered_cluster import DENSE, MOST_LOCAL, TieredCluster, pay, produce, quiet, states

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
        whole_logs(cluster, tmp_path)


def whole_logs(cluster: TieredCluster, work: Path) -> None:
    before = filled(cluster)
    cluster[1].stop()
    log_dir = cluster[1].log_dir
    known = states([log_dir])
    assert min(int(path.stem) for path in (log_dir / "orders-0").glob("*.log")) > 0
    done = recover_into(Recovery(remote_logs=RemoteLogs(cluster.tier())), log_dir, target=work / "made")
    assert done.changed
    assert (work / "made" / "orders-0" / f"{0:020}.log").is_file()
    in_place(work / "made", log_dir)
    serves_all_and_copies_nothing_again(cluster, before, known)


def gone(log_dir: Path, topic: str) -> None:
    """The whole directory, as with a lost disk."""
    shutil.rmtree(log_dir / f"{topic}-0")


def zeroed(log_dir: Path, topic: str) -> None:
    for path in (log_dir / f"{topic}-0").glob("*.log"):
        path.write_bytes(bytes(path.stat().st_size))


def without_its_end(log_dir: Path, topic: str) -> None:
    """Each segment but a first one that is remote too, and that is cut in its middle."""
    first, *others = sorted((log_dir / f"{topic}-0").glob("*.log"))
    for path in others:
        for each in path.parent.glob(f"{path.stem}.*"):
            each.unlink()
    first.write_bytes(first.read_bytes()[: first.stat().st_size // 2])


def into_a_copy(log_dir: Path, tier: RemoteTier, made: Path) -> None:
    recover_into(Recovery(remote_logs=RemoteLogs(tier, keep_remote=True)), log_dir, target=made)
    in_place(made, log_dir)


def where_it_is(log_dir: Path, tier: RemoteTier, _made: Path) -> None:
    """Undone once before: undo leaves what a run can do again."""
    request = Recovery(mode=Mode.REMOTE, remote_logs=RemoteLogs(tier))
    before = stamps(log_dir)
    assert recover(request, log_dir)[0].changed
    kafkalog.undo(log_dir)
    assert stamps(log_dir) == before
    assert recover(request, log_dir)[0].changed


@pytest.mark.parametrize(("lose", "bring_back"), [
    (gone, into_a_copy), (gone, where_it_is), (zeroed, where_it_is), (without_its_end, where_it_is),
])  # fmt: skip
def test_logs_that_are_lost_begin_after_their_remote_part(
    lose: Callable[[Path, str], None], bring_back: Callable[[Path, RemoteTier, Path], None], tmp_path: Path
) -> None:
    """All that was copied is served, from the remote tier; what was not was lost with the disk."""
    with started(tmp_path) as cluster:
        goes_on_after_its_remote_part(cluster, lose, bring_back, tmp_path / "made")


def goes_on_after_its_remote_part(
    cluster: TieredCluster,
    lose: Callable[[Path, str], None],
    bring_back: Callable[[Path, RemoteTier, Path], None],
    made: Path,
) -> None:
    before = filled(cluster)
    cluster[1].stop()
    log_dir = cluster[1].log_dir
    ends = {topic: max(int(path.stem) for path in (log_dir / f"{topic}-0").glob("*.log")) for topic in TOPICS}
    for topic in TOPICS:
        lose(log_dir, topic)
    known = states([log_dir])
    objects = {path: path.stat().st_size for path in cluster.remote.rglob("*.log")}
    bring_back(log_dir, cluster.tier(), made)
    for topic, end in ends.items():
        assert [path.name for path in (log_dir / f"{topic}-0").glob("*.log")] == [f"{end:020}.log"]
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
        assert kafkalog.recover(kafkalog.Recovery(mode="remote"), log_dir)[0].changed
        assert not hurt.exists()
        serves_all_and_copies_nothing_again(cluster, before, known)


def test_events_rebuilt_from_the_objects(tmp_path: Path) -> None:
    with started(tmp_path) as cluster:
        events_rebuilt(cluster, tmp_path)


def events_rebuilt(cluster: TieredCluster, work: Path) -> None:
    before = filled(cluster)
    cluster[1].stop()
    log_dir = cluster[1].log_dir
    topic_id = read_topic_facts([str(log_dir)]).topic_ids[EVENTS]
    for path in log_dir.glob(f"{EVENTS}-*"):
        shutil.rmtree(path)
    request = RemoteMetadataRebuild(partitions=2, topic_id=topic_id, broker_id=1)
    rebuild_remote_metadata(request, cluster.tier(), target=work / "events")
    for path in (work / "events").glob(f"{EVENTS}-*"):
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
        kafkalog.recover(kafkalog.Recovery(mode="kafka"), tmp_path / "copy")
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
