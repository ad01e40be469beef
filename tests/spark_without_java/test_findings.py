"""Spark's findings are those of `verify`, whatever is wrong, although each task sees one place alone."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kafkalog
from kafkalog.codec.common.errors import StorageError, UsageError
from kafkalog.codec.common.findings import FindingCode, FindingJson, Severity
from kafkalog.codec.common.shapes import plain, shaped
from kafkalog.log import Partition
from kafkalog.log.disk.pointer import JOURNAL, POINTER, Pointer
from kafkalog.recovery.checks import log_directory
from kafkalog.recovery.checks.partition import verify_partition
from kafkalog.recovery.checks.report import PartitionReport
from kafkalog.recovery.facts.topic_facts import TopicFacts, read_topic_facts
from kafkalog.spark import contents_files
from kafkalog.spark.contents_reader import ContentsPartition, ContentsReader
from kafkalog.spark.contents_schema import SCHEMAS
from kafkalog.spark.options import parse_options
from testkit.made.scenes import SCENES, metadata_elsewhere
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.recorded.fixture_data import (
    REPLICA_VERSIONS,
    TIERED_CASES,
    broker_cases,
    recovery_cases,
    recovery_families,
    tiered_case,
    unpack_replicas,
    unpack_tiered,
    unpack_values,
)
from testkit.running.shares import EACH

Note = Callable[[str, int], None]
Row = dict[str, Any]
Found = Counter[str]
Paths = list[Path]

SAID = ("code", "severity", "file", "position", "offset", "detail", "lastOffset")
UNREAD = {
    "firstUnread": "first_offset",
    "lastUnread": "last_offset",
    "newestBefore": "newest_before",
    "oldestAfter": "oldest_after",
}
TIMES = ("newestBefore", "oldestAfter")
SEGMENTS = "4.1.1/segments"
LOG = "stock-41-0"
"""of several segments"""


def planned(paths: Sequence[Path]) -> tuple[ContentsReader, list[ContentsPartition]]:
    options = {"paths": json.dumps([str(each) for each in paths]), "contents": "findings"}
    reader = ContentsReader(parse_options(options), SCHEMAS["findings"])
    return reader, reader.partitions()


def rows(paths: Sequence[Path]) -> list[Row]:
    """What a query gives, each task in a process of its own as far as pickling can tell."""
    reader, partitions = planned(paths)
    found: list[Row] = []
    for partition in partitions:
        there: ContentsPartition = pickle.loads(pickle.dumps(partition))
        for batch in reader.read(there):
            found += batch.to_pylist()
    return found


def of_spark(paths: Sequence[Path]) -> Found:
    """Every row, as text, and how often it is there."""
    told = [{name: row[name] for name in (*SAID, *UNREAD)} for row in rows(paths)]
    for row in told:
        row.update({name: None if row[name] is None else round(row[name].timestamp() * 1000) for name in TIMES})
    return Counter(json.dumps(row, sort_keys=True) for row in told)


def of_verify(paths: Sequence[Path]) -> Found:
    """The same of the findings of `verify`."""
    found: Found = Counter()
    for finding in kafkalog.verify(*paths).findings:
        said = plain(shaped(finding, FindingJson)) | {"lastOffset": finding.last_offset}
        bounds = {} if finding.unread is None else plain(finding.unread)
        unread = {column: bounds.get(name) for column, name in UNREAD.items()}
        found[json.dumps({name: said[name] for name in SAID} | unread, sort_keys=True)] += 1
    return found


def same(*paths: Path) -> Found:
    """The findings of directories, which are the same in both."""
    got, wanted = of_spark(paths), of_verify(paths)
    assert (got - wanted, wanted - got) == (Counter(), Counter()), paths
    return wanted


# -- recorded directories ----------------------------------------------------------------------------------------------


@EACH
def test_of_recorded_directories(each: int, compared: Note) -> None:
    count = sum(same(*brokers(case.id)).total() for case in broker_cases()[::each])
    compared("findings as rows, recorded directories", count)


def test_what_is_found_in_a_partition_names_it() -> None:
    found = rows(brokers("4.1.1/torn"))
    assert any(row["firstUnread"] is not None for row in found)
    named = [row for row in found if row["topic"] is not None]
    assert len({(row["topic"], row["partition"]) for row in named}) > 5
    assert all(f"{row['topic']}-{row['partition']}" in Path(row["file"]).parts for row in named)


@EACH
def test_of_recorded_damage(each: int, tmp_path: Path, compared: Note) -> None:
    count = 0
    for family in recovery_families():
        for case in recovery_cases([family])[::each]:
            root = case.unpack_before(tmp_path / family / case.name)
            count += same(root).total()
            shutil.rmtree(tmp_path / family)
    compared("findings as rows, recorded damage", count)


def test_of_several_brokers_and_remote_tiers(tmp_path: Path, compared: Note) -> None:
    count = same(unpack_values(tmp_path / "values")).total()
    for version in REPLICA_VERSIONS:
        count += same(*sorted(unpack_replicas(tmp_path / version, version=version).glob("broker-*"))).total()
    for name in TIERED_CASES:
        root = tiered_case(name).unpack(tmp_path / name)
        count += same(*(root / volume for volume in tiered_case(name).volumes)).total()
    compared("findings as rows, several brokers and remote tiers", count)


@pytest.mark.parametrize("scene", sorted(SCENES))
def test_of_what_operators_find(scene: str, tmp_path: Path) -> None:
    SCENES[scene](tmp_path)
    same(*sorted(each.parent for each in tmp_path.rglob("meta.properties")))


# -- directories of which something is found as a whole, or beside a partition -----------------------------------------


def _stopped(tmp_path: Path) -> Path:
    return own_copy(brokers(SEGMENTS)[0], tmp_path / "disk" / "data")


def _logs(partition: Path) -> list[Path]:
    return sorted(partition.glob("*.log"))


def somebody_elses(tmp_path: Path) -> Paths:
    """Only the directory with the metadata log tells whose all should be."""
    data = _stopped(tmp_path)
    other = metadata_elsewhere(data, tmp_path / "other")
    for path in (other, *other.rglob("*")):
        os.chown(path, 1234, 1234)
    return [data, other]


def cut_short(tmp_path: Path) -> Paths:
    """A run began and did not end."""
    data, run = _stopped(tmp_path), "20260101T000000.000000Z-01234567"
    (data / POINTER).write_bytes(Pointer("0" * 32, at_work=(run,)).encode())
    journal = data.with_name("data.recovery") / run / JOURNAL
    journal.parent.mkdir(parents=True)
    journal.write_text("{}")
    return [data]


def with_blanks(tmp_path: Path) -> Paths:
    data = _stopped(tmp_path)
    (data / LOG).rename(data / "stock 41-0")
    return [data]


def _lost(tmp_path: Path, number: int) -> Paths:
    data = _stopped(tmp_path)
    log = _logs(data / LOG)[number]
    (data.parent / "lost+found").mkdir()
    for each in sorted((data / LOG).glob(f"{log.stem}.*")):
        each.unlink() if each != log else log.rename(data.parent / "lost+found" / "#131078")
    return [data]


def from_the_middle(tmp_path: Path) -> Paths:
    """A file in lost+found ends where a segment begins."""
    return _lost(tmp_path, 1)


def from_the_end(tmp_path: Path) -> Paths:
    """A file in lost+found begins where a log ends."""
    return _lost(tmp_path, -1)


def from_the_end_of_what_cannot_be_read(tmp_path: Path) -> Paths:
    """The log in front of it is damaged: it ends before."""
    (data,) = _lost(tmp_path, -1)
    log = _logs(data / LOG)[-1]
    log.write_bytes(log.read_bytes()[:-5])
    return [data]


def of_another_place(tmp_path: Path) -> Paths:
    """A file that is not Kafka's, in a partition, whose batches fit nowhere."""
    data = _stopped(tmp_path)
    shutil.copy(_logs(data / LOG)[1], data / "orders-23-0" / "saved.bak")
    return [data]


