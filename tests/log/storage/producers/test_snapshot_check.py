"""Producer snapshots that contradict the log; what is right is what the recorded broker wrote."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from kafkalog import verify
from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.files.index_files import decode_producer_snapshot, encode_producer_snapshot
from kafkalog.codec.headers.one_batch import OneBatch
from kafkalog.codec.headers.run_scanner import RunScanner
from kafkalog.codec.headers.runs import BatchRun
from kafkalog.codec.model import ProducerEntry, RecordBatch
from kafkalog.codec.names import CLEAN_SHUTDOWN_FILE
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log.disk.files import FileSource
from kafkalog.log.storage.producers.evidence import opened_of
from kafkalog.log.storage.producers.snapshot_check import OpenWithoutGap, SnapshotCheck
from kafkalog.recovery import Recovery, plan, recover
from testkit.recorded.fixture_data import broker_case

CASE = broker_case("4.1.1", "txn")
PARTITION = "trades-41-0"
LAST, END = 197, 211
AT_ONCE = 1795221400000
"""a minute after the recording, when no producer has expired"""
IDEMPOTENT = "sensors-22-0"
OPEN = {1002, 1003}
"""producers with an open transaction at the log's end"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (root,) = CASE.unpack(tmp_path / "data").iterdir()
    return root


def snapshot(root: Path, offset: int, partition: str = PARTITION) -> Path:
    return root / partition / f"{offset:020}.snapshot"


def entries(path: Path) -> list[ProducerEntry]:
    return list(decode_producer_snapshot(path.read_bytes()))


def of_another_partition(root: Path) -> None:
    shutil.copy(snapshot(root, 105, "sensors-0-0"), snapshot(root, END))


def older(root: Path) -> None:
    shutil.copy(snapshot(root, LAST), snapshot(root, END))


def without_open_transactions(root: Path) -> None:
    path = snapshot(root, END)
    path.write_bytes(encode_producer_snapshot([entry for entry in entries(path) if entry.producer_id not in OPEN]))


def with_a_transaction_that_ended(root: Path) -> None:
    """Producer 3's transaction from offset 114 on, which the log says was aborted."""
    path = snapshot(root, END)
    changed = [
        replace(entry, current_txn_first_offset=114) if entry.producer_id == 3 else entry for entry in entries(path)
    ]
    path.write_bytes(encode_producer_snapshot(changed))


WRONG = [of_another_partition, older, without_open_transactions, with_a_transaction_that_ended]


def found(root: Path, *, deep: bool = True) -> list[str]:
    findings = [each for partition in verify(root, deep=deep).directories[0].partitions for each in partition.findings]
    return [f"{finding.code} {Path(finding.file or '').name}" for finding in findings]


@pytest.mark.parametrize("deep", [True, False])
@pytest.mark.parametrize("change", WRONG)
def test_one_that_contradicts_the_log_is_found_and_mended(
    change: Callable[[Path], None], deep: bool, root: Path
) -> None:
    path = snapshot(root, END)
    right = path.read_bytes()
    change(root)
    assert found(root, deep=deep) == [f"snapshot_mismatch {path.name}"]
    (planned,) = plan(root)
    assert FindingCode.SNAPSHOT_MISMATCH in {finding.code for finding in planned.findings}
    recover(Recovery(at=AT_ONCE), root)
    assert path.read_bytes() == right
    assert found(root, deep=deep) == []


def test_a_full_recovery_mends_the_one_from_which_a_start_goes_on(root: Path) -> None:
    path = snapshot(root, LAST)
    right = path.read_bytes()
    shutil.copy(snapshot(root, 105, "sensors-0-0"), path)
    assert found(root) == [f"snapshot_mismatch {path.name}"]
    (planned,) = plan(root)
    assert FindingCode.SNAPSHOT_MISMATCH in {finding.code for finding in planned.findings}
    recover(Recovery(at=AT_ONCE, full=True), root)
    assert path.read_bytes() == right


def test_expired_producers_are_missing_without_fault(root: Path) -> None:
    path = snapshot(root, END)
    path.write_bytes(encode_producer_snapshot([entry for entry in entries(path) if entry.producer_id in OPEN]))
    assert found(root) == []


def test_one_that_knows_more_than_a_log_with_a_gap_is_not_wrong(root: Path) -> None:
    """The markers of producers 3 and 4 are in the segment that is gone."""
    for file in (root / PARTITION).glob(f"{86:020}.*"):
        file.unlink()
    assert [code for code in found(root) if "snapshot" in code] == []


def batches(root: Path) -> Iterator[RecordBatch]:
    for log in sorted((root / PARTITION).glob("*.log")):
        with FileSource(str(log)) as source:
            yield from Scanner(source)


