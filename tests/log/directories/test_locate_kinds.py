"""Pointing at things: what is recognized, and the one sentence for what is not."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog.codec.common.errors import StorageError, UsageError
from kafkalog.codec.common.findings import FindingCode, Severity
from kafkalog.codec.names import DirectoryState
from kafkalog.log import FileSource, LogDir, Partition, open_all, open_log_dir, open_partition, open_segment
from testkit.recorded.broker_dirs import brokers, own_copy, unpacked
from testkit.running.command import kafkalog

CASE = "4.1.1/segments"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return own_copy(brokers(CASE)[0], tmp_path / "data")


def serious(opened: LogDir | Partition) -> list[tuple[FindingCode, str]]:
    return [
        (found.code, os.path.basename(str(found.file)))
        for found in opened.findings
        if found.severity is not Severity.INFO
    ]


def test_a_log_directory_knows_its_checkpoints_and_whose_it_is(log_dir: Path) -> None:
    opened = open_log_dir(log_dir)
    assert opened.log_start_offsets == {("invoices-25", 0): 97}
    assert opened.meta_properties is not None
    assert opened.meta_properties.node_id == 12
    assert opened.clean_shutdown is not None
    assert opened["invoices-25", 0].log_start_offset == 97
    assert ("invoices-25", 0) in opened
    assert ("invoices-25", 9) not in opened
    with pytest.raises(KeyError):
        opened["invoices-25", 9]
    assert set(opened.high_watermarks) == set(opened.recovery_points)


def test_a_partition_alone_finds_its_log_start_offset_in_the_directory_above(log_dir: Path) -> None:
    assert open_partition(log_dir / "invoices-25-0").log_start_offset == 97
    (log_dir / "log-start-offset-checkpoint").unlink()
    assert open_partition(log_dir / "invoices-25-0").log_start_offset == 84


def test_a_root_of_brokers_is_not_taken_for_partitions_called_broker() -> None:
    root = unpacked("2.8.2/zkhist")
    inventory = open_all(root)
    assert [os.path.basename(each.path) for each in inventory.log_dirs] == [
        each.name for each in brokers("2.8.2/zkhist")
    ]
    assert len(inventory.log_dirs) == 2
    assert inventory.standalone == ()
    with pytest.raises(UsageError, match="holds several log directories"):
        open_log_dir(root)


def test_the_same_directory_twice_is_read_once(log_dir: Path) -> None:
    assert len(open_all(log_dir, f"{log_dir}/../data").log_dirs) == 1


def test_a_partition_in_two_directories_is_refused_with_both_paths(log_dir: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    shutil.copytree(log_dir / "orders-23-0", other / "orders-23-0")
    last = max((other / "orders-23-0").glob("*.log"))
    last.write_bytes(b"")
    inventory = open_all(log_dir, other)
    with pytest.raises(UsageError) as refused:
        inventory.readable()
    assert str(log_dir / "orders-23-0") in str(refused.value)
    assert str(other / "orders-23-0") in str(refused.value)
    assert inventory.find("orders-23", 0, "longest").path == str(log_dir / "orders-23-0")
    assert inventory.find("orders-23", 0, other).path == str(other / "orders-23-0")
    assert inventory.find("orders-23", 0, other / "orders-23-0").path == str(other / "orders-23-0")
    chosen = [found.path for found in inventory.readable(other) if found.topic == "orders-23"]
    assert chosen == [str(other / "orders-23-0")]
    with pytest.raises(UsageError, match="chooses 0 of them"):
        inventory.find("orders-23", 0, tmp_path / "nowhere")


def test_two_spellings_of_one_partition_in_a_directory_are_a_duplicate(log_dir: Path) -> None:
    shutil.copytree(log_dir / "orders-23-0", log_dir / "orders-23-00")
    opened = open_log_dir(log_dir)
    assert serious(opened) == [(FindingCode.DUPLICATE_PARTITION, "orders-23-00")]
    with pytest.raises(UsageError, match="is in two directories"):
        opened["orders-23", 0]


def test_deleted_future_and_stray_directories_are_seen_and_not_read_by_default(log_dir: Path) -> None:
    identifier = "0123456789abcdef0123456789abcdef"
    for suffix in ("delete", "future", "stray"):
        shutil.copytree(log_dir / "orders-23-0", log_dir / f"orders-23-0.{identifier}-{suffix}")
    inventory = open_all(log_dir)
    states = sorted(found.state for found in inventory.partitions if found.topic == "orders-23")
    assert states == sorted(DirectoryState)
    assert [found.state for found in inventory.readable() if found.topic == "orders-23"] == [DirectoryState.LIVE]
    pointed_at = open_all(log_dir / f"orders-23-0.{identifier}-delete").readable()
    assert [found.state for found in pointed_at] == [DirectoryState.DELETE]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda path: None, "does not exist"),
        (lambda path: path.mkdir(), "is an empty directory"),
        (lambda path: (path.mkdir(), (path / "notes.txt").write_text("x")), "is not a Kafka log directory"),
        (lambda path: (path.mkdir(), (path / "src").mkdir()), "is not a Kafka log directory"),
        (lambda path: path.write_text("x"), "is not a segment"),
        (lambda path: os.mkfifo(path), "is a FIFO, not a file"),
        (lambda path: path.symlink_to(path), "is a symbolic link"),
        (lambda path: (path.mkdir(), (path / "00000000000000000000.log").touch()), "its topic is unknown"),
    ],
)
def test_what_is_nothing_of_kafkas_is_a_usage_error(
    tmp_path: Path, make: Callable[[Path], object], sentence: str
) -> None:
    path = tmp_path / "thing"
    make(path)
    with pytest.raises(UsageError, match=sentence) as refused:
        open_all(path)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_empty_partition_directory_holds_no_segment(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    for opening in (open_all, open_partition):
        with pytest.raises(UsageError, match="holds no segment"):
            opening(tmp_path / "t-0")


def test_a_log_directory_that_is_named_like_a_partition_is_none() -> None:
    (directory,) = brokers("4.1.1/txn")
    assert directory.name == "broker-7"
    assert (directory / "bootstrap.checkpoint").exists()
    with pytest.raises(UsageError, match=r"broker-7 holds no segment$"):
        open_partition(directory)


def test_a_partition_with_only_a_snapshot_is_one(tmp_path: Path) -> None:
    (tmp_path / "__cluster_metadata-0").mkdir()
    (tmp_path / "__cluster_metadata-0" / "00000000000000000005-0000000001.checkpoint").touch()
    assert open_partition(tmp_path / "__cluster_metadata-0").segments == ()


def test_a_segment_file_stands_for_itself(log_dir: Path, tmp_path: Path) -> None:
    source = log_dir / "orders-23-0" / "00000000000000000180.log"
    assert open_segment(source).topic == "orders-23"
    alone = tmp_path / "elsewhere" / "180.log.deleted"
    alone.parent.mkdir()
    shutil.copy(source, alone)
    opened = open_segment(alone)
    assert opened.topic is None
    assert opened.segments[0].base_offset == opened.log_start_offset == 180
    assert [record.offset for record in opened.records(on_damage="stop")] == [
        record.offset for record in open_segment(source).records(on_damage="stop")
    ]


@pytest.mark.parametrize(
    ("make", "phrase"),
    [
        (lambda path: path.symlink_to("/dev/zero"), "a symbolic link"),
        (lambda path: os.mkfifo(path), "a FIFO"),
        (lambda path: path.mkdir(), "a directory"),
    ],
)
def test_links_and_fifos_in_a_partition_are_findings_and_never_followed(
    log_dir: Path, make: Callable[[Path], object], phrase: str
) -> None:
    directory = log_dir / "orders-23-0"
    log = directory / "00000000000000000225.log"
    log.unlink()
    make(log)
    for name in ("leader-epoch-checkpoint", "00000000000000000180.index"):
        (directory / name).unlink()
        make(directory / name)
    partition = open_partition(directory)
    found = {os.path.basename(str(each.file)): each for each in partition.findings}
    code = FindingCode.FOREIGN_FILE if log.is_dir() else FindingCode.UNREADABLE
    assert {found[path.name].code for path in (log, directory / "00000000000000000180.index")} == {code}
    assert phrase in found[log.name].detail
    assert found[log.name].severity is Severity.ERROR
    assert {log.name, "leader-epoch-checkpoint", "00000000000000000180.index"} <= set(found)
    assert [segment.base_offset for segment in partition.segments] == [135, 180]
    assert [record.offset for record in partition.records(on_damage="stop")] == list(range(135, 225))
    with pytest.raises(StorageError, match=phrase):
        FileSource(log)


def test_unreadable_small_files_are_findings(log_dir: Path) -> None:
    (log_dir / "recovery-point-offset-checkpoint").write_text("0\n2\na 0 5\n")
    (log_dir / "meta.properties").write_text("version=7\n")
    (log_dir / "log-start-offset-checkpoint").unlink()
    os.mkfifo(log_dir / "log-start-offset-checkpoint")
    (log_dir / "orders-23-0" / "partition.metadata").write_bytes(b"\0" * 40)
    (log_dir / "lost+found").mkdir()
    (log_dir / "core.1234").touch()
    (log_dir / "away-0").symlink_to(log_dir / "orders-23-0")
    opened = open_log_dir(log_dir)
    assert sorted(serious(opened)) == [
        (FindingCode.CHECKPOINT_INVALID, "log-start-offset-checkpoint"),
        (FindingCode.CHECKPOINT_INVALID, "recovery-point-offset-checkpoint"),
        (FindingCode.FOREIGN_DIRECTORY, "away-0"),
        (FindingCode.FOREIGN_DIRECTORY, "lost+found"),
        (FindingCode.FOREIGN_FILE, "core.1234"),
        (FindingCode.META_PROPERTIES_INVALID, "meta.properties"),
    ]
    assert serious(opened["orders-23", 0]) == [(FindingCode.PARTITION_METADATA_INVALID, "partition.metadata")]
    assert opened.recovery_points == {}
    assert opened.meta_properties is None


def test_a_segment_under_another_spelling_is_not_mixed_into_the_log(log_dir: Path) -> None:
    directory = log_dir / "orders-23-0"
    shutil.copy(directory / "00000000000000000135.log", directory / "7.log")
    partition = open_partition(directory)
    assert [segment.base_offset for segment in partition.segments] == [135, 180, 225]
    assert serious(partition) == [(FindingCode.FOREIGN_FILE, "7.log")]


def test_a_missing_file_is_the_operating_systems_error_too(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        FileSource(tmp_path / "nothing")
    assert isinstance(missing.value, StorageError)


def test_what_is_named_twice_is_there_once(tmp_path: Path) -> None:
    root = own_copy(brokers("4.1.1/segments")[0], tmp_path / "broker")
    partition = root / "stock-41-0"
    segment = min(partition.glob("*.log"))
    alone, everything = kafkalog("verify", "--json", root), ["ls", "verify", "index verify"]
    for words in everything:
        once = kafkalog(*words.split(), "--json", root)
        for paths in ([root, partition], [partition, root], [root, segment, root / ".." / "broker"]):
            assert kafkalog(*words.split(), "--json", *paths).out == once.out, words
    assert len(kafkalog("verify", "--json", partition, segment).objects) == 1
    assert kafkalog("dump", root, partition).out == kafkalog("dump", root).out
    deleted = partition.rename(root / f"stock-41-0.{'0' * 32}-delete")
    (line,) = kafkalog("verify", "--json", root, deleted).objects
    assert len(line["partitions"]) == len(alone.objects[0]["partitions"])
    assert kafkalog("dump", "--all", root, deleted).out != kafkalog("dump", "--all", root).out
