"""The way `merge`: a partition gets, in place, what it and other copies of it hold together; undo takes that back."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

import kafkalog
from kafkalog import Log, RecoveryRefused, StorageError, UsageError
from kafkalog.codec.model import BATCH
from kafkalog.codec.plain.scanner import scan
from kafkalog.copies.preview import of_one_partition
from kafkalog.copies.volumes import Shelf
from kafkalog.log import open_partition
from kafkalog.recovery import Recovery, plan, recover, undo
from kafkalog.recovery.act.journal import JOURNAL
from kafkalog.recovery.damage.offset_ranges import OffsetRanges
from kafkalog.recovery.decide import merge_in_place
from kafkalog.recovery.decide.ways import Measured, recommended
from kafkalog.recovery.modes.table import Mode
from kafkalog.words.commands import NOTHING_GIVEN
from kafkalog.words.next_step import what_to_type
from kafkalog.words.ways import needs_of
from testkit.judging.trees import first_difference, stamps
from testkit.recorded.fixture_data import recovery_case, replica_roles, unpack_replicas
from testkit.running.command import kafkalog as command
from testkit.running.stopping import Stopped, failing_at

ROLES = replica_roles()
OLD, NEW, BEHIND = (ROLES[part] for part in ("old_leader", "new_leader", "behind"))


def damage(log: Path) -> None:
    """Its first batch cannot be read any more."""
    data = bytearray(log.read_bytes())
    size = scan(bytes(data)).batches[0].size
    data[BATCH.size + 2 : size - 2] = bytes(size - 4 - BATCH.size)
    log.write_bytes(data)


def records(root: Path, topic: str) -> list[tuple[int, bytes | None]]:
    return [(each.offset, each.value) for each in kafkalog.open(root)[topic, 0].records()]


@pytest.fixture
def volumes(tmp_path: Path) -> Path:
    return unpack_replicas(tmp_path)


def test_a_segment_of_a_copy_that_vanishes_meanwhile_is_an_io_error(
    volumes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged, copy = (volumes / f"broker-{each}" for each in (BEHIND, NEW))
    damage(min((damaged / "equal-0").glob("*.log")))
    def gathered_before_it_goes(copies: Sequence[str]) -> Shelf:
        shelf = of_one_partition(copies)
        min((copy / "equal-0").glob("*.log")).unlink()
        return shelf

    monkeypatch.setattr(merge_in_place, "of_one_partition", gathered_before_it_goes)
    with pytest.raises(StorageError, match="cannot examine the file: No such file"):
        plan(Recovery(mode=Mode.MERGE, copies=[copy]), damaged / "equal-0")


@pytest.mark.parametrize("topics", [("equal",), ("equal", "tale")])
def test_what_is_printed_keeps_what_is_promised_and_can_be_undone(
    topics: tuple[str, ...], volumes: Path, compared: Callable[[str, int], None]
) -> None:
    """Only the damaged partitions change: two volumes merged as a whole hold the partitions of both brokers."""
    damaged, copy = (volumes / f"broker-{each}" for each in (BEHIND, NEW))
    for topic in topics:
        damage(min((damaged / f"{topic}-0").glob("*.log")))
    before, beside = stamps(damaged), stamps(copy)
    choice = plan(Recovery(copies=[copy]), damaged)[0].choice
    best = {name: recommended(found) for name, found in choice.by_partition.items()}
    ways = {name: way for name, way in best.items() if way is not None and way.way == "merge"}
    assert ways.keys() == {f"{topic}-0" for topic in topics}
    printed = [line.strip() for line in command("plan", damaged, "--copy", copy).lines]
    found = (line for line in printed if line.startswith("kafkalog recover ") and "--mode merge" in line)
    lines = list(dict.fromkeys(found))  # the first lines have that of the plan's way too
    assert len(lines) == len(ways)
    for line in lines:
        assert command(*shlex.split(line)[1:]).code == 2, line
    for name, way in ways.items():
        assert len(records(damaged, name.removesuffix("-0"))) == way.measured.records_kept
    for topic in topics:
        assert records(damaged, topic)[: len(records(copy, topic))] == records(copy, topic)
    for name in ways:
        made = plan(damaged / name)[0]
        assert (made.broker.outcome, made.actions) == ("loaded", [])
    left = {name for name, held in stamps(damaged).items() if before.get(name) != held and "/" in name}
    assert {name.partition("/")[0] for name in left} == set(ways)
    assert stamps(copy) == beside
    for _ in lines:
        undo(damaged)
    assert first_difference(dict(stamps(damaged)), dict(before)) == ""
    compared("partitions merged in place as printed, with the records promised, and undone", len(ways))


@pytest.mark.parametrize("is_sound_behind", [True, False])
def test_each_partition_has_its_best_way_and_all_printed_commands_lose_what_is_said(
    is_sound_behind: bool, volumes: Path, compared: Callable[[str, int], None]
) -> None:
    """A copy heals one partition; the other has none, and salvage keeps what comes after its damage."""
    damaged, copy = volumes / f"broker-{OLD}", volumes / f"broker-{NEW}"
    shutil.rmtree(copy / "tale-0")
    there = {topic: records(damaged, topic) for topic in ("equal", "tale")}
    damage(min((damaged / "equal-0").glob("*.log")))
    if is_sound_behind:
        damage(min((damaged / "tale-0").glob("*.log")))
    else:
        log = max((damaged / "tale-0").glob("*.log"))
        os.truncate(log, log.stat().st_size - 3)
    before = stamps(damaged)
    (line,) = command("plan", "--json", "--copy", copy, damaged).objects
    best = next(way for way in line["ways"] if way["way"] == line["recommended"])
    rest = ["--mode", "salvage"] if is_sound_behind else []
    assert (best["way"], best["partitions"], best["rest"]) == ("merge", ["equal-0"], rest)
    assert all(way["records_lost"] >= best["records_lost"] for way in line["ways"])
    screen = command("plan", damaged, "--copy", copy).out.partition("\n\n")[0]
    least = "" if is_sound_behind else "at least "
    said = f"(merge{', then salvage' if rest else ''}; it loses {least}{best['records_lost']} record"
    assert said in " ".join(screen.split())
    report = " ".join(command("report", damaged, copy, "--format", "text", "--output", "-").out.split())
    assert f"{least}{best['records_lost']} records cannot be had back" in report
    assert f"tale-0 in {damaged}: permanently {best['records_lost']}" in report
    lines = [each.strip() for each in screen.split("\n") if each.startswith("  kafkalog recover ")]
    assert [shlex.split(each)[2] for each in lines] == [str(damaged / "equal-0"), str(damaged)]
    for each in lines:
        finished = command(*shlex.split(each)[1:])
        assert (finished.code, "accept-loss" in each) == (2, False), finished
    left = {topic: records(damaged, topic) for topic in there}
    assert left["equal"] == there["equal"]
    lost = len(there["tale"]) - len(left["tale"])
    assert 0 < lost == best["records_lost"]
    assert "kafkalog recover" not in command("plan", damaged, "--copy", copy).out
    undo(damaged)
    undo(damaged)
    assert first_difference(dict(stamps(damaged)), dict(before)) == ""
    compared("directories recovered partition by partition as printed, with the loss that was said", 1)


def test_consent_is_printed_only_with_what_it_drops(volumes: Path) -> None:
    """Each command has its own: that of the rest drops readable records, the merge before it does not."""
    damaged, copy = volumes / f"broker-{OLD}", volumes / f"broker-{NEW}"
    damage(min((damaged / "equal-0").glob("*.log")))
    made = plan(Recovery(copies=[copy]), damaged)[0]
    best = made.choice.recommended
    assert best is not None
    assert best.rest is not None
    assert best.partitions == ("equal-0",)
    lost = Measured(records_kept=5, records_lost=9, sound_lost=4)
    rest = structs.replace(best.rest, measured=lost, needs_consent=True)
    choice = structs.replace(made.choice, ways=[structs.replace(best, measured=lost, rest=rest)])
    step = what_to_type(replace(made, choice=choice), NOTHING_GIVEN)
    assert "(merge, then safe; it loses 9 records; 4 of the lost ones can still be read)" in step.note
    assert ["--accept-loss" in each for each in step.commands] == [False, True]


def test_what_a_copy_has_inside_a_salvaged_log_is_offered(volumes: Path) -> None:
    """Nothing is damaged any more, but a gap is left that the copy fills."""
    damaged, copy = (volumes / f"broker-{each}" for each in (OLD, NEW))
    there = records(damaged, "equal")
    damage(min((damaged / "equal-0").glob("*.log")))
    recover(Recovery(mode="salvage"), damaged)
    missing = len(there) - len(records(damaged, "equal"))
    assert missing
    screen = command("plan", damaged, "--copy", copy).out.partition("\n\n")[0]
    assert f"lost beside this plan: {missing} records missing inside the logs, which the copies have" in screen
    lines = [each.strip() for each in screen.split("\n") if each.startswith("  kafkalog recover ")]
    for each in lines:
        assert command(*shlex.split(each)[1:]).code == 2
    assert records(damaged, "equal") == there
    assert "nothing to do" in command("plan", damaged, "--copy", copy).out


def test_what_a_copy_has_beyond_the_end_of_a_sound_log_is_not_missing(volumes: Path) -> None:
    """A follower that was stopped earlier fetches the rest from the leader: no merge is offered."""
    stopped, copy = (volumes / f"broker-{each}" for each in (BEHIND, NEW))
    here, there = records(stopped, "tale"), records(copy, "tale")
    assert here == there[: len(here)]
    assert len(here) < len(there)
    found = plan(Recovery(copies=[copy]), stopped)[0].choice
    assert all(way.measured.from_copies == 0 for ways in found.by_partition.values() for way in ways)
    screen = command("plan", stopped, "--copy", copy).out.partition("\n\n")[0]
    assert "lost with this plan: nothing" in screen
    assert "--mode merge" not in screen


def test_a_log_that_no_copy_helps_is_recovered_as_in_mode_safe(volumes: Path) -> None:
    damaged, copy = (volumes / f"broker-{each}" for each in (BEHIND, NEW))
    shutil.rmtree(copy / "equal-0")
    damage(min((damaged / "equal-0").glob("*.log")))
    made = plan(Recovery(mode="merge", copies=[copy]), damaged / "equal-0")[0]
    assert "merge" not in {str(way.way) for way in made.choice.by_partition["equal-0"]}
    assert made.actions == plan(damaged / "equal-0")[0].actions


def test_what_is_whole_is_left_as_it_is(volumes: Path) -> None:
    one, copy = (volumes / f"broker-{each}" for each in (NEW, BEHIND))
    before = stamps(one)
    made = plan(Recovery(mode="merge", copies=[copy]), one / "equal-0")[0]
    safe = plan(one / "equal-0")[0]
    assert [each.path for each in made.actions] == [each.path for each in safe.actions]
    assert stamps(one) == before


def test_records_that_only_this_copy_has_need_consent(volumes: Path) -> None:
    """The old leader's tail of an epoch that another leader has cut is no part of the merged log."""
    old, copy = (volumes / f"broker-{each}" for each in (OLD, NEW))
    damage(min((old / "tale-0").glob("*.log")))
    made = plan(Recovery(mode="merge", copies=[copy]), old / "tale-0")[0]
    dropped = made.choice.own.sound_lost
    before = stamps(old)
    if not dropped:
        pytest.fail("the fixture's old leader has records that no other has")
    with pytest.raises(RecoveryRefused) as refused:
        recover(Recovery(mode="merge", copies=[copy]), old / "tale-0")
    assert refused.value.reason == "loss"
    assert stamps(old) == before
    recover(Recovery(mode="merge", copies=[copy], accept_loss=True), old / "tale-0")
    assert records(old, "tale") == records(copy, "tale")


