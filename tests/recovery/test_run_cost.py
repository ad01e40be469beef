"""What recovery and verification read and do is in proportion to the data: holes are none, and nothing is quadratic."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import kafkalog
from kafkalog.codec.encode import build_batch
from kafkalog.codec.model import Record, TimestampType
from kafkalog.codec.names import FileKind
from kafkalog.log.walk.summary import summarize
from kafkalog.recovery.damage.bit_repair import Proof
from testkit.judging.counting import bytes_read, calls_of, lines_of
from testkit.made.side_file_names import PLACES, small_log_dir

Work = Callable[[Path], object]
MIB = 1 << 20
WORKS: dict[str, Work] = {
    "ls": lambda root: [summarize(each) for part in kafkalog.open(root).partitions for each in part.segments],
    "dump": lambda root: [list(each.records()) for each in kafkalog.open(root).partitions],
    "to_arrow": lambda root: [
        each.to_arrow(findings=[], on_damage="stop").read_all() for each in kafkalog.open(root).partitions
    ],
    "verify": kafkalog.verify,
    "plan": kafkalog.plan,
    "plan, salvage": lambda root: kafkalog.plan(kafkalog.Recovery(mode="salvage"), root)[0],
    "plan, repairing bits": lambda root: kafkalog.plan(
        kafkalog.Recovery(mode="salvage", repair_bits=Proof.CRC_ONLY), root
    )[0],
    "plan, kafka": lambda root: kafkalog.plan(kafkalog.Recovery(mode="kafka"), root)[0],
}


def has_holes(folder: Path) -> bool:
    path = folder / "sparse"
    with path.open("wb") as file:
        file.truncate(MIB)
        try:
            os.lseek(file.fileno(), 0, os.SEEK_DATA)
        except OSError:
            return True
    return False


def batch(offset: int) -> bytes:
    return build_batch([Record(offset, 1_700_000_000_000, TimestampType.CREATE_TIME, None, b"value")])


def log_dir(root: Path, segments: int) -> Path:
    partition = root / "t-0"
    partition.mkdir(parents=True)
    (root / "recovery-point-offset-checkpoint").write_bytes(b"0\n0\n")
    for base in range(segments):
        (partition / f"{base:020d}.log").touch()
    return partition


def sizes_read(work: Work, root: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    with bytes_read(monkeypatch) as sizes:
        work(root)
    assert sizes, "reads are counted"
    return sum(sizes)


@pytest.mark.parametrize("what", WORKS)
def test_a_hole_behind_the_log_is_not_read(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert has_holes(tmp_path)
    cost = []
    for size in (512 * MIB, 1024 * MIB, 1 << 40):
        root = tmp_path / str(size)
        path = log_dir(root, 1) / f"{0:020d}.log"
        path.write_bytes(batch(0) + batch(1)[:30])
        os.truncate(path, size)
        cost.append(sizes_read(WORKS[what], root, monkeypatch))
    assert cost[1] <= cost[0] + 64, cost
    assert cost[2] <= cost[0] + 64, cost


@pytest.mark.parametrize("what", WORKS)
@pytest.mark.parametrize("kind", [FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX])
def test_reserved_room_of_an_index_is_not_read(
    kind: FileKind, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cost = []
    for size in (4 * MIB, 256 * MIB):
        root = tmp_path / str(size)
        stem = log_dir(root, 1) / f"{0:020d}"
        stem.with_suffix(".log").write_bytes(batch(0))
        for each in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
            stem.with_suffix(each.value).touch()
        with stem.with_suffix(kind.value).open("wb") as file:
            file.truncate(size)
        cost.append(sizes_read(WORKS[what], root, monkeypatch))
    assert cost[1] <= cost[0] + 64, cost


@pytest.mark.sweep
@pytest.mark.parametrize("what", ["ls", "verify", "plan", "plan, salvage", "plan, kafka"])
def test_empty_segments_cost_in_proportion(what: str, tmp_path: Path, measured: Callable[[str, int], None]) -> None:
    cost = []
    for segments in (150, 300):
        root = tmp_path / str(segments)
        log_dir(root, segments)
        cost.append(calls_of(lambda root=root: WORKS[what](root)))  # type: ignore[misc]
    measured(f"calls of {what} for each of 300 empty segments", cost[1] // 300)
    assert cost[1] < 2.3 * cost[0], cost


def test_many_leader_epochs_cost_in_proportion(tmp_path: Path) -> None:
    """A log in which every batch has an epoch of its own."""
    cost = []
    for batches in (150, 300):
        root = tmp_path / str(batches)
        written = b"".join(
            build_batch(
                [Record(number, 1_700_000_000_000, TimestampType.CREATE_TIME, None, b"v")],
                base_offset=number,
                partition_leader_epoch=number,
            )
            for number in range(batches)
        )
        (log_dir(root, 1) / f"{0:020d}.log").write_bytes(written)
        cost.append(calls_of(lambda root=root: kafkalog.plan(root)[0]))  # type: ignore[misc]
    assert cost[1] < 2.3 * cost[0], cost


def every_other_damaged(root: Path, batches: int) -> Path:
    written = bytearray()
    for number in range(batches):
        each = bytearray(
            build_batch([Record(number, 1_700_000_000_000, TimestampType.CREATE_TIME, b"k", b"v")], base_offset=number)
        )
        each[-2] ^= number % 2
        written += each
    (log_dir(root, 1) / f"{0:020d}.log").write_bytes(written)
    return root


@pytest.mark.sweep
def test_many_damaged_places_are_read_in_proportion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A walk that ends soon after it began reads little ahead."""
    cost = [
        sizes_read(kafkalog.plan, every_other_damaged(tmp_path / str(batches), batches), monkeypatch)
        for batches in (1000, 2000)
    ]
    assert cost[1] < 2.3 * cost[0], cost


