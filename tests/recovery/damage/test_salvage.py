"""After the damage: batches found again are real ones, lost ranges are exact, repairs restore the very bytes."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path

import pytest

import kafkalog
from kafkalog import open_all
from kafkalog.codec.encode import build_batch, build_messages
from kafkalog.codec.model import BATCH, Record, TimestampType
from kafkalog.codec.plain.crc32c import crc32c
from kafkalog.codec.plain.scanner import scan
from kafkalog.codec.rules.framing import BATCH_CRC_START
from kafkalog.recovery import Recovery, plan, recover, undo
from kafkalog.recovery.damage.bit_repair import Neighbors, Proof, flipped_bit, repair_batch
from kafkalog.types import ScanResult
from testkit.judging.trees import stamps
from testkit.recorded.fixture_data import recovery_case
from testkit.running.shares import EACH

SETTINGS = {"segment.index.bytes": "1536", "index.interval.bytes": "256"}
AT = 1700000100000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An undamaged log of one segment with plain batches of one to a few records."""
    return recovery_case("undamaged/crash-single").unpack_before(tmp_path / "logs")


def the_log(root: Path) -> Path:
    return next(path for path in sorted(root.glob("t-0/*.log")))


def whole(log: Path) -> ScanResult:
    return scan(log.read_bytes())


def offsets(root: Path) -> list[int]:
    return [record.offset for partition in open_all(root).partitions for record in partition.records(all=True)]


def flip(log: Path, position: int, bit: int = 0) -> None:
    data = bytearray(log.read_bytes())
    data[position] ^= 1 << bit
    log.write_bytes(data)


def salvage(root: Path, **options: object) -> list[list[int]]:
    """Recover in mode salvage; the gaps that were reported."""
    result = recover(Recovery(mode="salvage", config=SETTINGS, at=AT, **options), root)[0]  # type: ignore[arg-type]
    return list(map(list, result.plan.as_dict()["partitions"][0]["gaps"]))