def test_a_copy_that_is_written_to_meanwhile_is_refused(volumes: Path) -> None:
    damaged, copy = (volumes / f"broker-{each}" for each in (BEHIND, NEW))
    damage(min((damaged / "equal-0").glob("*.log")))
    expected = plan(Recovery(mode="merge", copies=[copy]), damaged / "equal-0")[0]
    log = max((copy / "equal-0").glob("*.log"))
    with log.open("ab") as file:
        file.write(b"more")
    before = stamps(damaged)
    with pytest.raises(RecoveryRefused, match=r"changed since") as refused:
        recover(Recovery(mode="merge", copies=[copy]), damaged / "equal-0", expected=[expected])
    assert (refused.value.reason, str(log) in str(refused.value)) == ("changed", True)
    assert stamps(damaged) == before


@pytest.mark.parametrize("what", ["none", "itself", "no partition", "another topic's id"])
def test_what_cannot_be_a_copy(what: str, volumes: Path, tmp_path: Path) -> None:
    damaged = volumes / f"broker-{BEHIND}"
    damage(min((damaged / "equal-0").glob("*.log")))
    before = stamps(damaged)
    if what == "none":
        with pytest.raises(UsageError, match="say where they are"):
            plan(Recovery(mode="merge"), damaged)
        assert command("recover", "--yes", "--mode", "merge", damaged).code == 64
    elif what == "itself":
        ways = plan(Recovery(copies=[damaged]), damaged / "equal-0")[0].choice.by_partition["equal-0"]
        assert "merge" not in {str(way.way) for way in ways}
    elif what == "no partition":
        (tmp_path / "empty").mkdir()
        with pytest.raises(UsageError, match="holds no partition"):
            plan(Recovery(mode="merge", copies=[tmp_path / "empty"]), damaged)
    else:
        copy = tmp_path / "other"
        copy.mkdir()
        with Log.open(copy / "equal-0", topic_id="AAAAAAAAAAAAAAAAAAAAAQ") as log:
            log.append([b"x"])
        made = plan(Recovery(mode="merge", copies=[copy]), damaged / "equal-0")[0]
        assert "topic" in (made.refusal or "")
        assert command("recover", "--yes", "--mode", "merge", "--copy", copy, damaged / "equal-0").code == 3
    assert stamps(damaged) == before


