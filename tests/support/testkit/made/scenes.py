"""What the pages of the runbook start from: directories as an operator finds them, made from recorded ones."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import kafkalog
from testkit.made import damage
from testkit.made.lost_markers import without_a_trace
from testkit.made.voters import directory_id_changed
from testkit.recorded.broker_dirs import brokers, own_copy, unpacked
from testkit.recorded.fixture_data import unpack_replicas, unpack_tiered, unpack_values
from testkit.recorded.quorums import copied, tear

__all__ = ["SCENES", "metadata_elsewhere"]

_DELETED = "0123456789abcdef0123456789abcdef"


def _last_log(partition: Path) -> Path:
    return max(partition.glob("*.log"), key=lambda path: int(path.stem))


def _killed(directory: Path) -> Path:
    return own_copy(brokers("4.1.1/crash")[0], directory / "data")


def _stopped(directory: Path) -> Path:
    return own_copy(brokers("4.1.1/segments")[0], directory / "data")


def stopped(directory: Path) -> None:
    """A broker's directory in which nothing is wrong."""
    _stopped(directory)


def power_loss(directory: Path) -> None:
    """The last batch of one log is cut short, another ends in zeros, and an epoch checkpoint is empty."""
    data = _killed(directory)
    torn = _last_log(data / "metrics-22-0")
    with torn.open("r+b") as file:
        file.truncate(torn.stat().st_size - 100)
    with _last_log(data / "parcels-40-3").open("ab") as file:
        file.write(bytes(4096))
    (data / "parcels-40-5" / "leader-epoch-checkpoint").write_bytes(b"")


def full_disk(directory: Path) -> None:
    """A write that did not fit, and nothing left for the checkpoint that was being replaced."""
    data = _killed(directory)
    torn = _last_log(data / "metrics-21-0")
    with torn.open("r+b") as file:
        file.truncate(torn.stat().st_size - 30)
    (data / "replication-offset-checkpoint.tmp").write_bytes(b"0\n1")
    (directory / "other-disk").mkdir()


def failing_disk(directory: Path) -> None:
    """A copy of the disk in which a sector that could not be read is zeros."""
    data = _killed(directory)
    log = _last_log(data / "metrics-22-0")
    with log.open("r+b") as file:
        file.seek(4096)
        file.write(bytes(512))
    data.rename(directory / "copy")


def _two_disks(directory: Path) -> tuple[Path, Path]:
    """A broker's partitions in one log directory and its metadata log in another, as with `metadata.log.dir`."""
    data = _stopped(directory)
    return data, metadata_elsewhere(data, directory / "data-2")


def metadata_elsewhere(data: Path, other: Path) -> Path:
    """Move the metadata log of a directory into `other`, a log directory of the same broker with an id of its own."""
    own_copy(data, other)
    shutil.rmtree(data / "__cluster_metadata-0")
    for each in other.iterdir():
        if each.is_dir() and each.name != "__cluster_metadata-0":
            shutil.rmtree(each)
        elif each.name.endswith("-checkpoint"):
            each.write_text("0\n0\n")
    directory_id_changed(other, "AAAAAAAAAAAAAAAAAAAAZg")
    return other


def meta_properties(directory: Path) -> None:
    """A crash has left the file of one of two disks full of zeros."""
    data, _other = _two_disks(directory)
    (data / "meta.properties").write_bytes(bytes(120))


def lost_directory(directory: Path) -> None:
    """The disk with the partitions is not mounted: its mount point is empty."""
    data, other = _two_disks(directory)
    data.rename(directory / "disk")
    (directory / "data").mkdir()
    other.rename(directory / "metadata")
    lines = ("log.dirs=data,metadata", "metadata.log.dir=metadata", "log.retention.ms=-1")
    (directory / "server.properties").write_text("\n".join([*lines, ""]))


def duplicated_partition(directory: Path) -> None:
    """Somebody has copied a partition to the broker's other disk, and the broker went on in the first."""
    data, other = _two_disks(directory)
    partition = max((each for each in data.iterdir() if each.is_dir()), key=lambda each: len(list(each.glob("*.log"))))
    copy = own_copy(partition, other / partition.name)
    last = _last_log(copy)
    for each in copy.glob(f"{last.stem}.*"):
        each.unlink()


