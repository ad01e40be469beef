"""A broker that does not start, or that would lose something if it did: each cause by its page, and then it serves."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafkalog import open_segment
from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.kafka.nights import (
    VERSION,
    mounted,
    newest_log,
    produced,
    resized,
    taken_back,
    type_page,
    values,
    values_of,
    wait_for,
)  # fmt: skip
from testkit.kafka.real_broker import BrokerError, RealBroker

pytestmark = pytest.mark.interop
COUNT, PARTITIONS = 600, 6
TOPICS = {"metrics-22": 1, "metrics-21": 1, "parcels-40": 6, "orders-23": 1}
"""The names that the pages show."""
Sent = dict[str, list[str]]


@pytest.fixture
def sent(broker: RealBroker) -> Sent:
    """The broker is started; what was written into each topic."""
    broker.start()
    for topic, partitions in TOPICS.items():
        broker.create(topic, partitions)
    return {topic: produced(broker, topic, COUNT, partitions) for topic, partitions in TOPICS.items()}


def read(broker: RealBroker) -> Sent:
    """What a consumer gets of each topic, once the broker is started."""
    broker.start()
    found = {topic: values(broker.records(topic, partitions)) for topic, partitions in TOPICS.items()}
    broker.stop()
    return found


def test_after_a_power_loss(broker: RealBroker, sent: Sent, compared: Callable[[str, int], None]) -> None:
    """All but the batch that was being written."""
    broker.kill()
    log = newest_log(broker.log_dir / "metrics-22-0")
    torn = values_of(list(open_segment(log).batches())[-1:])
    first = list(open_segment(log).batches())[-1].header.first_offset
    checkpoint = broker.log_dir / "replication-offset-checkpoint"  # nobody was told yet of what was being written
    checkpoint.write_text(re.sub(r"\b(metrics-22 0) \d+", rf"\1 {first}", checkpoint.read_text()))
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size - 100)
    with newest_log(broker.log_dir / "parcels-40-3").open("ab") as file:
        file.write(bytes(4096))
    (broker.log_dir / "parcels-40-5" / "leader-epoch-checkpoint").write_bytes(b"")
    type_page("power-loss", broker.directory)
    taken_back("power-loss", broker.directory)
    type_page("power-loss", broker.directory)
    sent["metrics-22"] = sorted(set(sent["metrics-22"]) - set(torn))
    assert read(broker) == sent
    compared("records that a consumer reads after the page about a power loss", sum(map(len, sent.values())))


def test_after_a_full_disk(broker: RealBroker, compared: Callable[[str, int], None]) -> None:
    """A disk that is full to the last byte; afterwards everything that was acknowledged is there."""
    place = broker.directory
    with mounted(place / "data", "8m"):
        broker.configure({"metadata.log.dir": str(place / "metadata")})
        broker.start()
        broker.create("metrics-21", segment_bytes=1 << 20)
        flood = place / "acknowledged"
        broker.client("flood", topic="metrics-21", out=str(flood), pace_ms=0, value_bytes=700)
        wait_for(lambda: not broker.is_running)
        acknowledged = {int(line.split()[1]) for line in flood.read_text().splitlines() if line.count(" ") == 2}
        (place / "other-disk").mkdir()
        resized(place / "data", "32m")
        type_page("full-disk", place)
        broker.start()
        found = {record["offset"] for record in broker.records("metrics-21")["metrics-21-0"]["records"]}
        broker.stop()
    assert len(acknowledged) > 1000
    assert acknowledged <= found
    compared("acknowledged records that a consumer reads after the page about a full disk", len(acknowledged))


def test_on_a_failing_disk(broker: RealBroker, sent: Sent) -> None:
    broker.kill()
    log = newest_log(broker.log_dir / "metrics-22-0")
    lost = values_of(list(open_segment(log).batches())[1:2])
    with log.open("r+b") as file:
        file.seek(list(open_segment(log).batches())[1].position + 100)
        file.write(bytes(200))
    broker.log_dir = broker.log_dir.rename(broker.directory / "copy")
    type_page("failing-disk", broker.directory)
    broker.log_dir = broker.directory / "recovered"
    sent["metrics-22"] = sorted(set(sent["metrics-22"]) - set(lost))
    assert read(broker) == sent


def test_a_lost_index(broker: RealBroker, sent: Sent) -> None:
    broker.stop()
    first, second, *_ = sorted((broker.log_dir / "orders-23-0").glob("*.index"))
    first.unlink()
    second.write_bytes(bytes(range(16)) * 4)
    type_page("lost-index", broker.directory)
    assert read(broker) == sent


def test_a_flipped_bit(broker: RealBroker, sent: Sent) -> None:
    broker.kill()
    log = newest_log(broker.log_dir / "metrics-22-0")
    at = list(open_segment(log).batches())[1].position + 300
    with log.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0x10]))
    type_page("flipped-bit", broker.directory)
    assert read(broker) == sent


def test_wiped_checkpoints(broker: RealBroker, sent: Sent) -> None:
    """A broker takes a directory offline for the zeros, and with its only one it ends."""
    broker.kill()
    (broker.log_dir / "recovery-point-offset-checkpoint").write_bytes(b"")
    (broker.log_dir / "replication-offset-checkpoint").write_bytes(bytes(64))
    (broker.log_dir / "parcels-40-0" / "leader-epoch-checkpoint").write_bytes(bytes(12))
    with pytest.raises(BrokerError):
        broker.start()
    broker.kill()
    type_page("wiped-checkpoint", broker.directory)
    assert read(broker) == sent


@pytest.fixture
def disks(kafka_of: Callable[[str], KafkaOracle], tmp_path: Path) -> Iterator[RealBroker]:
    """A broker, stopped, with partitions in both of its log directories and the metadata log in the second."""
    with two_disks(kafka_of, tmp_path / "place") as made:
        made.stop()
        yield made


@contextmanager
def two_disks(kafka_of: Callable[[str], KafkaOracle], place: Path, user: int | None = None) -> Iterator[RealBroker]:
    """Started, with a topic that is in both."""
    kafka_of(VERSION)
    settings = {"metadata.log.dir": str(place / "data-2")}
    with RealBroker(VERSION, place, directories=2, settings=settings) as made:
        made.user = user
        if user is not None:
            os.chown(place, user, user)
        made.start()
        made.create("stock-41", PARTITIONS)
        produced(made, "stock-41", COUNT, PARTITIONS)
        assert all(list(each.glob("stock-41-*")) for each in made.log_dirs)
        yield made


def served(broker: RealBroker) -> None:
    """Every record, once the broker is started."""
    broker.start()
    assert len(values(broker.records("stock-41", PARTITIONS))) == COUNT
    broker.stop()


def does_not_start(broker: RealBroker, why: str) -> None:
    with pytest.raises(BrokerError, match=why):
        broker.start()


def test_a_lost_identity(disks: RealBroker) -> None:
    (disks.log_dir / "meta.properties").write_bytes(bytes(120))
    does_not_start(disks, "node ID not found in")
    type_page("meta-properties", disks.directory)
    taken_back("meta-properties", disks.directory)
    type_page("meta-properties", disks.directory)
    served(disks)


def test_a_disk_that_is_not_mounted(disks: RealBroker) -> None:
    disks.log_dir.rename(disks.directory / "disk")
    disks.log_dir.mkdir()
    does_not_start(disks, r"No `meta\.properties` found in")
    type_page("lost-directory", disks.directory, {"metadata": "data-2"})
    served(disks)


def test_a_partition_in_two_directories(disks: RealBroker) -> None:
    partition = next(disks.log_dir.glob("stock-41-*"))
    copy = Path(shutil.copytree(partition, disks.directory / "data-2" / partition.name))
    for path in copy.glob(f"{newest_log(copy).stem}.*"):
        path.unlink()
    does_not_start(disks, "Duplicate log directories")
    type_page("duplicated-partition", disks.directory, {"--topic stock-41": f"--topic stock-41 -p {copy.name[-1]}"})
    served(disks)


def test_a_segment_in_lost_and_found(disks: RealBroker) -> None:
    partition = next(disks.log_dir.glob("stock-41-*"))
    log = sorted(partition.glob("*.log"))[1]
    (disks.log_dir / "lost+found").mkdir()
    log.rename(disks.log_dir / "lost+found" / "#131078")
    for path in partition.glob(f"{log.stem}.*"):
        path.unlink()
    does_not_start(disks, "not in the form of")
    first = int(log.stem)
    type_page("lost-and-found", disks.directory, {
        "stock-41-0/00000000000000000016.log": f"{partition.name}/{log.name}",
        "--topic stock-41 --offset 16": f"--topic stock-41 -p {partition.name[-1]} --offset {first}",
    })  # fmt: skip
    shutil.rmtree(disks.log_dir)
    (disks.directory / "repaired").rename(disks.log_dir)
    served(disks)


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="only root can be another user")
def test_files_of_the_wrong_user(kafka_of: Callable[[str], KafkaOracle]) -> None:
    """The broker runs as user 1234, and a partition was restored as root."""
    with tempfile.TemporaryDirectory() as temporary:
        Path(temporary).chmod(0o755)
        with two_disks(kafka_of, Path(temporary) / "place", 1234) as broker:
            broker.stop()
            restored = next(broker.log_dir.glob("stock-41-*"))
            subprocess.run(["chown", "-R", "0:0", restored], check=True)
            broker.start()
            wait_for(lambda: "Stopping serving logs in dir" in broker.output())
            assert f"AccessDeniedException: {restored}" in broker.output()
            broker.stop()
            type_page("wrong-owner", broker.directory, {"sessions-20-1": restored.name})
            served(broker)
