"""What may be damaged or newer than this program: nothing is repaired into a format that it is not of."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kafkalog import NewRecord, plan
from kafkalog.log.writing.writer import Log
from testkit.running.command import kafkalog

COUNT = 12
MAGIC_AT = 16


def log_of_magic(root: Path, magic: int, numbers: range) -> None:
    """A log of a batch for each record, some of which are marked as of another format; no checksum covers that."""
    root.mkdir()
    with Log.open(root / "orders-0") as log:
        for number in range(COUNT):
            log.append([NewRecord(b"value %d" % number, b"key", 1_700_000_000_000 + number)])
    (path,) = (root / "orders-0").glob("*.log")
    data = bytearray(path.read_bytes())
    position = 0
    for number in range(COUNT):
        if number in numbers:
            data[position + MAGIC_AT] = magic
        position += 12 + struct.unpack_from(">i", data, position + 8)[0]
    path.write_bytes(data)
    (root / ".kafka_cleanshutdown").unlink()


@pytest.mark.parametrize("numbers", [range(COUNT), range(5, COUNT), range(3, 9), range(COUNT - 2, COUNT)], ids=str)
def test_several_batches_of_an_unknown_magic_are_not_repaired(tmp_path: Path, numbers: range) -> None:
    log_of_magic(tmp_path / "data", 3, numbers)
    said = kafkalog("plan", tmp_path / "data")
    assert "repair_bits" not in said.out
    assert "newer than this program" in said.out
    done = kafkalog("recover", tmp_path / "data", "--repair-bits", "structure", "--accept-loss", "--yes", "--json")
    assert done.code == 2, done.err
    (made,) = (tmp_path / "data" / "orders-0").glob("*.log")
    assert made.read_bytes().count(b"value") == numbers.start


@pytest.mark.parametrize("number", [0, 5, COUNT - 1])
def test_a_single_one_is_a_flipped_bit(tmp_path: Path, number: int) -> None:
    log_of_magic(tmp_path / "data", 3, range(number, number + 1))
    assert "recommended: repair_bits" in kafkalog("plan", tmp_path / "data").out
    kafkalog("recover", tmp_path / "data", "--repair-bits", "structure", "--yes")
    (made,) = (tmp_path / "data" / "orders-0").glob("*.log")
    assert made.read_bytes().count(b"value") == COUNT


def test_nobody_is_told_to_change_a_newer_identity(tmp_path: Path) -> None:
    log_of_magic(tmp_path / "data", 2, range(0))
    file = tmp_path / "data" / "meta.properties"
    file.write_text(f"version=2\ncluster.id={'c' * 22}\nnode.id=1\n")
    assert "copy cluster.id" not in (plan(tmp_path / "data")[0].note_of_identity or "")
    assert "a Kafka that is new enough may start on it" in kafkalog("plan", tmp_path / "data").out
    file.write_text("version=x\n")
    assert "copy cluster.id" in kafkalog("plan", tmp_path / "data").out
