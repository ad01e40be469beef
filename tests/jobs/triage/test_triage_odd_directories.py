"""Triage of disks that are damaged, absent, doubled or foreign: the good ones are shown, the bad ones are named."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from kafkalog.cli.shapes.triage_lines import partition_line
from kafkalog.codec.common.errors import RecoveryRefused, UsageError
from kafkalog.codec.common.findings import FindingCode
from kafkalog.jobs.triage.outcome import PartitionTriage
from kafkalog.jobs.triage.run import Triage, triage
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.recorded.fixture_data import unpack_replicas
from testkit.running.command import in_json, kafkalog

NAMES = ("broker-1", "broker-2", "broker-3", "controller")


@pytest.fixture
def disks(tmp_path: Path) -> Path:
    unpack_replicas(tmp_path)
    return tmp_path


def of(disks: Path, *names: str) -> Triage:
    return triage(*(disks / name for name in names or NAMES))


def partition(found: Triage, topic: str) -> PartitionTriage:
    (each,) = (each for each in found.partitions if each.topic == topic)
    return each


def named(found: Triage) -> dict[str, FindingCode]:
    """Which directories the findings are of."""
    return {Path(each.file).name: each.code for each in found.findings if each.file is not None}


def test_a_deleted_segment_is_not_cut_off_by_the_start(disks: Path) -> None:
    log = max((disks / "broker-1" / "tale-0").glob("*.log"))
    (log.parent / f"{log.name}.deleted").write_bytes(log.read_bytes() + b"more")
    assert not partition(of(disks), "tale").cut_by_start


def test_a_file_that_is_a_link_is_named_once(disks: Path) -> None:
    log = next((disks / "broker-1" / "tale-0").glob("*.log"))
    log.rename(disks / log.name)
    log.symlink_to(disks / log.name)
    told = [finding for finding in of(disks).findings if finding.file is not None and log.name in finding.file]
    assert [finding.code for finding in told] == [FindingCode.UNREADABLE]


@pytest.mark.parametrize("said", [None, b"", b"garbage", b"version=1\nnode.id=x\n", b"\xff\xfe\x00"])
def test_a_directory_that_does_not_say_whose_it_is_is_left_out(disks: Path, said: bytes | None) -> None:
    properties = disks / "broker-2" / "meta.properties"
    properties.unlink() if said is None else properties.write_bytes(said)
    found = of(disks)
    assert named(found)["broker-2"] is FindingCode.META_PROPERTIES_INVALID
    assert found.without_disks == (2,)
    assert (
        partition(found, "tale").leaders == partition(of(disks, "broker-1", "broker-3", "controller"), "tale").leaders
    )


def test_a_disk_that_is_not_mounted_is_named_and_the_others_are_shown(disks: Path) -> None:
    shutil.rmtree(disks / "broker-2")
    (disks / "broker-2" / "lost+found").mkdir(parents=True)
    ended = kafkalog("triage", *(disks / name for name in NAMES))
    assert ended.code == 4
    assert "broker-2): it holds nothing of Kafka: is the disk mounted" in ended.err
    assert "(2): taken to stay down" in ended.err
    assert "cleaned" in ended.out


def test_a_disk_that_is_missing_is_named_and_its_broker_stays_down(disks: Path) -> None:
    shutil.rmtree(disks / "broker-2")
    ended = kafkalog("triage", *(disks / name for name in NAMES))
    assert ended.code == 4
    assert "broker-2): there is no such directory: is the disk mounted?" in ended.err
    assert "(2): taken to stay down" in ended.err
    assert "cleaned" in ended.out


def test_where_nothing_is_of_kafka_nothing_is_foreseen(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="says who may lead"):
        triage(tmp_path)


def test_a_path_that_does_not_exist_is_a_mistake(disks: Path) -> None:
    (disks / "file").write_bytes(b"")
    for name, said in (("file", "is not a directory"), ("", "a path cannot be empty")):
        ended = kafkalog("triage", *(disks / each for each in NAMES), disks / name if name else "")
        assert (ended.code, ended.out) == (64, "")
        assert said in ended.err
    ended = kafkalog("triage", disks / "broker-4", disks / "broker-5")
    assert (ended.code, "does not exist" in ended.err) == (64, True)


@pytest.mark.parametrize("id_of_its_own", [False, True])
def test_a_copy_beside_its_original_is_refused(disks: Path, id_of_its_own: bool) -> None:
    copy = disks / "copy"
    shutil.copytree(disks / "broker-1", copy)
    if id_of_its_own:
        lines = (copy / "meta.properties").read_text().splitlines()
        kept = [line for line in lines if not line.startswith("directory.id")]
        (copy / "meta.properties").write_text("\n".join([*kept, "directory.id=3nJ1s8hOQ0uV2m5cYw7bAw", ""]))
    with pytest.raises(RecoveryRefused, match=r"no node starts with .*broker-1 and .*copy: by .* node 1, and both "):
        of(disks, *NAMES, "copy")


def test_another_brokers_meta_properties_is_refused_with_an_object(disks: Path) -> None:
    properties = disks / "broker-2" / "meta.properties"
    properties.write_text(properties.read_text().replace("node.id=2", "node.id=1"))
    ended = kafkalog("triage", "--json", *(disks / name for name in NAMES))
    assert ended.code == 3
    (line,) = ended.out.splitlines()
    said = json.loads(line)
    assert said["refusal"] in ended.err
    assert (said["kind"], said["metadata"], said["partitions"]) == ("summary", None, 0)
    assert "both are of node 1, and both hold" in said["refusal"]


def test_the_same_directory_twice_is_one(disks: Path) -> None:
    (disks / "link").symlink_to("broker-1")
    once = list(map(partition_line, of(disks).partitions))
    twice = list(map(partition_line, of(disks, *NAMES, "broker-1", "link", "broker-1/../broker-2").partitions))
    assert twice == once


def test_a_broker_that_is_not_registered_is_named(disks: Path) -> None:
    properties = disks / "broker-2" / "meta.properties"
    properties.write_text(properties.read_text().replace("node.id=2", "node.id=77"))
    found = of(disks)
    assert any("node 77, which the metadata does not know" in each.detail for each in found.findings)
    assert found.without_disks == (2,)


def test_a_partitions_directory_is_not_a_disk(disks: Path) -> None:
    with pytest.raises(UsageError, match="tale-0 is the directory of one topic-partition"):
        of(disks, "broker-1/tale-0", "controller")
    assert of(disks, "broker-1/tale-0", *NAMES).partitions


def test_a_name_need_not_be_ascii(disks: Path) -> None:
    (disks / "broker-1").rename(disks / "bröker-ж 1")
    found = of(disks, "bröker-ж 1", *NAMES[1:])
    assert partition(found, "tale").logs[1].end == 120


def test_an_absent_disk_that_may_lead_is_asked_for(disks: Path) -> None:
    """`equal` has only broker 3 in its ISR, and all copies are equal."""
    found = of(disks, "broker-1", "broker-2", "controller")
    equal = partition(found, "equal")
    assert (equal.leaders, equal.best) == ((-1,), (1, 2))
    assert in_json(equal.advice) == {
        "do": "bring", "order": [1, 2], "leads": [], "hold_back": [], "elect": 1, "bring": [3]
    }  # fmt: skip
    ended = kafkalog("triage", *(disks / name for name in ("broker-1", "broker-2", "controller")))
    said = " ".join(ended.out.split())
    assert "bring the missing disks of 3, or make it start; else start 1, 2; elect 1 (unclean)" in said
    assert "kafka-leader-election.sh --bootstrap-server HOST:PORT --election-type unclean --topic TOPIC" in ended.out
    assert "is lost" in ended.out


def test_where_no_other_copy_is_here_only_its_disk_helps(disks: Path) -> None:
    alone = partition(of(disks, "broker-1", "broker-3", "controller"), "alone")
    assert in_json(alone.advice) == {
        "do": "bring", "order": [], "leads": [], "hold_back": [], "elect": None, "bring": [2]
    }  # fmt: skip


def test_a_broker_that_is_left_out_of_an_order_is_in_the_advice(disks: Path) -> None:
    found = triage(*(disks / name for name in NAMES), start_order=[2, 1])
    equal = partition(found, "equal")
    assert equal.leaders == (-1,)
    assert (equal.advice.what, set(equal.advice.order)) == ("start_order", {1, 2, 3})


def test_what_is_not_on_these_disks_is_not_said_to_be_safe(disks: Path) -> None:
    shutil.rmtree(disks / "broker-1" / "tale-0")
    ended = kafkalog("triage", "--topic", "cleaned", *(disks / name for name in ("broker-1", "broker-3", "controller")))
    assert "Nothing that is on these disks is lost by the elections, and every partition gets a leader;" in ended.out


@pytest.mark.parametrize(
    "name", ["tale-0", "recovery-point-offset-checkpoint", "tale-0/00000000000000000000.log", ".lock"]
)
def test_a_file_that_cannot_be_opened_leaves_its_broker_down(
    name: str, disks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an error of the disk: permissions are nothing to root."""
    place = str(disks / "broker-2" / name)
    real_open, real_scan = os.open, os.scandir

    def opened(path: str, *arguments: Any, **named: Any) -> int:
        if str(path).startswith(place):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return real_open(path, *arguments, **named)

    def scanned(path: Any = ".") -> Any:
        if str(path).startswith(place):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return real_scan(path)

    (disks / "broker-2/.lock").touch()
    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(os, "scandir", scanned)
    found = of(disks)
    assert list(found.not_starting) == [2]
    assert {each.leaders for each in found.partitions if each.topic == "alone"} == {(-1,)}
    unread = [each for each in found.findings if each.code is FindingCode.UNREADABLE]
    assert [Path(each.file or "").resolve() for each in unread] == [Path(place)]
    assert partition(found, "tale").leaders == (1, 3)