def without_its_start(tmp_path: Path) -> Paths:
    """The first segment is gone, and its index tells of it."""
    data = _stopped(tmp_path)
    _logs(data / LOG)[0].unlink()
    return [data]


def without_its_start_by_epochs(tmp_path: Path) -> Paths:
    """The first segment is gone with its indexes, and leader epochs tell of it."""
    data = _stopped(tmp_path)
    for each in (data / LOG).glob(f"{_logs(data / LOG)[0].stem}.*"):
        each.unlink()
    return [data]


def _between_tiers(tmp_path: Path) -> Path:
    root = unpack_tiered("pair", tmp_path, "broker-1")
    for log in _logs(root / "kept-0")[:-1]:
        for each in (root / "kept-0").glob(f"{log.stem}.*"):
            each.unlink()
    return root


def between_tiers(tmp_path: Path) -> Paths:
    """The events tell how far the remote part goes."""
    return [_between_tiers(tmp_path)]


def between_tiers_by_another_disk(tmp_path: Path) -> Paths:
    """The events and the metadata log are in another log directory of the broker, and leader epochs tell nothing."""
    root = _between_tiers(tmp_path)
    (root / "kept-0" / "leader-epoch-checkpoint").unlink()
    other = metadata_elsewhere(root, tmp_path / "other")
    for each in root.glob("__remote_log_metadata-*"):
        each.rename(other / each.name)
    return [root, other]