@pytest.mark.parametrize("what", ["itself", "garbage"])
def test_from_which_nothing_comes_it_is_mode_safe(what: str, volumes: Path, tmp_path: Path) -> None:
    """With its consent, and the command that is printed for it says all of it again."""
    damaged = volumes / f"broker-{BEHIND}"
    damage(min((damaged / "equal-0").glob("*.log")))
    copy = damaged
    if what == "garbage":
        copy = tmp_path / "copy"
        (copy / "equal-0").mkdir(parents=True)
        (copy / "equal-0" / f"{0:020d}.log").write_bytes(bytes(range(256)) * 20)
    before = stamps(damaged)
    finished = command("recover", "--yes", "--mode", "merge", "--copy", copy, damaged / "equal-0")
    assert (finished.code, "add --accept-loss" in finished.err) == (3, True), finished
    printed = [line.strip() for line in finished.lines if line.startswith("  kafkalog ")]
    (line,) = {line for line in printed if "--mode merge" in line and "--accept-loss" in line}
    assert shlex.split(line)[-6:] == ["--mode", "merge", "--copy", str(copy), "--accept-loss", "--yes"]
    assert stamps(damaged) == before
    with pytest.raises(RecoveryRefused, match="replica loses least") as refused:
        recover(Recovery(mode="merge", copies=[copy]), damaged / "equal-0")
    assert "to lead" in str(refused.value)


