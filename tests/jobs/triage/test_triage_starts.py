"""Triage and the start of each broker: what it takes before any election, and a broker that does not start.

Expected is what 2.8.2, 3.9.1 and 4.3.0 did with such directories.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.common.source import BufferSource
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.jobs.triage.run import Triage, triage
from testkit.made.scenes import metadata_elsewhere
from testkit.recorded.broker_dirs import brokers, own_copy, unpacked
from testkit.recorded.fixture_data import unpack_replicas
from testkit.running.command import kafkalog

UNIQUE = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The log directory of a combined node of 4.3.0, the only one of its cluster."""
    return own_copy(brokers("4.3.0/metadata")[0], tmp_path / "data")


def end_of(found: Triage, name: str) -> int:
    (each,) = (each for each in found.partitions if f"{each.topic}-{each.partition}" == name)
    (log,) = each.logs.values()
    return log.end


def live(root: Path) -> Path:
    found = (each for each in sorted(root.glob("*-0")) if each.name[0] != "_")
    return next(each for each in found if any(log.stat().st_size for log in each.glob("*.log")))


@pytest.mark.parametrize("state", ["delete", "stray"])
def test_a_partition_that_is_put_away_is_lost_by_the_start(state: str, data: Path) -> None:
    assert triage(data).is_clean
    name = live(data).name
    live(data).rename(data / f"{name}.{UNIQUE}-{state}")
    ended = kafkalog("triage", data)
    assert ended.code == 1
    assert "Nothing is lost" not in ended.out
    assert "Apart from the elections" in ended.out


def cut_off(partition: Path) -> None:
    """Leave the first batch of a log's last segment, and all of it as a deleted segment, as a truncation leaves one."""
    log = max(partition.glob("*.log"))
    first = next(iter(Scanner(BufferSource(log.read_bytes()))))
    shutil.copy(log, log.with_name(f"{log.name}.deleted"))
    os.truncate(log, first.position + first.size)


def test_deleted_segments_beyond_the_end_of_all_copies_are_lost_by_the_start(tmp_path: Path) -> None:
    """A follower truncates too, to agree with its leader: nothing is lost then that the others have."""
    roots = sorted(unpack_replicas(tmp_path).glob("broker-*"))
    names = [{path.name for path in root.glob("*-0") if path.name[0] != "_"} for root in roots]
    common = sorted(set.intersection(*names))
    name = next(name for name in common if max((roots[0] / name).glob("*.log")).stat().st_size)
    removes = "its start removes"
    cut_off(roots[0] / name)
    assert removes not in kafkalog("triage", *roots).out
    for root in roots[1:]:
        cut_off(root / name)
    said = kafkalog("triage", *roots)
    assert removes in said.out
    assert name in said.out.partition(removes)[2]
    assert said.code == 1


def test_committed_records_that_no_copy_has_are_no_exit_code_0(data: Path) -> None:
    partition = live(data)
    topic, end = partition.name.removesuffix("-0"), end_of(triage(data), partition.name)
    assert kafkalog("triage", data).code == 0
    marks = data / "replication-offset-checkpoint"
    marks.write_text(marks.read_text().replace(f"\n{topic} 0 {end}\n", f"\n{topic} 0 {end + 1}\n"))
    ended = kafkalog("triage", data)
    assert f"Committed records of 1 partition ({partition.name}) are in no copy here" in " ".join(ended.out.split())
    assert ended.code == 1


def test_a_copy_that_becomes_the_log_is_the_log(data: Path) -> None:
    name = live(data).name
    end = end_of(triage(data), name)
    assert end > 0
    live(data).rename(data / f"{name}.{UNIQUE}-future")
    found = triage(data)
    assert (found.is_clean, end_of(found, name)) == (True, end)


def test_with_zookeeper_the_only_copy_is_truncated(tmp_path: Path) -> None:
    cluster = own_copy(unpacked("2.8.2/zkhist"), tmp_path / "cluster")
    (root,) = sorted(cluster.glob("broker-*"))[:1]
    live(root).rename(root / f"{live(root).name}.{UNIQUE}-future")
    ended = kafkalog("triage", cluster)
    assert ended.code == 1
    assert "truncates this copy to offset 0" in " ".join(ended.out.split())


@pytest.mark.parametrize("damage", ["unreadable", "empty directory"])
def test_a_node_that_does_not_start_leads_nothing(damage: str, tmp_path: Path) -> None:
    first = own_copy(brokers("4.3.0/metadata")[0], tmp_path / "a")
    second = metadata_elsewhere(first, tmp_path / "b")
    if damage == "unreadable":
        path = second / "meta.properties"  # of the metadata log; another one would be left out
        path.chmod(0o600)
        path.write_text(path.read_text().replace("node.id=3", "node.id=3 "))
    else:
        first.rename(tmp_path / "away")
        first.mkdir()
    found = triage(first, second)
    assert list(found.not_starting) == [3]
    assert all(each.leaders == (-1,) for each in found.partitions)


@pytest.mark.parametrize("has_stray", [False, True])
def test_a_directory_that_goes_offline_is_a_finding_beside_a_stray_too(has_stray: bool, tmp_path: Path) -> None:
    first = own_copy(brokers("4.3.0/metadata")[0], tmp_path / "a")
    second = metadata_elsewhere(first, tmp_path / "b")
    if has_stray:
        shutil.copytree(live(first), second / "never-heard-of-0")
        (second / "never-heard-of-0/partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAZg")
    place = first / "clicks-40-0"
    shutil.rmtree(place)
    place.touch()
    code = FindingCode.START_LOSES if has_stray else FindingCode.BROKER_REFUSES
    (of_start,) = (each for each in triage(first, second).findings if each.code is code)
    assert f"{first} goes offline: {place} is not a directory" in of_start.detail


def test_nobody_is_told_to_start_none_and_to_start_all(tmp_path: Path) -> None:
    unpack_replicas(tmp_path)
    names = ("broker-1", "broker-2", "broker-3", "controller")
    source = live(tmp_path / "broker-1")
    made = source.with_name("never-heard-of-0")
    made.mkdir()
    for each in source.iterdir():
        (made / each.name).write_bytes(each.read_bytes())
    printed = " ".join(kafkalog("triage", *(tmp_path / name for name in names)).out.split())
    assert "start none before the metadata is right" in printed
    assert "then start the brokers" not in printed