def wrong_owner(directory: Path) -> None:
    """Somebody has restored a partition as root."""
    data = _stopped(directory)
    for path in (data, *data.rglob("*")):
        user = 0 if "sessions-20-1" in path.parts else 1234
        os.chown(path, user, user)


def lost_and_found(directory: Path) -> None:
    """A file system's repair has put a segment into lost+found; the indexes beside it are gone."""
    data = _stopped(directory)
    partition = max((each for each in data.iterdir() if each.is_dir()), key=lambda each: len(list(each.glob("*.log"))))
    log = sorted(partition.glob("*.log"))[1]
    (data / "lost+found").mkdir()
    log.rename(data / "lost+found" / "#131078")
    for each in partition.glob(f"{log.stem}.*"):
        each.unlink()


def poison_record(directory: Path) -> None:
    """A producer has written a batch that no consumer can decode; its checksum is right."""
    data = _killed(directory)
    log = _last_log(data / "metrics-22-0")
    batch = list(kafkalog.open_segment(log).batches())[3]
    whole = bytearray(log.read_bytes())
    end = batch.position + batch.size
    broken = damage.with_crc(bytes(whole[batch.position : end - 40]) + b"\xff" * 40)
    whole[batch.position : end] = broken
    log.write_bytes(whole)


def retention_mistake(directory: Path) -> None:
    """Somebody has shortened a topic's retention; the broker was stopped before it removed the segments."""
    _deleted_segments(_stopped(directory), 3, into_next=0)


def deleted_records(directory: Path) -> None:
    """Somebody has deleted the records before an offset in the third segment, and the broker was stopped at once."""
    _deleted_segments(_stopped(directory), 2, into_next=1)


def _deleted_segments(data: Path, count: int, *, into_next: int) -> None:
    """Name the first segments of a log as a broker does that deletes them; the log start is in the segment after."""
    shutil.rmtree(data / "__cluster_metadata-0")
    partition = data / "stock-41-0"
    logs = sorted(partition.glob("*.log"))
    for log in logs[:count]:
        for each in partition.glob(f"{log.stem}.*"):
            each.rename(partition / f"{each.name}.deleted")
    checkpoint = data / "log-start-offset-checkpoint"
    others = [line for line in checkpoint.read_text().splitlines()[2:] if not line.startswith("stock-41 ")]
    starts = [*others, f"stock-41 0 {int(logs[count].stem) + into_next}"]
    checkpoint.write_text("\n".join(["0", str(len(starts)), *starts, ""]))


def started_too_early(directory: Path) -> None:
    """A start has cut a log before its last two segments, and was killed; a copy has the first of them."""
    data = _stopped(directory)
    partition, copy = data / "stock-41-0", directory / "backup"
    shutil.copytree(data, copy)
    logs = sorted(partition.glob("*.log"))
    for path in (copy / "stock-41-0").glob(f"{logs[-1].stem}.*"):
        path.unlink()
    for log in logs[-2:]:
        for path in partition.glob(f"{log.stem}.*"):
            path.rename(partition / f"{path.name}.deleted")
    end = int(logs[-2].stem)
    for snapshot in partition.glob("*.snapshot"):
        if int(snapshot.stem) > end:
            snapshot.unlink()
    (partition / "leader-epoch-checkpoint").write_text(f"0\n2\n0 0\n1 {end}\n")
    (data / ".kafka_cleanshutdown").unlink(missing_ok=True)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        others = [line for line in (data / name).read_text().splitlines()[2:] if not line.startswith("stock-41 0 ")]
        lines = [*others, f"stock-41 0 {end}"]
        (data / name).write_text("\n".join(["0", str(len(lines)), *lines, ""]))


def staging_cluster(directory: Path) -> None:
    """A snapshot of a volume that was taken while the broker ran."""
    _killed(directory).rename(directory / "snapshot")


def offsets_before(directory: Path) -> None:
    """Consumer groups as a broker left them."""
    own_copy(brokers("4.1.1/groups")[0], directory / "data")


def tiered(directory: Path) -> None:
    """Zeros in a local segment of a tiered log, which was copied before; the next ones of another log are gone."""
    data = unpack_tiered("stopped", directory)
    data.rename(directory / "data")
    log = directory / "data" / "tiered-0" / f"{1119:020}.log"
    with log.open("r+b") as file:
        file.seek(20000)
        file.write(bytes(512))
    for base in (1127, 1508):
        for path in (directory / "data" / "tiered-1").glob(f"{base:020}.*"):
            path.unlink()