def test_a_copy_that_cannot_be_read_keeps_nobody_from_planning(volumes: Path, tmp_path: Path) -> None:
    damaged = volumes / f"broker-{BEHIND}"
    damage(min((damaged / "equal-0").glob("*.log")))
    (tmp_path / "copy" / "equal-0").mkdir(parents=True)
    os.mkfifo(tmp_path / "copy" / "equal-0" / f"{0:020d}.log")
    ways = plan(Recovery(copies=[tmp_path / "copy"]), damaged / "equal-0")[0].choice.by_partition["equal-0"]
    assert {str(way.way) for way in ways} >= {"safe", "salvage"}
    made = plan(Recovery(mode="merge", copies=[tmp_path / "copy"]), damaged / "equal-0")[0]
    assert (made.actions, "no copy of it can be read" in (made.refusal or "")) == ([], True)


@pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.sweep)])
def test_stopped_anywhere_it_is_completed_or_undone(
    stride: int, volumes: Path, monkeypatch: pytest.MonkeyPatch, measured: Callable[[str, int], None]
) -> None:
    damaged, copy = (volumes / f"broker-{each}" for each in (BEHIND, NEW))
    damage(min((damaged / "equal-0").glob("*.log")))
    before, number, stops = stamps(damaged), 1 - stride, 0
    went_on = True
    while went_on:
        number += stride
        with failing_at(number, Stopped, monkeypatch) as count, suppress(Stopped):
            recover(Recovery(mode="merge", copies=[copy]), damaged / "equal-0")
        went_on = count[0] >= number
        if list(volumes.glob(f"*.recovery/*/{JOURNAL}")):
            assert recover(Recovery(mode="merge", copies=[copy]), damaged / "equal-0")[0].completed
            assert records(damaged, "equal") == records(copy, "equal")
        with suppress(RecoveryRefused):
            undo(damaged)
        assert first_difference(dict(stamps(damaged)), dict(before)) == "", number
        stops += 1
    measured("merges in place stopped before one of their changes, completed and undone", stops)