def missing_by_another_disk(tmp_path: Path) -> Paths:
    """The metadata log in another log directory of the broker places a partition in this one."""
    (source,) = brokers("4.3.0/metadata")
    data = own_copy(source, tmp_path / "data")
    other = metadata_elsewhere(data, tmp_path / "other")
    shutil.rmtree(data / "alerts-25-0")
    for each in data.glob("*-checkpoint"):
        each.write_text("0\n0\n")
    return [data, other]


def twice(tmp_path: Path) -> Paths:
    """A partition is in two log directories of a broker."""
    data = _stopped(tmp_path)
    other = metadata_elsewhere(data, tmp_path / "other")
    own_copy(data / LOG, other / LOG)
    return [data, other]


def a_copy(tmp_path: Path) -> Paths:
    """Two log directories have one id."""
    data = _stopped(tmp_path)
    return [data, own_copy(data, tmp_path / "copy")]


def read_only(tmp_path: Path) -> Paths:
    return [_stopped(tmp_path)]


def refused(tmp_path: Path) -> Paths:
    """A directory with which a broker does not start."""
    data = _stopped(tmp_path)
    (data / "notes").mkdir()
    return [data]


def by_itself(tmp_path: Path) -> Paths:
    """A partition directory; the checkpoint around it cannot be read."""
    data = _stopped(tmp_path)
    (data / "log-start-offset-checkpoint").write_bytes(b"\0" * 20)
    return [data / LOG]


def deleted(tmp_path: Path) -> Paths:
    """A directory that waits for its deletion, pointed at beside its log directory and through a link."""
    data = _stopped(tmp_path)
    path = (data / LOG).rename(data / f"{LOG}.{'0' * 32}-delete")
    _logs(path)[0].write_bytes(b"\0" * 100)
    data.with_name("link").symlink_to(data)
    return [data.with_name("link"), path]


def a_segment(tmp_path: Path) -> Paths:
    data = _stopped(tmp_path)
    log = _logs(data / LOG)[-1]
    log.write_bytes(log.read_bytes()[:-5])
    return [log]


Made = dict[Callable[[Path], Paths], FindingCode]
"""what is made, and what is found of it among others"""

AS_A_WHOLE: Made = {
    somebody_elses: FindingCode.OWNER_MISMATCH,
    cut_short: FindingCode.RUN_UNFINISHED,
    missing_by_another_disk: FindingCode.PARTITION_MISSING,
    twice: FindingCode.DUPLICATE_PARTITION,
    a_copy: FindingCode.IDENTITY_MISMATCH,
    read_only: FindingCode.LOG_DIRECTORY_READ_ONLY,
    refused: FindingCode.BROKER_REFUSES,
}
OUTSIDE: Made = dict.fromkeys(
    (from_the_middle, from_the_end, from_the_end_of_what_cannot_be_read, of_another_place), FindingCode.BATCHES_OUTSIDE
)
OF_PARTITIONS: Made = {
    with_blanks: FindingCode.FOREIGN_DIRECTORY,
    without_its_start: FindingCode.SEGMENT_MISSING,
    without_its_start_by_epochs: FindingCode.SEGMENT_MISSING,
    between_tiers: FindingCode.TIER_GAP,
    between_tiers_by_another_disk: FindingCode.TIER_GAP,
    by_itself: FindingCode.CHECKPOINT_INVALID,
    deleted: FindingCode.BATCH_SIZE_INVALID,
    a_segment: FindingCode.TORN_TAIL,
}


def each_of(made: Made) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("paths", "code"), made.items(), ids=[each.__name__ for each in made], indirect=["paths"]
    )


