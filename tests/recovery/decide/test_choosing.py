"""Damages of our own: the way that `plan` recommends loses least, and following it loses what it said and nothing else.

Every way is carried out in a copy and what it leaves is counted by the record reader; then the command line that `plan`
prints is typed as it stands.  What was there before the damage is known, record for record.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog.codec.model import CONTROL_FLAG, BatchHeader
from kafkalog.log.reading.records import RecordReader
from testkit.judging.trees import stamps
from testkit.recorded.fixture_data import RecoveryCase, recovery_case
from testkit.recorded.recovery_settings import given
from testkit.running.command import kafkalog as command

PLAIN, GZIP, TRANSACTIONS, WRAPPERS = (
    recovery_case(f"undamaged/full-scan-{name}") for name in ("plain", "gzip", "txn", "v1")
)
Records = dict[int, tuple[bytes | None, bytes | None]]


class Log:
    """The logs of the damaged partition: positions and sizes of their batches as they were, and how to change them."""

    def __init__(self, root: Path) -> None:
        self.directory = root / "t-0"
        self.segments = sorted(path for path in self.directory.glob("*.log") if path.stat().st_size)
        self._batches = {path: list(kafkalog.open_segment(path).batches()) for path in self.segments}

    def batch(self, segment: int, number: int) -> tuple[int, int]:
        """Position and size."""
        found = self._batches[self.segments[segment]][number]
        return found.position, found.size

    def control(self) -> tuple[int, int]:
        """Segment and number of the first marker of a transaction."""
        return next((segment, number) for segment, path in enumerate(self.segments)
                    for number, each in enumerate(self._batches[path])
                    if each.header.attributes & CONTROL_FLAG)  # fmt: skip

    def change(self, segment: int, how: Callable[[bytearray], None]) -> None:
        """Change the bytes of one log."""
        data = bytearray(self.segments[segment].read_bytes())
        how(data)
        self.segments[segment].write_bytes(data)

    def flip(self, segment: int, number: int, at: int, mask: int = 1) -> None:
        """Turn bits of one byte of a batch over."""
        position, size = self.batch(segment, number)

        def turn(data: bytearray) -> None:
            data[position + at % size] ^= mask

        self.change(segment, turn)

    def fill(self, segment: int, number: int, value: bytes) -> None:
        """Write over the middle of a batch."""
        position, size = self.batch(segment, number)
        middle = position + size // 2

        def write(data: bytearray) -> None:
            data[middle : middle + len(value)] = value

        self.change(segment, write)


def zeros_over_batches(log: Log) -> None:
    start, end = log.batch(1, 2)[0] + 20, sum(log.batch(1, 4)) - 20

    def zero(data: bytearray) -> None:
        data[start:end] = bytes(end - start)

    log.change(1, zero)


def lost_end(log: Log) -> None:
    position, size = log.batch(-1, -1)
    log.change(-1, lambda data: data.__delitem__(slice(position + size // 2, None)))


def swapped_pages(log: Log) -> None:
    a, b, size = log.batch(0, 1)[0] + 30, log.batch(0, 6)[0] + 30, 128

    def swap(data: bytearray) -> None:
        data[a : a + size], data[b : b + size] = data[b : b + size], data[a : a + size]

    log.change(0, swap)


def cut_middle_segment(log: Log) -> None:
    position, size = log.batch(1, -2)
    log.change(1, lambda data: data.__delitem__(slice(position + size // 2, None)))


def missing_segment(log: Log) -> None:
    for path in log.directory.glob(f"{log.segments[1].stem}.*"):
        path.unlink()


def foreign_bytes(log: Log) -> None:
    position = log.batch(1, 3)[0]

    def insert(data: bytearray) -> None:
        data[position:position] = b"these bytes are no batch of anybody's" * 3

    log.change(1, insert)


def duplicated_batch(log: Log) -> None:
    position, size = log.batch(0, 3)

    def insert(data: bytearray) -> None:
        data[position + size : position + size] = data[position : position + size]

    log.change(0, insert)


def index(log: Log) -> None:
    path = log.segments[0].with_suffix(".index")
    path.write_bytes(bytes(each ^ 0xFF for each in path.read_bytes()))


def snapshot(log: Log) -> None:
    path = max(log.directory.glob("*.snapshot"))
    path.write_bytes(path.read_bytes()[:-1] + b"\xff\xff")


def epochs(log: Log) -> None:
    (log.directory / "leader-epoch-checkpoint").write_bytes(b"0\n1\n7 ")


def marker(log: Log) -> None:
    log.flip(*log.control(), -1, 0x81)


def several_in_one(log: Log) -> None:
    log.flip(0, 2, -3, 0x24)
    log.flip(0, 5, -3, 0x42)
    log.flip(0, 8, 40, 0x18)


def in_two_segments(log: Log) -> None:
    log.fill(0, 4, b"\xaa" * 7)
    log.fill(2, 1, b"\x55" * 7)


def first_and_last(log: Log) -> None:
    log.flip(0, 0, -1, 0x21)
    log.flip(-1, -1, -1, 0x21)


@dataclass(frozen=True)
class Damage:
    """What is done to which log."""

    what: str
    do: Callable[[Log], None]
    case: RecoveryCase = PLAIN
    least: int | None = None
    """the records that no way can save; None: whatever the least is"""
    moved: int = 0
    """what is added to the offsets of a batch: they are not under its checksum, so it stays under others"""


DAMAGES = (
    Damage("a bit of a record", lambda log: log.flip(0, 3, -5), least=0),
    Damage("two bits of a record", lambda log: log.flip(0, 3, -5, 0x21)),
    Damage("a bit of the header", lambda log: log.flip(0, 5, 30), least=0),
    Damage("a bit of the checksum", lambda log: log.flip(1, 2, 17), least=0),
    Damage("a bit of the length", lambda log: log.flip(1, 3, 9, 0x40)),
    Damage("a bit of the offset", lambda log: log.flip(1, 3, 6, 0x10), least=0, moved=0x1000),
    Damage("zeros over batches", zeros_over_batches),
    Damage("the end is lost", lost_end),
    Damage("two swapped pages", swapped_pages),
    Damage("a middle segment cut short", cut_middle_segment),
    Damage("a missing segment", missing_segment),
    Damage("foreign bytes between batches", foreign_bytes, least=0),
    Damage("a batch twice", duplicated_batch, least=0),
    Damage("an index", index, least=0),
    Damage("a snapshot", snapshot, TRANSACTIONS, least=0),
    Damage("the leader epochs", epochs, least=0),
    Damage("a compressed batch", lambda log: log.fill(0, 2, b"\0\xff\0\xff"), GZIP),
    Damage("a transaction's batch", lambda log: log.fill(0, 1, b"\0\xff"), TRANSACTIONS),
    Damage("a transaction's marker", marker, TRANSACTIONS, least=0),
    Damage("a wrapper of magic 1", lambda log: log.fill(0, 4, b"\0\xff\0"), WRAPPERS),
    Damage("several in one segment", several_in_one),
    Damage("in two segments", in_two_segments),
    Damage("the first and the last batch", first_and_last),
)


def readable(root: Path, moved: int = 0) -> Records:
    """Offset -> key and value of every record that can be read anywhere in the partition; moved ones as they were."""
    found: Records = {}
    for batch, records in RecordReader(kafkalog.open_partition(root / "t-0"), all_records=True).by_batch():
        header = batch.header
        if not (isinstance(header, BatchHeader) and header.attributes & CONTROL_FLAG):
            back = moved if moved and records and records[0].offset >= moved else 0
            found.update((each.offset - back, (each.key, each.value)) for each in records)
    return found


def words_of(case: RecoveryCase) -> list[str]:
    settings = given(case)
    config = [word for name, value in settings["config"].items() for word in ("--config", f"{name}={value}")]
    return [*config, "--at", str(settings["at"]), "--full"]


def said_lost(way: dict[str, Any], moved: int) -> set[int]:
    return {
        offset - moved if moved and offset >= moved else offset
        for each in way["offsets_lost"]
        for offset in range(each["first"], (10**4 if each["last"] is None else each["last"]) + 1)
    }


def carried_out(root: Path, way: dict[str, Any], words: list[str], moved: int) -> Records | None:
    """What a way leaves, done in this copy; None where a broker would not start."""
    mode = ["--mode", "kafka"] if way["records_kept"] is None else []
    finished = command("recover", "--yes", *words, *mode, *way["needs"], root)
    if way["records_kept"] is None:
        assert finished.code == 3, finished
        return None
    assert finished.code in (0, 2), (way, finished)
    return readable(root, moved)


@pytest.mark.parametrize("damage", DAMAGES, ids=[each.what for each in DAMAGES])
def test_the_recommended_way_loses_least_and_what_it_said(
    damage: Damage, tmp_path: Path, compared: Callable[[str, int], None]
) -> None:
    root, words = damage.case.unpack_before(tmp_path / "logs"), words_of(damage.case)
    whole = readable(root)
    damage.do(Log(root))
    before = stamps(root)
    planned = command("plan", "--json", *words, root)
    assert planned.code == 1, planned
    (line,) = planned.objects
    lost: dict[tuple[str, ...], int] = {}
    for way in line["ways"]:
        copy = tmp_path / "copy"
        shutil.copytree(root, copy)
        left = carried_out(copy, way, words, damage.moved)
        shutil.rmtree(copy)
        shutil.rmtree(tmp_path / "copy.recovery", ignore_errors=True)
        if left is None:
            continue
        assert len(left) == way["records_kept"], way
        gone = whole.keys() - left.keys()
        assert all(whole[offset] == left[offset] for offset in left), way
        assert gone <= said_lost(way, damage.moved), way
        if way["records_lost_is_exact"]:
            assert len(gone) == way["records_lost"], way
        lost[way["way"], *way["needs"]] = len(gone)
        compared("ways of our own damages that kept what was said", 1)
    (best,) = [
        way for way in line["ways"] if (way["way"], way["needs"]) == (line["recommended"], line["recommended_needs"])
    ]
    assert lost[best["way"], *best["needs"]] == min(lost.values()), lost
    if damage.least is not None:
        assert min(lost.values()) == damage.least
    assert stamps(root) == before

    printed = command("plan", *words, root).out
    typed = [each.strip() for each in printed.splitlines() if each.startswith("  kafkalog ")]
    if not typed:  # nothing is lost, whichever way is taken; or what is missing is not there to be brought back
        is_done = "nothing is left to do here" in printed
        assert (not line["actions"]) if is_done else not any(way["records_lost"] for way in line["ways"])
        typed = [shlex.join(["kafkalog", "recover", "--yes", *words, str(root)])]
    finished = command(*shlex.split(typed[0])[1:])
    assert finished.code in (0, 2), finished
    left = readable(root, damage.moved)
    assert len(whole.keys() - left.keys()) == lost[best["way"], *best["needs"]]
    assert whole.keys() - left.keys() <= said_lost(best, damage.moved)
    assert left.items() <= whole.items()
    compared("recommendations that were followed to the letter", 1)


def test_a_recommended_command_looks_where_the_plan_has_looked(tmp_path: Path) -> None:
    """Damage below the recovery point is seen with --full only; without it the command would do nothing."""
    root, words = PLAIN.unpack_before(tmp_path / "logs"), words_of(PLAIN)
    whole = readable(root)
    Log(root).flip(0, 4, -5)
    (root / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 85\n")
    printed = command("plan", *words, root).out.splitlines()
    typed = next(each for each in printed if each.startswith("  kafkalog "))
    assert command(*shlex.split(typed)[1:]).code == 2
    assert readable(root) == whole
