"""Damage below the log start offset takes no record that counts; and no offset that was read is given out again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import kafkalog
from kafkalog.recovery import Recovery, plan, recover
from kafkalog.recovery.broker.manager import StartResult
from testkit.judging.trees import stamps
from testkit.recorded.fixture_data import recovery_case
from testkit.running.command import kafkalog as command

PLAIN = recovery_case("undamaged/full-scan-plain")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = PLAIN.unpack_before(tmp_path / "logs")
    (root / "replication-offset-checkpoint").unlink(missing_ok=True)
    return root


def begin_at(root: Path, offset: int) -> None:
    (root / "log-start-offset-checkpoint").write_text(f"0\n1\nt 0 {offset}\n")


def batches(root: Path) -> list[tuple[Path, int, int, int]]:
    """File, position, first and last offset of each."""
    partition = kafkalog.open_partition(root / "t-0")
    found = []
    for segment in partition.segments:
        found += [(Path(segment.path), each.position, each.header.base_offset, each.last_offset)  # type: ignore[union-attr]
                  for each in kafkalog.open_segment(segment.path).batches()]  # fmt: skip
    return found


def damage(where: tuple[Path, int, int, int]) -> None:
    path, position, _first, _last = where
    data = bytearray(path.read_bytes())
    data[position + 65] ^= 3
    data[position + 70] ^= 9
    path.write_bytes(data)


def offsets(root: Path) -> list[int]:
    return [record.offset for record in kafkalog.open(root)["t", 0].records(on_damage="stop")]


@pytest.mark.parametrize("is_in_the_segment", [False, True])
@pytest.mark.parametrize("number", [0, 2])
def test_nothing_is_lost_and_nobody_is_asked(is_in_the_segment: bool, number: int, root: Path) -> None:
    """In a segment that lies below the log start offset, and in the one that holds it; also at its very beginning."""
    found = batches(root)
    first = found[0][0]
    own = [each for each in found if each[0] == first]
    after = own[-1] if is_in_the_segment else next(each for each in found if each[0] != first)
    begin_at(root, after[2])
    wanted = offsets(root)
    damage(own[number])
    before = stamps(root)
    made = plan(Recovery(full=True), root)[0]
    assert (made.choice.own.records_lost, made.needs_consent) == (0, False)
    assert stamps(root) == before
    result = recover(Recovery(full=True), root)[0]
    assert result.changed
    assert offsets(root) == wanted
    assert kafkalog.open(root).log_start_offsets["t", 0] == after[2]
    again = plan(Recovery(full=True), root)[0]
    assert not again.changes
    assert plan(Recovery(mode="kafka"), root)[0].broker.outcome == StartResult.LOADED
    assert not plan(Recovery(mode="kafka", full=True), root)[0].changes
    assert command("undo", "--yes", root).code == 2
    assert stamps(root) == before


def test_what_is_below_it_is_neither_read_nor_lost(root: Path) -> None:
    """The log start is in the middle of a batch; a start of Kafka cuts the log at the damage before it."""
    first, second, *others = batches(root)
    later = next(each for each in others if each[0] != first[0] and each[3] > each[2])
    begin_at(root, later[3])
    damage(second)
    found = [finding for partition in kafkalog.verify(root).partitions for finding in partition.findings]
    gaps = [finding.detail for finding in found if finding.code == "offset_gap"]
    assert gaps == [f"this is below the log start {later[3]}, where no consumer reads"]
    ways = {way.way: way for way in plan(Recovery(), root)[0].choice.ways}
    assert ways["safe"].consequence == "no record is lost; what is cut goes to quarantine"
    assert ways["kafka"].measured.lost[0].first == later[3]


def test_two_places_below_it(root: Path) -> None:
    found = batches(root)
    begin_at(root, found[-2][2])
    wanted = offsets(root)
    damage(found[1])
    damage(found[5])
    recover(Recovery(full=True), root)
    assert offsets(root) == wanted


@pytest.mark.parametrize("reach", [[-3, 2], [2, -2]], ids=["around it", "the other way round"])
def test_a_log_that_is_cut_below_its_start_begins_anew_at_it(
    reach: list[int], root: Path, compared: Callable[[str, int], None]
) -> None:
    """As the broker's own: an offset that consumers have passed is given to no other record."""
    found = batches(root)
    start = found[len(found) // 2][2]
    begin_at(root, start)
    for number in reach:
        damage(found[number])
    before = stamps(root)
    assert command("recover", "--yes", "--full", root).code == 3
    assert stamps(root) == before
    recover(Recovery(full=True, accept_loss=True), root)
    log_dir = kafkalog.open(root)
    partition = log_dir["t", 0]
    assert (partition.log_start_offset, partition.log_end_offset()) == (start, start)
    assert log_dir.log_start_offsets["t", 0] == start
    assert offsets(root) == []
    assert not plan(Recovery(full=True), root)[0].changes
    assert not plan(Recovery(mode="kafka", full=True), root)[0].changes
    compared("logs cut below their start that start over at it, as Kafka's", 1)
    assert command("undo", "--yes", root).code == 2
    (root / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    theirs = plan(Recovery(mode="kafka", full=True), root)[0]
    assert theirs.broker.log_end_offsets["t-0"] == start


@pytest.mark.parametrize("is_size", [False, True], ids=["checksum", "size"])
def test_damage_that_reaches_above_it_whatever_it_looks_like(is_size: bool, root: Path) -> None:
    """A size that leads beyond the end of the log looks like a torn tail, and is damage: sound batches follow."""
    found = batches(root)
    last = [each for each in found if each[0] == found[-1][0]]
    begin_at(root, last[2][2])
    for each in last[1:3]:
        damage(each)
    if is_size:
        path, position = last[1][:2]
        data = bytearray(path.read_bytes())
        data[position + 8 : position + 12] = (1 << 20).to_bytes(4, "big")
        path.write_bytes(data)
    assert plan(Recovery(full=True), root)[0].needs_consent
    recover(Recovery(full=True, accept_loss=True), root)
    assert offsets(root) == []
    assert kafkalog.open(root)["t", 0].log_start_offset == last[2][2]
    assert not plan(Recovery(full=True), root)[0].changes


def test_a_log_start_above_all_that_is_there_is_believed_less_than_the_log(root: Path) -> None:
    """Nothing tells that the log reached so far: what is there may be all there is."""
    wanted = offsets(root)
    begin_at(root, wanted[-1] + 1000)
    found = batches(root)
    damage(found[-1])
    recover(Recovery(full=True, accept_loss=True), root)
    assert kafkalog.open(root).log_start_offsets["t", 0] < wanted[-1]
    assert offsets(root)