@pytest.mark.sweep
def test_many_damaged_places_cost_in_proportion(tmp_path: Path) -> None:
    cost = []
    for batches in (400, 800):
        root = every_other_damaged(tmp_path / str(batches), batches)
        cost.append(lines_of(lambda root=root: kafkalog.plan(root)[0], "recovery"))  # type: ignore[misc]
    assert cost[1] < 2.3 * cost[0], cost


def test_many_directories_that_go_cost_in_proportion(tmp_path: Path) -> None:
    cost = []
    for count in (150, 300):
        root = tmp_path / str(count)
        log_dir(root, 1)
        for number in range(count):
            (root / f"foreign.{number}").mkdir()
            (root / f"foreign.{number}" / "file").touch()
        cost.append(calls_of(lambda root=root: kafkalog.plan(root)[0]))  # type: ignore[misc]
    assert cost[1] < 2.3 * cost[0], cost


@pytest.mark.parametrize("kind", PLACES)
def test_a_huge_file_of_any_kind_is_not_read(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sparse, so that only reading it can cost anything."""
    for what in ("ls", "verify", "plan", "plan, kafka"):
        root = tmp_path / what
        small_log_dir(root)
        path = root / PLACES[kind]
        path.unlink(missing_ok=True)
        with path.open("wb") as file:
            file.truncate(3 << 30)
        with bytes_read(monkeypatch) as sizes:
            WORKS[what](root)
        assert sum(sizes) < 384 * MIB, (what, sum(sizes))  # of 3 GiB: a window for each walk of each way
        assert max(sizes, default=0) <= 8 * MIB, (what, max(sizes))


@pytest.mark.parametrize("what", ["ls", "verify", "plan", "plan, salvage", "plan, kafka"])
def test_partitions_with_reserved_indexes_cost_in_proportion(what: str, tmp_path: Path) -> None:
    cost = []
    for count in (40, 80):
        root = tmp_path / str(count)
        for number in range(count):
            stem = root / f"t-{number}" / f"{0:020d}"
            stem.parent.mkdir(parents=True)
            stem.with_suffix(".log").write_bytes(batch(0))
            for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
                with stem.with_suffix(kind.value).open("wb") as file:
                    file.truncate(10 * MIB)
        (root / "recovery-point-offset-checkpoint").write_bytes(b"0\n0\n")
        cost.append(calls_of(lambda root=root: WORKS[what](root)))  # type: ignore[misc]
    assert cost[1] < 2.3 * cost[0], cost