def test_the_way_says_what_it_needs(volumes: Path) -> None:
    damaged, copy = (volumes / f"broker-{each}" for each in (BEHIND, NEW))
    damage(min((damaged / "equal-0").glob("*.log")))
    (way,) = (
        each for each in plan(Recovery(copies=[copy]), damaged)[0].choice.by_partition["equal-0"] if each.way == "merge"
    )
    assert needs_of(way) == ["--mode", "merge", "--copy", str(copy / "equal-0")]


def test_what_a_copy_puts_into_a_part_of_the_damage_is_not_lost(tmp_path: Path) -> None:
    """Both copies are damaged in the same place, this one more: merging keeps more than any other way, and says so."""
    case, other = recovery_case("random_mix/012"), recovery_case("random_mix/036")
    root, copy = case.unpack_before(tmp_path / "logs"), other.unpack_before(tmp_path / "copy")
    shutil.copy(root / "t-0" / "partition.metadata", copy / "t-0")
    made = plan(Recovery(copies=[copy]), root)[0]
    ways = {way.way: way.measured for way in made.choice.ways}
    assert made.choice.recommended is not None
    assert made.choice.recommended.way == Mode.MERGE
    before = {record.offset for record in open_partition(root / "t-0").records(on_damage="stop")}
    recover(Recovery(mode="merge", copies=[copy]), root)
    after = {record.offset for record in open_partition(root / "t-0").records(on_damage="stop")}
    lost = {offset for each in ways[Mode.MERGE].lost for offset in range(each.first, (each.last or each.first) + 1)}
    assert lost
    assert not lost & after
    assert len(after) == ways[Mode.MERGE].records_kept
    assert len(after) > (ways[Mode.SALVAGE].records_kept or 0) > len(before)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 5))), st.integers(0, 40), st.integers(0, 20))
def test_what_is_absent_from_ranges(added: list[tuple[int, int]], first: int, more: int) -> None:
    ranges = OffsetRanges()
    there: set[int] = set()
    for begins, length in added:
        ranges.add(begins, begins + length)
        there |= set(range(begins, begins + length + 1))
    absent = list(ranges.absent(first, first + more))
    wanted = [offset for offset in range(first, first + more + 1) if offset not in there]
    assert [offset for low, high in absent for offset in range(low, high + 1)] == wanted


def test_a_plan_of_several_brokers_leads_to_one_with_their_replicas_as_copies(volumes: Path) -> None:
    torn, whole = (volumes / f"broker-{each}" for each in (BEHIND, NEW))
    there = records(torn, "equal")
    log = max((torn / "equal-0").glob("*.log"))
    os.truncate(log, log.stat().st_size - 3)
    before, beside = stamps(torn), stamps(whole)
    screen = command("plan", torn, whole).out.partition("\n\n")[0]
    (line,) = (each.strip() for each in screen.split("\n") if each.startswith("  kafkalog "))
    report = command(*shlex.split(line)[1:]).out.partition("\n\n")[0].replace("\\\n", "")
    first, *_others = (each.strip() for each in report.split("\n") if each.startswith("  kafkalog recover "))
    assert command(*shlex.split(first)[1:]).code == 2
    assert records(torn, "equal") == there
    undo(torn)
    assert first_difference(dict(stamps(torn)), dict(before)) == ""
    assert stamps(whole) == beside
