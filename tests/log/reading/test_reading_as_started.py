"""Readers have what a broker's start leaves: segments under `.swap`, transactions below the log start, new epochs."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog.codec.encode.batch import build_end_transaction_marker
from kafkalog.codec.files.index_files import encode_producer_snapshot
from kafkalog.codec.model import ControlType, EndTransactionMarker, ProducerEntry
from kafkalog.codec.names import FileKind, segment_file
from kafkalog.log.directories.follow import Follower
from kafkalog.log.storage.producers.known_producers import InOrder
from testkit.made.batches import batch, record, records_batch
from testkit.running.command import kafkalog as command

PRODUCER = 7
TRANSACTIONAL = 1 << 4


def written(offset: int, value: bytes = b"v") -> bytes:
    return records_batch(record(value=value), base_offset=offset)


def transactional(offset: int) -> bytes:
    return batch(
        record(), 1, base_offset=offset, attributes=TRANSACTIONAL, producer_id=PRODUCER, producer_epoch=0,
        base_sequence=0,
    )  # fmt: skip


def marker(offset: int, kind: ControlType) -> bytes:
    return build_end_transaction_marker(
        EndTransactionMarker(kind, 0), base_offset=offset, timestamp=0, producer_id=PRODUCER, producer_epoch=0
    )


def log_dir(root: Path, logs: dict[int, bytes], start: int | None = None) -> Path:
    partition = root / "t-0"
    partition.mkdir(parents=True)
    for base, data in logs.items():
        for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
            (partition / segment_file(base, kind)).touch()
        (partition / segment_file(base, FileKind.LOG)).write_bytes(data)
    (partition / "partition.metadata").write_text("version: 0\ntopic_id: EY8sFxa5y9ipvMtiaRixAA")
    (root / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    if start is not None:
        (root / "log-start-offset-checkpoint").write_text(f"0\n1\nt 0 {start}\n")
    return partition


def offsets(root: Path, **options: Any) -> list[int]:
    return [record.offset for record in kafkalog.open(root)["t", 0].records(kafkalog.RecordFilter(**options))]


# --- segments that replace others -----------------------------------------------------------------------------------

THREE = {base: b"".join(written(offset) for offset in range(base, base + 10)) for base in (0, 10, 20)}


def swapped(partition: Path, base: int) -> None:
    for kind in (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
        path = partition / segment_file(base, kind)
        path.rename(f"{path}.swap")


@pytest.mark.parametrize("bases", [each for count in (1, 2, 3) for each in itertools.combinations(THREE, count)])
def test_a_segment_under_swap_is_read_in_its_place(bases: tuple[int, ...], tmp_path: Path) -> None:
    """`LogLoader.load` deletes what lies between the first base and the last end of these, and renames them."""
    partition = log_dir(tmp_path / "data", THREE)
    for base in bases:
        swapped(partition, base)
    gone = {base for base in THREE if bases[0] <= base < bases[-1] + 10} - {*bases}
    wanted = [offset for base in THREE if base not in gone for offset in range(base, base + 10)]
    assert offsets(tmp_path / "data") == wanted
    table = kafkalog.open(tmp_path / "data")["t", 0].to_arrow(["offset"]).read_all()
    assert table["offset"].to_pylist() == wanted
    assert command("ls", tmp_path / "data").code in (0, 1)
    kafkalog.recover(kafkalog.Recovery(mode="kafka"), tmp_path / "data")
    assert not list(partition.glob("*.swap"))
    assert offsets(tmp_path / "data") == wanted


def test_what_a_swap_covers_is_not_read_twice(tmp_path: Path) -> None:
    """The old segments are still there: the crash came before they were renamed."""
    partition = log_dir(tmp_path / "data", THREE)
    cleaned = written(3, b"cleaned") + written(17, b"cleaned")
    (partition / (segment_file(0, FileKind.LOG) + ".swap")).write_bytes(cleaned)
    found = [(each.offset, each.value) for each in kafkalog.open(tmp_path / "data")["t", 0].records()]
    assert found == [(3, b"cleaned"), (17, b"cleaned"), *((offset, b"v") for offset in range(20, 30))]


def test_a_swap_is_given_up_where_another_one_is_not_whole(tmp_path: Path) -> None:
    """A start deletes `.swap` from the smallest `.cleaned` on: what they were to replace is still there."""
    partition = log_dir(tmp_path / "data", THREE)
    for suffix in (".swap", ".cleaned"):
        (partition / (segment_file(10, FileKind.LOG) + suffix)).write_bytes(written(10, b"cleaned"))
    assert offsets(tmp_path / "data") == [*range(30)]


# --- transactions below the log start -------------------------------------------------------------------------------


def snapshot(partition: Path, offset: int, first: int) -> None:
    entry = ProducerEntry(PRODUCER, 0, 0, 0, 0, 0, -1, first)
    (partition / segment_file(offset, FileKind.PRODUCER_SNAPSHOT)).write_bytes(encode_producer_snapshot([entry]))


CASES = {
    "no snapshot": ({}, [2, 3], 4),
    "a snapshot that knows it": ({3: 0}, [], 2),
    "a snapshot at the start": ({2: 0}, [2, 3], 4),
    "a snapshot above the end": ({9: 0}, [2, 3], 4),
    "a newer one that knows it no more": ({3: 0, 4: -1}, [2, 3], 4),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("one_segment", [False, True])
def test_a_transaction_below_the_log_start_is_what_a_start_makes_of_it(
    case: str, one_segment: bool, tmp_path: Path
) -> None:
    """`UnifiedLog.rebuildProducerState`: from the newest snapshot above the log start, else from the log start."""
    snapshots, wanted, stable = CASES[case]
    first, second = transactional(0) + written(1), written(2) + written(3)
    partition = log_dir(tmp_path / "data", {0: first + second} if one_segment else {0: first, 2: second}, start=2)
    for offset, opened in snapshots.items():
        snapshot(partition, offset, opened)
    assert offsets(tmp_path / "data", isolation_level="read_committed") == wanted
    found = kafkalog.open(tmp_path / "data")["t", 0]
    assert found.last_stable_offset() == stable
    followed = Follower(transactions=True).look(found)
    assert followed.last_stable_offset == stable
    assert (found.transactions().why_it_ends() is None) is (stable == 4)


@pytest.mark.parametrize("kind", [ControlType.COMMIT, ControlType.ABORT])
@pytest.mark.parametrize("is_known", [True, False])
def test_a_transaction_that_a_snapshot_knows_ends_at_its_marker(
    kind: ControlType, is_known: bool, tmp_path: Path
) -> None:
    logs = {0: transactional(0) + written(1), 2: transactional(2) + marker(3, kind) + written(4)}
    partition = log_dir(tmp_path / "data", logs, start=2)
    if is_known:
        snapshot(partition, 3, 0)
    wanted = [2, 4] if kind is ControlType.COMMIT else [4]
    assert offsets(tmp_path / "data", isolation_level="read_committed") == wanted


# --- leader epochs of a log that was cut ----------------------------------------------------------------------------


def epochs(partition: Path) -> list[tuple[int, int]]:
    return [(each.epoch, each.start_offset) for each in kafkalog.open_partition(partition).leader_epochs]


def test_a_log_that_was_truncated_goes_on_in_a_new_epoch(tmp_path: Path) -> None:
    with kafkalog.Log.open(tmp_path / "t-0") as log:
        for value in (b"a", b"b", b"c"):
            log.append([value])
        assert not log.truncate_to(3)
        log.append([b"d"])
        assert epochs(tmp_path / "t-0") == [(0, 0)]
        assert log.truncate_to(2)
        assert log.leader_epoch == 1
        log.append([b"x"])
        log.append([b"y"])
        assert epochs(tmp_path / "t-0") == [(0, 0), (1, 2)]
        log.truncate_fully_and_start_at(10)
        log.append([b"z"])
        assert epochs(tmp_path / "t-0") == [(2, 10)]


@pytest.mark.parametrize("kept", [0, 2])
def test_a_log_that_recovery_has_cut_goes_on_in_a_new_epoch_once(kept: int, tmp_path: Path) -> None:
    root = tmp_path / "data"
    root.mkdir()
    with kafkalog.Log.open(root / "t-0") as log:
        for value in (b"a", b"b", b"c"):
            log.append([value], leader_epoch=5)
        end = [each.position for each in kafkalog.open_partition(root / "t-0").batches()][kept]
    path = root / "t-0" / segment_file(0, FileKind.LOG)
    path.write_bytes(path.read_bytes()[: end + 20])
    (root / ".kafka_cleanshutdown").unlink()
    run = kafkalog.recover(kafkalog.Recovery(accept_loss=True), root)[0]
    assert run.run_id is not None
    for _ in range(3):
        with kafkalog.Log.open(root / "t-0") as log:
            log.append([b"new"])
    assert epochs(root / "t-0") == [*([(5, 0)] if kept else []), (6, kept)]


def test_an_undamaged_log_keeps_its_epoch(tmp_path: Path) -> None:
    for _ in range(3):
        with kafkalog.Log.open(tmp_path / "t-0") as log:
            log.append([b"new"])
    kafkalog.recover(kafkalog.Recovery(full=True), tmp_path)
    with kafkalog.Log.open(tmp_path / "t-0") as log:
        log.append([b"new"])
    assert epochs(tmp_path / "t-0") == [(0, 0)]


# --- what costs with the square of a number -------------------------------------------------------------------------


class Counted(int):
    """An offset that counts how often it is compared."""

    compared = 0

    def __lt__(self, other: int) -> bool:
        Counted.compared += 1
        return int(self) < other

    def __gt__(self, other: int) -> bool:
        Counted.compared += 1
        return int(self) > other

    __hash__ = int.__hash__


@pytest.mark.parametrize("order", ["first in, first out", "last in, first out"])
def test_the_first_of_many_open_transactions_costs_no_look_at_all(order: str) -> None:
    cost = []
    for count in (500, 1000, 2000):
        Counted.compared = 0
        found = InOrder()
        for number in range(count):
            found[Counted(number)] = number
            assert found.first == 0
        ends = range(count) if order == "first in, first out" else reversed(range(count))
        for number in ends:
            other = found.first_of_other(number)
            assert other != number
            del found[Counted(number)]
        assert found.first is None
        cost.append(Counted.compared)
    assert cost[2] - cost[1] < 2.5 * (cost[1] - cost[0]) + 1000, cost


def test_transactions_are_kept_in_the_order_of_their_offsets() -> None:
    found = InOrder()
    for offset, producer in ((5, 1), (3, 2), (9, 1), (3, 4)):
        found[offset] = producer
    assert (found.first, found.first_of_other(4), found.first_of_other(1)) == (3, 5, 3)
    del found[3]
    found[3] = 1
    assert (found.first, found.first_of_other(1)) == (3, None)
    found.keep_from(2)
    assert not found
    assert found.first is None