@pytest.mark.parametrize("field", ["crc", "attributes", "records", "batch_length"])
def test_one_damaged_batch_is_all_that_is_lost(root: Path, field: str) -> None:
    log = the_log(root)
    batches = whole(log).batches
    before = offsets(root)
    victim = batches[len(batches) // 2]
    position = BATCH.size + 5 if field == "records" else BATCH.position(field)
    flip(log, victim.position + position, 1)
    damaged = stamps(root)
    gaps = salvage(root)
    header = victim.header
    lost = list(range(header.base_offset, header.last_offset + 1))  # type: ignore[union-attr]
    assert gaps == [[lost[0], lost[-1]]]
    assert offsets(root) == [offset for offset in before if offset not in lost]
    assert recover(Recovery(mode="salvage", config=SETTINGS, at=AT), root)[0].run_id is None
    undo(root)
    assert stamps(root) == damaged


def test_a_log_stored_inside_a_value_does_not_fool_it(root: Path) -> None:
    """A damaged batch whose value holds perfect batches with offsets that would go on well."""
    log = the_log(root)
    data = log.read_bytes()
    batches = whole(log).batches
    victim = batches[5]
    inner = bytearray()
    for step in range(3):  # batches that claim to continue where the damaged one begins
        copy = bytearray(batches[0].data)
        copy[0:8] = (victim.header.last_offset - 2 + step).to_bytes(8, "big")
        inner += copy
    header = dict(zip(BATCH.names, BATCH.struct.unpack_from(victim.data), strict=True))
    value = b"mirror: " + bytes(inner) + b" end of the mirrored log"
    records = bytes(victim.data[BATCH.size : BATCH.size + 4]) + value
    header["batch_length"] = BATCH.size - 12 + len(records)
    batch = bytearray(BATCH.struct.pack(*header.values()) + records)
    batch[17:21] = (crc32c(bytes(batch[BATCH_CRC_START:])) ^ 0b1110).to_bytes(4, "big")  # three bits wrong
    behind = victim.position + victim.size
    for broken_length in (False, True):
        damaged = bytearray(batch)
        if broken_length:
            damaged[8:12] = (7).to_bytes(4, "big")
        log.write_bytes(data[: victim.position] + damaged + data[behind:])
        gaps = salvage(root)
        assert gaps == [[header["base_offset"], victim.header.last_offset]]
        kept = whole(log)
        assert [bytes(each.data) for each in kept.batches] == [
            bytes(each.data) for each in batches if each.position != victim.position
        ]
        undo(root)


def test_two_damaged_batches(root: Path) -> None:
    log = the_log(root)
    batches = whole(log).batches
    for victim in (batches[3], batches[7]):
        flip(log, victim.position + BATCH.size + 3)
    gaps = salvage(root)
    expected = [[victim.header.base_offset, victim.header.last_offset] for victim in (batches[3], batches[7])]  # type: ignore[union-attr]
    assert gaps == expected


def test_nothing_behind_means_a_cut(root: Path) -> None:
    log = the_log(root)
    last = whole(log).batches[-1]
    flip(log, last.position + BATCH.size + 3)
    made = plan(Recovery(mode="salvage", config=SETTINGS, at=AT), root)[0]
    assert made.partitions[0].gaps == []
    assert made.partitions[0].offsets_lost == (last.header.base_offset, last.header.last_offset)  # type: ignore[union-attr]


@EACH
def test_every_flipped_bit_is_located_exactly(each: int, root: Path, compared: Callable[[str, int], None]) -> None:
    """Under the checksum, in it, and in the length and magic that it does not cover."""
    data = the_log(root).read_bytes()
    batches = scan(data).batches
    count = 0
    for batch, following in itertools.pairwise(batches):
        window = bytearray(data[batch.position :])
        header = batch.header
        neighbors = Neighbors(
            next_offset=header.first_offset,
            following=following.header.first_offset,
            leader_epoch=header.partition_leader_epoch,
        )
        for position in [*range(8, 12), *range(16, batch.size, each)]:
            for bit in range(8):
                window[position] ^= 1 << bit
                found = repair_batch(bytes(window), neighbors)
                assert found is not None
                assert (found[0].position, found[0].bit) == (position, bit)
                assert found[0].apply(bytes(window[: found[1]])) == bytes(batch.data)
                assert found[0].proof >= Proof.CONTEXT
                window[position] ^= 1 << bit
                count += 1
    compared("flipped bits located exactly", count)


def test_two_flips_are_never_taken_for_one() -> None:
    """The generator has the factor x + 1: parity tells them apart."""
    seeded = random.Random(1)
    data = bytearray(seeded.randbytes(700))
    right = crc32c(bytes(data))
    for _ in range(2000):
        first, second = seeded.sample(range(8 * len(data)), 2)
        for place in (first, second):
            data[place // 8] ^= 1 << place % 8
        assert flipped_bit(crc32c(bytes(data)) ^ right, 8 * len(data)) is None
        for place in (first, second):
            data[place // 8] ^= 1 << place % 8


@pytest.mark.parametrize("mode", ["safe", "salvage"])
def test_a_repair_restores_the_very_bytes(root: Path, mode: str) -> None:
    log = the_log(root)
    original = log.read_bytes()
    victim = scan(original).batches[6]
    flip(log, victim.position + BATCH.size + 9, 3)
    damaged = stamps(root)
    cut = plan(Recovery(mode=mode, config=SETTINGS, at=AT), root)[0]
    assert cut.partitions[0].cut_bytes > 0 or cut.partitions[0].gaps
    result = recover(Recovery(mode=mode, config=SETTINGS, at=AT, repair_bits=Proof.CONTEXT), root)[0]
    assert log.read_bytes() == original
    assert "turned over; proof CONTEXT" in " ".join(str(finding) for finding in result.plan.findings)
    undo(root)
    assert stamps(root) == damaged


def test_a_repair_that_is_not_proven_enough_is_not_made(root: Path) -> None:
    log = the_log(root)
    victim = whole(log).batches[6]
    flip(log, victim.position + BATCH.size + 9, 3)
    assert plan(Recovery(config=SETTINGS, at=AT, repair_bits=Proof.CONTENT), root)[0].partitions[0].cut_bytes > 0


def test_a_repaired_batch_after_damage_is_not_lost(tmp_path: Path) -> None:
    """The last batch of a segment cannot be repaired, the first one of the next segment can."""
    root = tmp_path / "logs"
    (root / "t-0").mkdir(parents=True)
    pieces = [_batch(number, 2) for number in range(20)]
    for base in (0, 10):
        (root / "t-0" / f"{base:020}.log").write_bytes(b"".join(pieces[base : base + 10]))
    first, second = sorted(root.glob("t-0/*.log"))
    for behind in (3, 9):
        flip(first, first.stat().st_size - behind, 6)
    flip(second, len(pieces[10]) - 5)
    made = plan(Recovery(mode="salvage", at=AT, repair_bits=Proof.CONTEXT), root)[0]
    assert made.partitions[0].gaps == [(9, 9)]
    recover(Recovery(mode="salvage", at=AT, repair_bits=Proof.CONTEXT), root)
    assert offsets(root) == [number for number in range(20) if number != 9]


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("hole", ["zeros", "bits", "length"])
def test_what_stands_between_two_damaged_places_is_kept(version: int, hole: str, tmp_path: Path) -> None:
    """Bad sectors seldom come alone; the second one may hide a header, and logs may be old."""
    root = tmp_path / "logs"
    (root / "t-0").mkdir(parents=True)
    pieces = [_batch(number, version) for number in range(30)]
    starts = [sum(map(len, pieces[:number])) for number in range(30)]
    data = bytearray(b"".join(pieces))
    for number in (5, 20):
        start = starts[number]
        if hole == "zeros":
            data[start : start + len(pieces[number])] = bytes(len(pieces[number]))
        elif hole == "bits":
            data[start + len(pieces[number]) - 3] ^= 0x41
            data[start + len(pieces[number]) - 9] ^= 0x41
        else:
            data[start + 8] ^= 0x7F
    (root / "t-0" / f"{0:020}.log").write_bytes(data)
    recover(Recovery(mode="salvage", at=AT), root)
    left = [record.offset for record in kafkalog.open_partition(root / "t-0").records()]
    assert left == [number for number in range(30) if number not in (5, 20)]


def _batch(number: int, version: int) -> bytes:
    record = Record(number, 1_700_000_000_000, TimestampType.CREATE_TIME, b"key", b"value %d" % number * 7)
    if version == 2:
        return build_batch([record], base_offset=number)
    return build_messages([record], magic=version)