@pytest.mark.compiled
@pytest.mark.parametrize("change", [lambda _root: None, *WRONG])
def test_runs_are_compared_as_batches_are(change: Callable[[Path], None], root: Path) -> None:
    recorded = opened_of(entries(snapshot(root, END)))
    change(root)
    one, many = (SnapshotCheck(entries(snapshot(root, END)), END) for _ in range(2))
    open_one, open_many = OpenWithoutGap(), OpenWithoutGap()
    for batch in batches(root):
        one.run(OneBatch(batch))
        open_one.run(OneBatch(batch))
    for log in sorted((root / PARTITION).glob("*.log")):
        with FileSource(str(log)) as source:
            for run in RunScanner(source):
                assert isinstance(run, BatchRun)
                many.run(run)
                open_many.run(run)
    assert (one.problem, one.is_confirmed) == (many.problem, many.is_confirmed)
    assert open_one.opened == open_many.opened == recorded


def test_a_snapshot_beyond_the_end_of_the_log_shows_that_the_end_is_lost(root: Path) -> None:
    """The checkpoints are gone too, as in a copy that was put together from two moments."""
    folder = root / PARTITION
    log = max(path for path in folder.glob("*.log") if path.stat().st_size)
    with FileSource(str(log)) as source:
        batch = list(Scanner(source))[-1]
    end = batch.header.first_offset
    whole = log.read_bytes()
    log.write_bytes(whole[: batch.position])
    for path in root.glob("*-offset-checkpoint"):
        path.unlink()
    (told,) = [each for each in verify(root).findings if each.code is FindingCode.SNAPSHOT_MISMATCH]
    assert (told.file, told.offset, told.severity) == (str(snapshot(root, END)), end, "warning")
    (lost,) = plan(root)[0].choice.own_by_partition[PARTITION].lost
    assert (lost.first, lost.last) == (end, END - 1)
    log.write_bytes(whole[: batch.position + 70])
    later = snapshot(root, END).rename(snapshot(root, END + 1))
    (told,) = [each for each in verify(root).findings if each.code is FindingCode.SNAPSHOT_MISMATCH]
    assert (told.file, told.offset) == (str(later), end), "what a torn batch claims is not the log's end"
    assert f"written when the log ended at {END + 1}, and it ends at {end}" in told.detail
    later.rename(snapshot(root, END + 2**32))
    assert not [each for each in verify(root).findings if each.code is FindingCode.SNAPSHOT_MISMATCH]


def delete_all(root: Path, partition: str = PARTITION) -> None:
    for path in (root / partition).glob("*.snapshot"):
        path.unlink()


def started_on_none(root: Path) -> None:
    """What a start leaves that finds no snapshot."""
    delete_all(root)
    recover(Recovery(mode="kafka", at=AT_ONCE), root)
    (root / CLEAN_SHUTDOWN_FILE).touch()


def mismatches(root: Path) -> list[Finding]:
    return [finding for finding in verify(root).findings if finding.code is FindingCode.SNAPSHOT_MISMATCH]


@pytest.mark.parametrize("forget", [delete_all, started_on_none])
def test_a_start_after_a_clean_stop_forgets_open_transactions_that_no_snapshot_lists(
    forget: Callable[[Path], None], root: Path
) -> None:
    path = snapshot(root, END)
    right = path.read_bytes()
    opened = opened_of(entries(path))
    assert (root / CLEAN_SHUTDOWN_FILE).exists()
    forget(root)
    (finding,) = mismatches(root)
    first = min(opened)
    assert (finding.severity, finding.file) == ("error", str(path))
    assert f"a start forgets the open transaction of producer {first} from offset {opened[first]}" in finding.detail
    (planned,) = plan(root)
    assert planned.changes
    assert FindingCode.SNAPSHOT_MISMATCH in {each.code for each in planned.findings}
    recover(Recovery(at=AT_ONCE), root)
    assert path.read_bytes() == right
    assert mismatches(root) == []


@pytest.mark.parametrize("forget", [delete_all, started_on_none])
def test_a_start_after_a_kill_rebuilds_the_producers(forget: Callable[[Path], None], root: Path) -> None:
    forget(root)
    (root / CLEAN_SHUTDOWN_FILE).unlink()
    assert mismatches(root) == []


def test_a_start_after_a_clean_stop_forgets_sequences_without_any_snapshot(root: Path) -> None:
    delete_all(root, IDEMPOTENT)
    (finding,) = mismatches(root)
    assert (finding.severity, Path(finding.file or "").parent.name) == ("warning", IDEMPOTENT)
    assert "a retry can be written twice" in finding.detail
    recover(Recovery(at=AT_ONCE), root)
    assert mismatches(root) == []