def lost_index(directory: Path) -> None:
    """One index is gone, another is not of this log."""
    data = _stopped(directory)
    partition = min(path for path in data.glob("[a-z]*-0") if len(list(path.glob("*.log"))) > 2)
    first, second, *_ = sorted(partition.glob("*.index"))
    first.unlink()
    second.write_bytes(bytes(range(16)) * 4)


def flipped_bit(directory: Path) -> None:
    """One bit of a batch in the middle of the newest segment of a log."""
    data = _killed(directory)
    log = _last_log(data / "metrics-22-0")
    with log.open("r+b") as file:
        file.seek(5000)
        byte = file.read(1)[0]
        file.seek(5000)
        file.write(bytes([byte ^ 0x10]))


def wiped_checkpoint(directory: Path) -> None:
    """Checkpoints that a crash left empty or full of zeros."""
    data = _killed(directory)
    (data / "recovery-point-offset-checkpoint").write_bytes(b"")
    (data / "replication-offset-checkpoint").write_bytes(bytes(64))
    (data / "parcels-40-0" / "leader-epoch-checkpoint").write_bytes(bytes(12))


def deleted_topic(directory: Path) -> None:
    """Somebody has deleted a topic on three brokers with two disks each; they were stopped within the minute."""
    for number in (1, 2, 3):
        place = directory / f"broker-{number}"
        place.mkdir()
        data = _stopped(place)
        shutil.rmtree(data / "__cluster_metadata-0")
        other = place / "data-2"
        other.mkdir()
        for root in (data, other):
            lines = ["version=1", "cluster.id=TRSnWMH_9R7lcefrZ6_Rxw", f"node.id={number}"]
            (root / "meta.properties").write_text("\n".join(lines) + "\n")
        for partition, root in (("sessions-20-0", data), ("sessions-20-1", other)):
            (data / partition).rename(root / f"{partition}.{str(number) * 32}-delete")
        for each in data.glob("*-checkpoint"):
            lines = [line for line in each.read_text().splitlines()[2:] if not line.startswith("sessions-20")]
            each.write_text("\n".join(["0", str(len(lines)), *lines, ""]))
        shutil.copy(data / ".kafka_cleanshutdown", other)


def stray_partitions(directory: Path) -> None:
    """The broker was started once with the wrong metadata, and took its partitions for strays."""
    data = _stopped(directory)
    shutil.rmtree(data / "__cluster_metadata-0")
    for partition in data.glob("sessions-20-*"):
        partition.rename(data / f"{partition.name}.{_DELETED}-stray")


def dead_cluster(directory: Path) -> None:
    """The volumes of three brokers that went apart before they died."""
    unpack_replicas(directory)


def diverged(directory: Path) -> None:
    """The same, and a group had read all of the old leader's log."""
    dead_cluster(directory)
    committed = {("tale", 0): kafkalog.OffsetAndMetadata(130, leader_epoch=0)}
    kafkalog.commit_offsets(directory / "broker-1", "readers", committed, offsets_topic_num_partitions=1)