@pytest.fixture
def paths(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    make: Callable[[Path], Paths] = request.param
    if make is somebody_elses and os.geteuid() != 0:
        pytest.skip("only root can give files away")
    if make is read_only:
        monkeypatch.setattr(os, "statvfs", lambda _path: SimpleNamespace(f_flag=os.ST_RDONLY))
    return make(tmp_path)


@each_of(AS_A_WHOLE)
def test_of_log_directories_as_a_whole(paths: Paths, code: FindingCode, monkeypatch: pytest.MonkeyPatch) -> None:
    _is_found_by_both(paths, code, monkeypatch)


@each_of(OUTSIDE)
def test_of_files_outside_of_logs(paths: Paths, code: FindingCode, monkeypatch: pytest.MonkeyPatch) -> None:
    _is_found_by_both(paths, code, monkeypatch)


@each_of(OF_PARTITIONS)
def test_of_partitions(paths: Paths, code: FindingCode, monkeypatch: pytest.MonkeyPatch) -> None:
    _is_found_by_both(paths, code, monkeypatch)


def _is_found_by_both(paths: Paths, code: FindingCode, monkeypatch: pytest.MonkeyPatch) -> None:
    """By whole paths and by relative ones."""
    found = same(*paths)
    assert code in {json.loads(each)["code"] for each in found}
    monkeypatch.chdir(paths[0].parent)
    same(*(Path(os.path.relpath(each)) for each in paths))


# -- what a query cannot give, and what it costs -----------------------------------------------------------------------


def test_what_cannot_be_read_is_a_finding_of_verify_and_the_end_of_a_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, empty = _stopped(tmp_path), tmp_path / "empty"
    for missing in (empty, tmp_path / "nowhere"):
        empty.mkdir(exist_ok=True)
        (finding,) = (each for each in kafkalog.verify(data, missing).findings if each.severity is Severity.ERROR)
        assert finding.code is FindingCode.LOG_DIRECTORY_MISSING
        with pytest.raises(UsageError, match=r"is an empty directory|does not exist"):
            planned([data, missing])
    log = _logs(data / LOG)[0]
    real = os.open

    def opened(path: Any, *rest: Any, **more: Any) -> int:
        if os.fspath(path) == str(log):
            raise PermissionError(13, os.strerror(13), path)
        return real(path, *rest, **more)

    monkeypatch.setattr(os, "open", opened)
    assert FindingCode.UNREADABLE in {each.code for each in kafkalog.verify(data).findings}
    with pytest.raises(StorageError, match="Permission denied"):
        rows([data])


def test_planning_reads_no_log_but_where_that_says_what_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leader epochs and the names of files tell of a start that may be lost."""
    asked: list[Sequence[str]] = []

    def read(roots: Sequence[str]) -> TopicFacts:
        asked.append(roots)
        return read_topic_facts(roots)

    monkeypatch.setattr(log_directory, "read_topic_facts", read)
    (data,) = without_its_start(tmp_path / "lost")
    planned([data])
    assert asked == [[str(data)]]
    for each in (data / LOG).glob("leader-epoch-checkpoint"):
        each.unlink()
    (first,) = (each for each in sorted((data / LOG).glob("*.index"))[:1])
    for each in (data / LOG).glob(f"{first.stem}.*"):
        each.unlink()
    planned([data])
    planned([_between_tiers(tmp_path)])
    assert asked[1:] == [[str(tmp_path / "broker-1")]]


@pytest.mark.parametrize("make", [refused, from_the_middle, from_the_end])
def test_the_task_of_a_log_directory_reads_only_logs_to_which_a_file_may_belong(
    make: Callable[[Path], Paths], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Partition] = []

    def verified(partition: Partition, **options: Any) -> PartitionReport:
        read.append(partition)
        return verify_partition(partition, **options)

    monkeypatch.setattr(contents_files, "verify_partition", verified)
    reader, partitions = planned(make(tmp_path))
    tasks = [each for each in partitions if each.place is not None and each.place.partition is None]
    found = [row for each in tasks for batch in reader.read(each) for row in batch.to_pylist()]
    offsets = [row["offset"] for row in found if row["code"] == FindingCode.BATCHES_OUTSIDE]
    assert len(offsets) == (make is not refused)
    assert len({each.path for each in read}) == len(read)
    assert all(each.segments[-1].base_offset <= max(offsets, default=-1) for each in read)
    assert any(each.topic == "stock-41" for each in read) is (make is from_the_end)


def test_what_a_partitions_task_is_given_stays_small(tmp_path: Path) -> None:
    """Also that of one of many remote segments."""
    for paths in (brokers(SEGMENTS), [unpack_tiered("stopped", tmp_path)], between_tiers(tmp_path)):
        for each in planned(paths)[1]:
            place = each.place
            assert place is not None
            if place.partition is not None:
                assert len(pickle.dumps(place.told)) < 600