def test_a_disk_that_cannot_be_examined_leaves_its_broker_down(disks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, place = os.lstat, str(disks / "broker-2")

    def examined(path: Any, *arguments: Any, **named: Any) -> os.stat_result:
        if str(path) == place:
            raise OSError(errno.EIO, os.strerror(errno.EIO), place)
        return real(path, *arguments, **named)

    monkeypatch.setattr(os, "lstat", examined)
    found = of(disks)
    assert named(found)["broker-2"] is FindingCode.UNREADABLE
    assert partition(found, "tale").leaders == (1, 3)


def test_a_link_in_a_partition_to_an_empty_directory_is_no_disk(tmp_path: Path) -> None:
    """A broker starts, and looks for no `meta.properties` there."""
    root = own_copy(brokers("4.1.1/segments")[0], tmp_path / "data")
    (tmp_path / "empty").mkdir()
    partition_directory = next(each for each in root.iterdir() if each.name.endswith("-0") and each.name[0] != "_")
    (partition_directory / "00000000000000099999.log").symlink_to(tmp_path / "empty")
    found = triage(root)
    assert [each.code for each in found.findings if each.code is FindingCode.BROKER_REFUSES] == []
    assert "cannot be read" in " ".join(found.not_starting.values())


def test_a_link_to_a_partitions_directory_is_followed_as_by_a_broker(disks: Path, tmp_path: Path) -> None:
    ends = {node: log.end for node, log in partition(of(disks), "tale").logs.items()}
    (disks / "broker-2" / "tale-0").rename(tmp_path / "tale-0")
    (disks / "broker-2" / "tale-0").symlink_to(tmp_path / "tale-0")
    assert {node: log.end for node, log in partition(of(disks), "tale").logs.items()} == ends


def test_a_log_of_an_earlier_moment_is_not_called_whole(tmp_path: Path) -> None:
    """4.1.0 served such a log without the records that it had acknowledged since."""
    root = own_copy(brokers("4.1.1/segments")[0], tmp_path / "data")
    assert "Nothing is lost" in kafkalog("triage", root).out
    name = next(each.name for each in sorted(root.iterdir()) if each.name.endswith("-0") and each.name[0] != "_")
    path = root / "replication-offset-checkpoint"
    version, _count, *lines = path.read_text().splitlines()
    kept = [line for line in lines if line.split()[:2] != name.rsplit("-", 1)]
    path.write_text("\n".join([version, str(len(kept) + 1), *kept, f"{name.rsplit('-', 1)[0]} 0 987654321", ""]))
    said = " ".join(kafkalog("triage", root).out.split())
    assert f"Committed records of 1 partition ({name}) are in no copy here" in said
    assert "Nothing that is on these disks is lost by the elections, and every partition gets a leader;" in said


def test_an_id_that_kafka_keeps_for_itself_makes_no_other_cluster(disks: Path) -> None:
    properties = disks / "broker-2" / "meta.properties"
    lines = properties.read_text().splitlines()
    kept = [line for line in lines if not line.startswith("directory.id")]
    properties.write_text("\n".join([*kept, "directory.id=AAAAAAAAAAAAAAAAAAAAAw", ""]))
    found = of(disks)
    assert partition(found, "tale").logs[1].end == 120
    assert any("directory.id is 'AAAAAAAAAAAAAAAAAAAAAw'" in each.detail for each in found.findings)


def test_a_volume_that_is_not_here_is_not_taken_for_an_empty_one(disks: Path) -> None:
    """Broker 2 registered with one directory; another one has another id."""
    properties = disks / "broker-2" / "meta.properties"
    lines = properties.read_text().splitlines()
    kept = [line for line in lines if not line.startswith("directory.id")]
    properties.write_text("\n".join([*kept, "directory.id=3nJ1s8hOQ0uV2m5cYw7bAw", ""]))
    shutil.rmtree(disks / "broker-2" / "equal-0")
    found = of(disks)
    assert 2 not in partition(found, "equal").logs
    assert any(
        "1 of the 1 log directories that broker 2 registered with is not here" in e.detail for e in found.findings
    )
