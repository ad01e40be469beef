"""The ISRs of a cluster: which ZooKeeper directory they come from if several were given."""

from __future__ import annotations

from pathlib import Path

from kafkalog.copies.cluster_memory import read_cluster_memory
from kafkalog.log.directories.partition import open_partition
from testkit.made.zookeeper_log import write_log

STATE = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":3,"isr":[1,2]}'


def nodes(chroot: str) -> list[tuple[str, bytes]]:
    partition = "/brokers/topics/t/partitions/0"
    below = ("/brokers", "/brokers/topics", "/brokers/topics/t", "/brokers/topics/t/partitions", partition)
    root = [(chroot, b"")] if chroot else []
    return [*root, *((chroot + path, b"") for path in below), (f"{chroot}{partition}/state", STATE)]


def test_a_directory_of_several_clusters_is_left_for_the_next(tmp_path: Path) -> None:
    several = str(write_log(tmp_path / "several", [*nodes("/a"), *nodes("/b")]))
    one = str(write_log(tmp_path / "one", nodes("")))
    memory = read_cluster_memory((), [several, one])
    state = memory.replica_state("t", 0)
    assert state is not None
    assert (state.isr, state.leader_epoch, memory.problem) == ((1, 2), 3, None)


def test_every_reason_is_told_if_nothing_is_known(tmp_path: Path) -> None:
    several = str(write_log(tmp_path / "several", [*nodes("/a"), *nodes("/b")]))
    nothing = str(tmp_path / "nothing")
    memory = read_cluster_memory((), [nothing, several])
    assert memory.source is None
    assert f"{nothing} cannot be read" in (memory.problem or "")
    assert f"{several} holds 2 Kafka clusters" in (memory.problem or "")


def test_damage_of_the_first_batch_of_a_metadata_log_is_told(tmp_path: Path) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    batch = bytes(8) + (88).to_bytes(4, "big") + bytes(4) + b"\2" + bytes(82) + b"\1"  # its CRC is wrong
    (directory / f"{0:020d}.log").write_bytes(batch)
    memory = read_cluster_memory([open_partition(directory)], [])
    assert memory.source is None
    assert f"{directory} is damaged" in (memory.problem or "")
