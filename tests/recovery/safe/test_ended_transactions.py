"""Transactions whose end markers are among the batches that mode salvage leaves out.

Expected values are the recorded broker's own producer snapshots and transaction indexes.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog import open_partition
from kafkalog.codec.files.index_files import decode_producer_snapshot
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log.disk.files import FileSource
from kafkalog.recovery import Recovery, plan, recover
from kafkalog.recovery.rebuilding import IndexRebuild, rebuild_indexes
from testkit.recorded.fixture_data import broker_case

CASE = broker_case("4.1.1", "txn")
PARTITION = "trades-41-0"
DAMAGED, BEHIND, LAST, END = 86, 189, 197, 211
AT_ONCE = 1795221400000
"""a minute after the recording"""
LATER = AT_ONCE + 30 * 24 * 3600 * 1000
"""all producers without a transaction have expired"""


def file(root: Path, offset: int, kind: str) -> Path:
    return root / PARTITION / f"{offset:020}.{kind}"


def opened(root: Path, offset: int) -> dict[int, int]:
    """First offset of each open transaction by producer id, according to a snapshot."""
    entries = decode_producer_snapshot(file(root, offset, "snapshot").read_bytes())
    firsts = {entry.producer_id: entry.current_txn_first_offset for entry in entries}
    return {producer_id: first for producer_id, first in firsts.items() if first >= 0}


def indexes(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (root / PARTITION).glob("*.txnindex") if path.stat().st_size}


@pytest.fixture
def original(tmp_path: Path) -> Path:
    (root,) = CASE.unpack(tmp_path / "original").iterdir()
    return root


def damage(original: Path, target: Path, end: int = 8192) -> Path:
    """The directory after a crash, with zeros among which are the end markers of producers 3 and 4."""
    shutil.copytree(original, target)
    (target / ".kafka_cleanshutdown").unlink()
    log = file(target, DAMAGED, "log")
    content = bytearray(log.read_bytes())
    content[4096:end] = bytes(len(content[4096:end]))
    log.write_bytes(content)
    return target


@pytest.mark.parametrize("at", [AT_ONCE, LATER])
def test_a_transaction_that_ended_is_not_open_again(at: int, original: Path, tmp_path: Path) -> None:
    root = damage(original, tmp_path / "data")
    for request in (
        Recovery(at=at, mode="salvage"),
        Recovery(at=at, full=True),
        Recovery(at=at, mode="salvage", full=True),
        Recovery(at=at),
    ):
        recover(request, root)
        for offset in (BEHIND, LAST, END):
            assert opened(root, offset) == opened(original, offset), (request, offset)
        assert indexes(root) == indexes(original), "aborted records stay hidden"


def take_snapshots(root: Path) -> None:
    for offset in (BEHIND, LAST):
        file(root, offset, "snapshot").unlink()


def break_snapshots(root: Path) -> None:
    for offset in (BEHIND, LAST):
        data = bytearray(file(root, offset, "snapshot").read_bytes())
        data[-1] ^= 1
        file(root, offset, "snapshot").write_bytes(data)


def take_index(root: Path) -> None:
    file(root, DAMAGED, "txnindex").unlink()


def tear_index(root: Path) -> None:
    path = file(root, DAMAGED, "txnindex")
    path.write_bytes(path.read_bytes()[:-1])


def take_anothers_snapshots(root: Path) -> None:
    for offset in (BEHIND, LAST):
        shutil.copy(root / "sensors-0-0" / f"{105:020}.snapshot", file(root, offset, "snapshot"))


@pytest.mark.parametrize("change", [take_snapshots, break_snapshots, take_index, tear_index, take_anothers_snapshots])
def test_without_proof_a_transaction_stays_open(
    change: Callable[[Path], None], original: Path, tmp_path: Path
) -> None:
    """Whether the records of an ended transaction were aborted must be known before anybody may read them."""
    root = damage(original, tmp_path / "data")
    change(root)
    recover(Recovery(at=AT_ONCE, mode="salvage"), root)
    assert opened(root, END) == {**opened(original, END), 3: 114, 4: 111}


def test_a_plan_tells_what_its_recommendation_means_for_readers(original: Path, tmp_path: Path) -> None:
    """A broker with the index serves committed readers to the recorded 206; without it salvage stops them earlier."""
    root = damage(original, tmp_path / "data")
    assert min(opened(original, END).values()) == 206
    (planned,) = plan(root)
    assert planned.choice.recommended is not None
    assert (planned.choice.recommended.way, list(planned.consequences)) == ("salvage", [])
    take_index(root)
    (planned,) = plan(root)
    markers = [each for each in planned.consequences if each.kind == "marker_lost"]
    told = {each.detail.partition(" of trades")[0].rpartition(" ")[2]: each.way for each in markers}
    assert told == {"111": "salvage", "114": "salvage"}
    (index,) = [each for each in planned.consequences if each.kind != "marker_lost"]
    assert (index.kind, index.way) == ("aborted_records", None)
    assert f"until {DAMAGED:020}.txnindex is rebuilt, which a full recovery does" in index.detail


def test_where_a_segment_ends_is_not_known(original: Path, tmp_path: Path) -> None:
    """Another segment, with another transaction index, may have followed one whose last batches are lost."""
    root = damage(original, tmp_path / "data", end=1 << 20)
    recover(Recovery(at=AT_ONCE, mode="salvage"), root)
    assert opened(root, END) == {**opened(original, END), 3: 114, 4: 111}


def committed(root: Path, name: str) -> tuple[list[int], list[tuple[int, int, int]], int]:
    """What readers of committed data get: offsets, aborted transactions, and where they stop."""
    partition = open_partition(root / name)
    aborted = [(each.producer_id, each.first_offset, each.last_offset) for each in partition.aborted_transactions()]
    offsets = [record.offset for record in partition.records(isolation_level="read_committed")]
    return offsets, aborted, partition.last_stable_offset()


@pytest.mark.parametrize(
    "name", ["sensors-0-0", *(pytest.param(each, marks=pytest.mark.recorded) for each in ("sensors-0-1", PARTITION))]
)
def test_readers_of_committed_data_do_not_notice_that_a_marker_is_lost(
    name: str, original: Path, tmp_path: Path
) -> None:
    """Each marker in turn. The transaction of a marker at the end of a segment stays open, because it is not known
    whether another segment followed; that of one in the last segment does, as no snapshot is behind it.
    """
    partition = open_partition(original / name)
    by_segment = [list(Scanner(FileSource(segment.path))) for segment in partition.segments[:-1]]
    expected = committed(original, name)
    tried = 0
    for segment, batches in zip(partition.segments, by_segment, strict=False):
        for batch in batches[:-1]:
            if not batch.header.is_control:
                continue
            tried += 1
            root = tmp_path / str(batch.header.first_offset)
            shutil.copytree(original / name, root / name)
            log = file_of(root, name, segment.base_offset)
            content = bytearray(log.read_bytes())
            content[batch.position : batch.position + batch.size] = bytes(batch.size)
            log.write_bytes(content)
            recover(Recovery(at=AT_ONCE, mode="salvage", full=True), root)
            assert committed(root, name) == expected, batch.header
            rebuild_indexes(IndexRebuild(at=AT_ONCE), root)
            assert committed(root, name) == expected, batch.header
    assert tried >= 20


def file_of(root: Path, name: str, offset: int) -> Path:
    return root / name / f"{offset:020}.log"
