"""verify over whole directories: each kind of damage has its finding, and what a stopped broker left has none."""

from __future__ import annotations

import re
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.inspect.health import health
from kafkalog.recovery import Recovery, plan, recover
from kafkalog.recovery.checks.report import DirectoryReport, VerifyReport
from kafkalog.recovery.checks.verify import verify
from testkit.made import damage
from testkit.made.batches import batch, fix_crc, patch, record, simple
from testkit.recorded.broker_dirs import STOPPED, brokers, own_copy
from testkit.recorded.fixture_data import BrokerCase, recovery_case, recovery_cases, recovery_families
from testkit.recorded.recovery_settings import given

PARTITION = "orders-23-0"
TRANSACTIONS = "4.1.1/txn"
SEGMENTS = "4.1.1/segments"
OFFSET_ENTRY, TIME_ENTRY = struct.Struct(">ii"), struct.Struct(">qi")


def some_broker(case: str, tmp_path: Path) -> Path:
    return own_copy(brokers(case)[0], tmp_path / "broker")


@pytest.fixture
def broker(tmp_path: Path) -> Path:
    """A broker that was stopped, with a partition of several segments."""
    return some_broker(SEGMENTS, tmp_path)


def of(code: FindingCode, report: VerifyReport) -> list[Finding]:
    return [finding for finding in report.findings if finding.code is code]


def of_one(code: FindingCode, report: DirectoryReport) -> list[Finding]:
    return [finding for finding in report.findings if finding.code is code]


def only(report: VerifyReport, code: FindingCode, severity: Severity, file: Path) -> Finding:
    """The one finding of a code; what is beside it is information."""
    (found,) = of(code, report)
    assert (found.severity, found.file) == (severity, str(file))
    others = [each for each in report.findings if each.code is not code and each.severity is not Severity.INFO]
    assert others == []
    return found


def first(broker: Path, pattern: str, partition: str = PARTITION) -> Path:
    return min((broker / partition).glob(pattern))


def last(broker: Path, pattern: str, partition: str = PARTITION) -> Path:
    return max((broker / partition).glob(pattern))