def backup(directory: Path) -> None:
    """A volume and the backup of it, which has lost a bit."""
    data = _stopped(directory)
    copy = own_copy(data, directory / "backup")
    log = max(copy.glob("*/*.log"), key=lambda path: path.stat().st_size)
    with log.open("r+b") as file:
        file.seek(log.stat().st_size // 2)
        byte = file.read(1)[0]
        file.seek(log.stat().st_size // 2)
        file.write(bytes([byte ^ 1]))


def quorum(directory: Path) -> None:
    """Two controllers of three and a broker, as they were killed."""
    for number in (1, 3, 11):
        copied("dynamic", directory, number)


def kraft_files(directory: Path) -> None:
    """A combined node after a power cut: three small files are empty, and a partition has lost its topic id."""
    data = own_copy(brokers("4.3.0/metadata")[0], directory / "data")
    metadata = data / "__cluster_metadata-0"
    for path in (data / "bootstrap.checkpoint", metadata / "quorum-state"):
        path.chmod(0o600)
        path.write_bytes(b"")
    (data / "carts-2-0" / "partition.metadata").unlink()
    (data / ".kafka_cleanshutdown").unlink(missing_ok=True)


def lost_controllers(directory: Path) -> None:
    """One controller of three, whose log has a torn end, and a broker."""
    tear(copied("dynamic", directory, 1, 11)[1])


def moved_controllers(directory: Path) -> None:
    """All three, as they were killed."""
    copied("dynamic", directory, 1, 2, 3)


def no_controller(directory: Path) -> None:
    """A broker."""
    copied("dynamic", directory, 11)


def zookeeper_lost(directory: Path) -> None:
    """The volumes of two brokers, and an old copy of their ZooKeeper's directory."""
    recorded = unpacked("3.9.1-zk/zkhist")
    for name in ("broker-3", "broker-6"):
        own_copy(recorded / name, directory / name)
    own_copy(recorded / "zookeeper", directory / "zookeeper-old")


def log_into_cluster(directory: Path) -> None:
    """A broker's directory, and that of a stopped broker of another cluster in which the topic was just created."""
    own_copy(brokers("4.3.0/groups")[0], directory / "source")
    target = own_copy(brokers("4.3.0/metadata")[0], directory / "target")
    shutil.rmtree(target / "__cluster_metadata-0")  # which does not know the topic
    for number in (0, 1):
        created = target / f"stock-1-{number}"
        created.mkdir()
        for suffix in ("log", "index", "timeindex"):
            (created / f"{0:020}.{suffix}").touch()
        (created / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
        (created / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAZg\n")


def quick_start(directory: Path) -> None:
    """A broker's directory in good order, with transactions."""
    own_copy(brokers("4.1.1/txn")[0], directory / "data")


def lost_marker(directory: Path) -> None:
    """A log was cut, or put back from a copy, before the COMMIT marker of its last transaction."""
    data = own_copy(brokers("4.1.1/txn")[0], directory / "data")
    checkpoints = {path: path.read_text() for path in data.glob("*-checkpoint")}
    name, _producer_id = without_a_trace(data)
    place, end = name.rsplit("-", 1), kafkalog.open_partition(data / name).log_end_offset()
    for path, text in checkpoints.items():
        path.write_text(re.sub(rf"(?m)^{place[0]} {place[1]} \d+$", f"{place[0]} {place[1]} {end}", text))


def analyst(directory: Path) -> None:
    """The same, and a topic of Avro values with the schemas beside it."""
    quick_start(directory)
    values = unpack_values(directory / "values")
    (values / "references-cedar-0").rename(directory / "data" / "people-0")
    (values / "_schemas-0").rename(directory / "data" / "_schemas-0")
    shutil.rmtree(directory / "values")


def readme(directory: Path) -> None:
    """What a killed broker and a bad disk have left."""
    own_copy(brokers("4.1.1/torn")[0], directory / "data")


SCENES: dict[str, Callable[[Path], None]] = {
    "kraft-files": kraft_files,
    "power-loss": power_loss,
    "full-disk": full_disk,
    "failing-disk": failing_disk,
    "tiered": tiered,
    "lost-index": lost_index,
    "stopped": stopped,
    "flipped-bit": flipped_bit,
    "wiped-checkpoint": wiped_checkpoint,
    "meta-properties": meta_properties,
    "lost-directory": lost_directory,
    "wrong-owner": wrong_owner,
    "lost-and-found": lost_and_found,
    "lost-marker": lost_marker,
    "duplicated-partition": duplicated_partition,
    "poison-record": poison_record,
    "retention-mistake": retention_mistake,
    "deleted-records": deleted_records,
    "started-too-early": started_too_early,
    "ephemeral-quarantine": power_loss,
    "staging-cluster": staging_cluster,
    "offsets-before": offsets_before,
    "deleted-topic": deleted_topic,
    "stray-partitions": stray_partitions,
    "dead-cluster": dead_cluster,
    "diverged": diverged,
    "power-cut": dead_cluster,
    "backup": backup,
    "quick-start": quick_start,
    "analyst": analyst,
    "readme": readme,
    "quorum": quorum,
    "lost-controllers": lost_controllers,
    "moved-controllers": moved_controllers,
    "no-controller": no_controller,
    "one-broker-left": no_controller,
    "zookeeper-lost": zookeeper_lost,
    "log-into-cluster": log_into_cluster,
}