def edit(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


def checkpoint(broker: Path, name: str, value: int) -> None:
    """One line of a checkpoint set to a value, or added."""
    path = broker / name
    topic, _, number = PARTITION.rpartition("-")
    lines = [line for line in path.read_text().splitlines()[2:] if not line.startswith(f"{topic} {number} ")]
    lines.append(f"{topic} {number} {value}")
    path.write_text("\n".join(["0", str(len(lines)), *lines, ""]))


def test_an_undamaged_copy_holds_deleted_records_and_nothing_else(broker: Path) -> None:
    """They were deleted by `DeleteRecords` in front of the broker."""
    codes = {(found.code, found.severity) for found in verify(broker).findings}
    assert codes == {(FindingCode.OFFSETS_BELOW_LOG_START, Severity.INFO)}


@pytest.mark.parametrize("case", STOPPED, ids=lambda case: case.id)
def test_nothing_is_wrong_with_what_a_stopped_broker_left(
    case: BrokerCase, compared: Callable[[str, int], None]
) -> None:
    """No error and no warning on any recorded directory, compacted ones and those of ZooKeeper's time included."""
    count = 0
    for each in brokers(case.id):
        report = verify(each)
        assert report.partitions
        assert [str(found) for found in report.findings if found.severity is not Severity.INFO] == []
        count += len(report.partitions)
    compared("verify: partitions of stopped brokers without an error or a warning", count)


# --- indexes --------------------------------------------------------------------------------------------------------


def test_index_missing(broker: Path) -> None:
    first(broker, "*.index").unlink()
    only(verify(broker), FindingCode.INDEX_MISSING, Severity.WARNING, first(broker, "*.log"))


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_index_size_invalid(broker: Path, kind: str) -> None:
    path = first(broker, f"*.{kind}")
    size = path.stat().st_size
    edit(path, lambda data: data + b"\1\1\1")
    found = only(verify(broker), FindingCode.INDEX_SIZE_INVALID, Severity.WARNING, path)
    assert f"{size + 3} bytes" in found.detail


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_index_not_increasing(broker: Path, kind: str) -> None:
    path = first(broker, f"*.{kind}")
    entry = (OFFSET_ENTRY if kind == "index" else TIME_ENTRY).size
    assert path.stat().st_size >= 2 * entry
    edit(path, lambda data: data[:entry] + data)
    found = only(verify(broker), FindingCode.INDEX_NOT_INCREASING, Severity.WARNING, path)
    assert found.position == entry


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_index_preallocated(broker: Path, kind: str) -> None:
    path = last(broker, f"*.{kind}")
    size = path.stat().st_size
    edit(path, lambda data: data + bytes(240))
    found = only(verify(broker), FindingCode.INDEX_PREALLOCATED, Severity.INFO, path)
    assert found.position == size


def test_index_entry_mismatch_inside_a_batch(broker: Path) -> None:
    path = first(broker, "*.index")
    offset, position = OFFSET_ENTRY.unpack_from(path.read_bytes())
    edit(path, lambda data: patch(data, 0, OFFSET_ENTRY.pack(offset, position + 1)))
    found = only(verify(broker), FindingCode.INDEX_ENTRY_MISMATCH, Severity.ERROR, path)
    assert "where no batch begins" in found.detail


def test_index_entry_mismatch_behind_the_log(broker: Path) -> None:
    path = last(broker, "*.index")
    edit(path, lambda data: data + OFFSET_ENTRY.pack(2**30, 2**30))
    found = only(verify(broker), FindingCode.INDEX_ENTRY_MISMATCH, Severity.WARNING, path)
    assert "after the last batch" in found.detail


def test_index_entry_mismatch_of_a_timestamp(broker: Path) -> None:
    path = first(broker, "*.timeindex")
    timestamp, offset = TIME_ENTRY.unpack_from(path.read_bytes())
    edit(path, lambda data: patch(data, 0, TIME_ENTRY.pack(timestamp - 10**9, offset)))
    found = only(verify(broker), FindingCode.INDEX_ENTRY_MISMATCH, Severity.ERROR, path)
    assert found.position == 0


def with_aborted(tmp_path: Path) -> Path:
    """The index of a recorded partition in which a transaction was aborted."""
    broker = some_broker(TRANSACTIONS, tmp_path)
    return next(path for path in sorted(broker.glob("*-*/*.txnindex")) if path.stat().st_size)


def test_txn_index_mismatch(tmp_path: Path) -> None:
    path = with_aborted(tmp_path)
    edit(path, lambda data: b"")
    found = only(verify(path.parent.parent), FindingCode.TXN_INDEX_MISMATCH, Severity.ERROR, path)
    assert re.match(r"[1-9]\d* aborted transactions are not listed, 0 are listed but do not exist", found.detail)


def test_txn_index_lists_what_is_not_there(tmp_path: Path) -> None:
    path = with_aborted(tmp_path)
    edit(path, lambda data: data + patch(data[-34:], 2, (987654).to_bytes(8, "big")))
    found = only(verify(path.parent.parent), FindingCode.TXN_INDEX_MISMATCH, Severity.ERROR, path)
    assert found.detail == "0 aborted transactions are not listed, 1 are listed but do not exist"


@pytest.mark.parametrize("version", [1, 255, -1])
def test_txn_index_in_a_version_that_does_not_exist(version: int, tmp_path: Path) -> None:
    path = with_aborted(tmp_path)
    edit(path, lambda data: patch(data, 0, version.to_bytes(2, "big", signed=True)))
    found = only(verify(path.parent.parent), FindingCode.TXN_INDEX_MISMATCH, Severity.ERROR, path)
    assert found.detail == "1 aborted transactions are not listed, 1 are listed but do not exist"


def test_snapshot_invalid(broker: Path) -> None:
    path = last(broker, "*.snapshot")
    edit(path, lambda data: data[:3] + bytes([data[3] ^ 1]) + data[4:])
    only(verify(broker), FindingCode.SNAPSHOT_INVALID, Severity.ERROR, path)


# --- batches against what is beside them ------------------------------------------------------------------------


def test_leader_epoch_mismatch(broker: Path) -> None:
    log = last(broker, "*.log")
    edit(log, lambda data: patch(data, 12, (77).to_bytes(4, "big")))  # outside the checksum
    found = verify(broker)
    mismatch = of(FindingCode.LEADER_EPOCH_MISMATCH, found)
    assert [(each.file, each.position, each.severity) for each in mismatch] == [(str(log), 0, Severity.WARNING)]
    assert "leader epoch 77" in mismatch[0].detail


def test_max_timestamp_mismatch(broker: Path) -> None:
    log = last(broker, "*.log")
    size = struct.unpack_from(">i", log.read_bytes(), 8)[0] + 12

    def change(data: bytes) -> bytes:
        (newest,) = struct.unpack_from(">q", data, 35)
        return fix_crc(patch(data[:size], 35, struct.pack(">q", newest - 1))) + data[size:]

    edit(log, change)
    only(verify(broker), FindingCode.MAX_TIMESTAMP_MISMATCH, Severity.WARNING, log)
    assert verify(broker, deep=False).is_clean


def made(tmp_path: Path, **segments: bytes) -> Path:
    """A partition directory of nothing but segments, named by their base offsets."""
    directory = tmp_path / "made-0"
    directory.mkdir()
    for name, data in segments.items():
        base = int(name[1:])
        (directory / f"{base:020d}.log").write_bytes(data)
        for kind in ("index", "timeindex"):
            (directory / f"{base:020d}.{kind}").touch()
    return directory


def test_segment_overlap(tmp_path: Path) -> None:
    directory = made(tmp_path, s0=simple(5), s3=simple(2, 3))
    (found,) = verify(directory).findings
    assert (found.code, found.severity, found.file) == (
        FindingCode.SEGMENT_OVERLAP, Severity.ERROR, str(first(tmp_path, "*.log", "made-0")),
    )  # fmt: skip


def test_max_timestamp_above_the_records(tmp_path: Path) -> None:
    directory = made(tmp_path, s0=batch(record(), 1, max_timestamp=5))
    (found,) = verify(directory).findings
    assert (found.code, found.severity) == (FindingCode.MAX_TIMESTAMP_MISMATCH, Severity.WARNING)


# --- checkpoints ----------------------------------------------------------------------------------------------------


def test_offsets_below_log_start(broker: Path) -> None:
    """Deleted by a client, and the segment not yet removed: that is not a fault."""
    (partition,) = [each for each in verify(broker).partitions if each.path.endswith(PARTITION)]
    checkpoint(broker, "log-start-offset-checkpoint", partition.log_end_offset)
    epochs = broker / PARTITION / "leader-epoch-checkpoint"
    version, _, *lines = epochs.read_text().splitlines()
    epoch = lines[-1].split()[0]
    epochs.write_text(f"{version}\n1\n{epoch} {partition.log_end_offset}\n")  # as a broker moves it with the start
    report = verify(broker)
    path = last(broker, "*.log")
    below = of(FindingCode.OFFSETS_BELOW_LOG_START, report)
    (found,) = [each for each in below if Path(str(each.file)).parent == path.parent]
    assert found.detail == f"{partition.batches} batches end below the log start offset {partition.log_end_offset}"
    assert report.is_clean


def test_a_log_start_that_leader_epochs_contradict(broker: Path) -> None:
    """The high watermarks in the file of the log starts: a broker that starts on it deletes nearly all."""
    shutil.copy(broker / "replication-offset-checkpoint", broker / "log-start-offset-checkpoint")
    report = verify(broker)
    below = [each for each in of(FindingCode.OFFSETS_BELOW_LOG_START, report) if each.severity is Severity.WARNING]
    assert PARTITION in {Path(str(each.file)).parent.name for each in below}
    assert not report.is_clean
    (planned,) = plan(broker)
    assert not planned.changes
    assert FindingCode.OFFSETS_BELOW_LOG_START in {finding.code for finding in planned.findings}


def test_a_batch_that_the_log_start_cuts_is_not_below_it(tmp_path: Path) -> None:
    directory = made(tmp_path, s0=simple(3) + simple(4, 3))
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nmade 0 5\n")
    (found,) = verify(directory).findings
    assert (found.code, found.detail) == (
        FindingCode.OFFSETS_BELOW_LOG_START, "1 batches end below the log start offset 5",
    )  # fmt: skip


def test_log_end_below_log_start(broker: Path) -> None:
    checkpoint(broker, "log-start-offset-checkpoint", 10**9)
    only(verify(broker), FindingCode.LOG_END_BELOW_LOG_START, Severity.ERROR, broker / PARTITION)


def test_log_end_below_high_watermark(broker: Path) -> None:
    checkpoint(broker, "replication-offset-checkpoint", 10**9)
    found = only(verify(broker), FindingCode.LOG_END_BELOW_HIGH_WATERMARK, Severity.WARNING, broker / PARTITION)
    assert f"the high watermark was {10**9}" in found.detail


# --- directories ----------------------------------------------------------------------------------------------------


def test_broker_refuses(broker: Path) -> None:
    (broker / "lost-partition-without-a-number").mkdir()
    report = verify(broker)
    (found,) = of(FindingCode.BROKER_REFUSES, report)
    assert (found.severity, found.file) == (Severity.ERROR, str(broker))
    assert "would NOT START on it: org.apache.kafka.common.KafkaException: Found directory" in found.detail
    (foreign,) = of(FindingCode.FOREIGN_DIRECTORY, report)
    assert foreign.file == str(broker / "lost-partition-without-a-number")


def test_duplicate_partition(broker: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    shutil.copytree(broker / PARTITION, other / PARTITION)
    both = [broker / PARTITION, other / PARTITION]
    report = verify(broker, other)
    found = of(FindingCode.DUPLICATE_PARTITION, report)
    assert [each.file for each in found] == [str(each) for each in both]
    assert all(str(each) in one.detail for each in both for one in found)
    assert {each.severity for each in found} == {Severity.INFO}
    assert [len(of_one(FindingCode.DUPLICATE_PARTITION, each)) for each in report.directories] == [1, 1]


def test_a_partition_in_two_volumes_of_one_broker_is_more_than_a_replica(broker: Path, tmp_path: Path) -> None:
    other = own_copy(broker, tmp_path / "other")
    found = of(FindingCode.DUPLICATE_PARTITION, verify(broker, other))
    assert {each.severity for each in found} == {Severity.INFO}
    assert all("copies of one log directory" in each.detail for each in found)
    first, *others = sorted(each for each in other.iterdir() if (each / "partition.metadata").exists())
    assert others
    shutil.rmtree(first)
    meta = other / "meta.properties"
    meta.write_text(re.sub(r"(?m)^directory\.id=.*", "directory.id=OtherDirectoryOfItAAAAA", meta.read_text()))
    found = of(FindingCode.DUPLICATE_PARTITION, verify(broker, other))
    assert {each.severity for each in found} == {Severity.WARNING}
    assert all("which would not start" in each.detail for each in found)
    replica = own_copy(broker, tmp_path / "replica")
    changed = re.sub(r"(?m)^(node|broker)\.id=.*", r"\1.id=4711", meta.read_text()).replace("OtherD", "ThirdD")
    (replica / "meta.properties").write_text(changed)
    together = of(FindingCode.DUPLICATE_PARTITION, verify(replica, broker, other))
    assert [each for each in together if each.severity is Severity.WARNING] == found
    assert {each.severity for each in together if each not in found} == {Severity.INFO}
    assert len(together) > len(found)


@pytest.mark.parametrize(
    ("suffix", "severity"), [("deleted", Severity.INFO), ("cleaned", Severity.INFO), ("swap", Severity.WARNING)]
)
def test_temporary_file(broker: Path, suffix: str, severity: Severity) -> None:
    """A start puts a swapped log in place of others, which may hold more than it does."""
    path = broker / PARTITION / f"{10**8:020d}.log.{suffix}"
    path.write_bytes(b"")
    found = of(FindingCode.TEMPORARY_FILE, verify(broker))
    assert [(each.file, each.severity) for each in found] == [(str(path), severity)]


def test_foreign_file(broker: Path) -> None:
    in_partition, beside = broker / PARTITION / "7.log", broker / "core.1234"
    for path in (in_partition, beside):
        path.write_bytes(b"x")
    found = of(FindingCode.FOREIGN_FILE, verify(broker))
    assert {each.file for each in found} == {str(in_partition), str(beside)}


def test_a_directory_without_a_segment(broker: Path) -> None:
    empty = broker / "emptied-0"
    empty.mkdir()
    (empty / "partition.metadata").write_text("version: 0\ntopic_id: QqAfDQE1Sg-BH0s8eBYUyw\n")
    report = verify(broker)
    (found,) = [each for each in report.partitions if each.path == str(empty)]
    assert (found.segments, found.batches, found.log_end_offset) == (0, 0, 0)


@pytest.mark.parametrize("codec", ["plain", "gzip"])
def test_a_log_that_ends_with_what_was_there_before_is_cut_there(codec: str, tmp_path: Path) -> None:
    """A broker takes the end of a log from its last batch: it would append over offsets that are there."""
    case = recovery_case(f"end_offset/older-batch-last-{codec}-clean")
    root = case.unpack_before(tmp_path / "logs")
    said = [each for each in verify(root).findings if each.code is FindingCode.LOG_END_BELOW_OFFSET]
    assert [each.severity for each in said] == [Severity.ERROR]
    recover(Recovery(accept_loss=True, **given(case)), root)
    assert verify(root).is_clean
    assert not plan(Recovery(**given(case)), root)[0].is_worth_a_look


@pytest.mark.parametrize("family", recovery_families())
def test_whoever_looks_sees_where_a_broker_would_append(family: str, tmp_path: Path) -> None:
    """`ls` said that all was well where `verify` found the end of the log below what comes before it; each had an end
    of its own where batches are out of their place.
    """
    for case in recovery_cases([family]):
        root = case.unpack_before(tmp_path / case.name)
        checked, looked = verify(root), [partition for each in health(root) for partition in each.partitions]
        below = [each for partition in looked for each in partition.findings
                 if each.code is FindingCode.LOG_END_BELOW_OFFSET]  # fmt: skip
        assert below == of(FindingCode.LOG_END_BELOW_OFFSET, checked), case.id
        ends = {each.path: each.log_end_offset for each in checked.partitions}
        read = {each.partition.path: each.log_end_offset for each in looked if each.is_read}
        assert {path: ends[path] for path in read} == read, case.id
        shutil.rmtree(root)


@pytest.mark.parametrize("is_copy", [True, False])
def test_a_batch_that_is_passed_over_and_is_no_copy(tmp_path: Path, is_copy: bool) -> None:
    """Its offsets were there before: no consumer gets its records, which are nowhere else."""
    plain = [damage.batch(number, [damage.record(0, value=b"%d" % number)]) for number in range(6)]
    late = plain[1] if is_copy else damage.put(damage.batch(4, [damage.record(0, value=b"lost")]), "base_offset", 1)
    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / f"{0:020}.log").write_bytes(b"".join([*plain[:4], late, *plain[4:]]))
    found = [each for each in verify(directory).findings if each.code is FindingCode.OFFSET_DISPLACED]
    told = [(each.severity, each.position, each.offset) for each in found]
    assert told == ([] if is_copy else [(Severity.WARNING, sum(map(len, plain[:4])), 1)])
