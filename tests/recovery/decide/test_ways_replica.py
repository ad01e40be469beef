"""The way `replica` on the volumes of a recorded cluster: what it says the other brokers have, they have."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

import pytest

import kafkalog
from kafkalog.codec.model import BATCH
from kafkalog.codec.plain.scanner import scan
from kafkalog.recovery import Recovery, plan
from kafkalog.recovery.decide.losses import lost_text, sentence_of_lost
from kafkalog.recovery.decide.ways import RecoveryWay
from kafkalog.words.commands import NOTHING_GIVEN
from kafkalog.words.next_step import what_to_type
from kafkalog.words.ways import needs_of
from testkit.recorded.fixture_data import replica_roles, unpack_replicas
from testkit.running.command import kafkalog as running

ROLES = replica_roles()
OLD, NEW, BEHIND = (ROLES[part] for part in ("old_leader", "new_leader", "behind"))


def damaged(volume: Path, topic: str) -> dict[str, RecoveryWay]:
    """The ways of a partition whose first batch cannot be read any more."""
    log = min((volume / f"{topic}-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    size = scan(bytes(data)).batches[0].size
    data[BATCH.size + 2 : size - 2] = bytes(size - 4 - BATCH.size)
    log.write_bytes(data)
    return {str(way.way): way for way in plan(volume)[0].choice.by_partition[f"{topic}-0"]}


def records(volume: Path, topic: str) -> dict[int, bytes | None]:
    return {each.offset: each.value for each in kafkalog.open(volume)[topic, 0].records()}


@pytest.mark.parametrize("topic", ["equal", "tale"])
def test_what_others_in_sync_have(topic: str, tmp_path: Path) -> None:
    """The broker that was behind names both others, and each of them has every record it could read before."""
    volumes = unpack_replicas(tmp_path)
    own = records(volumes / f"broker-{BEHIND}", topic)
    ways = damaged(volumes / f"broker-{BEHIND}", topic)
    found = ways["replica"].measured
    assert (found.records_kept, found.records_lost) == (len(own), 0)
    others = sorted((OLD, NEW))
    assert (ways["replica"].how, ways["replica"].leaders) == (None, tuple(others))
    assert needs_of(ways["replica"]) == [f"broker {others[0]} or {others[1]}, alive and leading before this one starts"]
    for broker in others:
        there = records(volumes / f"broker-{broker}", topic)
        assert {offset: there.get(offset) for offset in own} == own
    lost = ways["salvage"].measured.records_lost
    assert lost
    recommended = plan(volumes / f"broker-{BEHIND}")[0].choice.recommended
    assert recommended is not None
    assert str(recommended.way) == "replica"


def test_if_no_other_broker_can_lead_the_best_recovery_is_printed(tmp_path: Path) -> None:
    """Not the plan itself, which drops all that comes after the damage."""
    volume = unpack_replicas(tmp_path) / f"broker-{BEHIND}"
    (volume / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    damaged(volume, "equal")
    (made,) = plan(volume)
    ways = {str(way.way): way for way in made.choice.ways}
    assert (made.choice.recommended, made.choice.second) == (ways["replica"], ways["salvage"])
    assert (made.needs_consent, made.choice.own.sound_lost > 0, ways["salvage"].measured.sound_lost) == (True, True, 0)
    step = what_to_type(made, NOTHING_GIVEN)
    assert step.note.startswith("recommended is replica, below; if that is not possible, type this instead of")
    command = f"kafkalog recover {volume} --mode salvage --yes"
    assert step.commands == [command]
    shown = running("plan", volume)
    assert "if that is not possible, salvage: what to type is at the top" in shown.out
    refused = running("recover", volume, "--yes")
    assert "; salvage is the best recovery here and loses" in refused.err
    assert "and needs --mode salvage; to drop them anyway, add --accept-loss" in refused.err
    assert running(*shlex.split(command)[1:]).code == 2, "what was in the damaged batch is lost"


def test_a_broker_whose_copy_is_given_and_ends_earlier_replaces_nothing(tmp_path: Path) -> None:
    """4.1.1 elected such a broker, and the log that was longer here was truncated to its end."""
    volumes = unpack_replicas(tmp_path)
    volume = volumes / f"broker-{BEHIND}"
    assert damaged(volume, "equal")["replica"].leaders == tuple(sorted((OLD, NEW)))
    for broker, left in ((OLD, [NEW]), (NEW, [])):
        copy = volumes / f"broker-{broker}" / "equal-0"
        log = max(path for path in copy.glob("*.log") if path.stat().st_size)
        whole = log.read_bytes()
        log.write_bytes(whole[:-5])
        given = [volumes / f"broker-{each}" / "equal-0" for each in (OLD, NEW)]
        ways = plan(Recovery(copies=given), volume)[0].choice.by_partition["equal-0"]
        assert [list(way.leaders) for way in ways if way.way == "replica"] == ([left] if left else [])


@pytest.mark.parametrize("is_formatted", [False, True])
def test_a_broker_that_was_given_whole_and_has_no_such_partition_replaces_nothing(
    is_formatted: bool, tmp_path: Path
) -> None:
    """Its directory of the partition was removed, or its log directory reformatted, with another id."""
    volumes = unpack_replicas(tmp_path)
    volume = volumes / f"broker-{BEHIND}"
    assert damaged(volume, "equal")["replica"].leaders == tuple(sorted((OLD, NEW)))
    given = volumes / f"broker-{OLD}"
    for path in given.iterdir():
        if path.is_dir() and (is_formatted or path.name == "equal-0"):
            shutil.rmtree(path)
    if is_formatted:
        meta = given / "meta.properties"
        lines = [line for line in meta.read_text().splitlines() if not line.startswith("directory.id=")]
        meta.write_text("\n".join([*lines, "directory.id=AAAAAAAAAAAAAAAAAAABAA", ""]))
    found = next(each for each in plan(volume, given) if each.root == str(volume.resolve()))
    ways = {str(way.way): way for way in found.choice.by_partition["equal-0"]}
    assert ways["replica"].leaders == (NEW,)


def test_the_rest_of_a_log_that_was_cut_off_is_kept_by_the_others(tmp_path: Path) -> None:
    """Not only the records of the incomplete batch: all up to the high watermark."""
    volume = unpack_replicas(tmp_path) / f"broker-{BEHIND}"
    own = records(volume, "equal")
    log, *others = sorted((volume / "equal-0").glob("*.log"))
    for other in others:
        other.unlink()
    batches = scan(log.read_bytes()).batches
    with log.open("r+b") as file:
        file.truncate(batches[1].position + batches[1].size - 5)
    ways = {str(way.way): way.measured for way in plan(volume)[0].choice.by_partition["equal-0"]}
    assert ways["safe"].records_lost
    assert (ways["replica"].records_kept, ways["replica"].records_lost) == (len(own), 0)


def test_what_lies_above_an_old_high_watermark_others_may_have_too(tmp_path: Path) -> None:
    """The checkpoint is seconds old: here each of the others has all of it, and the way loses nothing."""
    volumes = unpack_replicas(tmp_path)
    volume = volumes / f"broker-{BEHIND}"
    own = records(volume, "equal")
    log = max(path for path in (volume / "equal-0").glob("*.log") if path.stat().st_size)
    last = scan(log.read_bytes()).batches[-1]
    os.truncate(log, last.position + last.size - 5)
    (volume / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    (volume / "replication-offset-checkpoint").write_text("0\n1\nequal 0 1\n")
    for broker in (OLD, NEW):
        assert records(volumes / f"broker-{broker}", "equal").items() >= own.items()
    choice = plan(volume)[0].choice
    ways = {str(way.way): way.measured for way in choice.by_partition["equal-0"]}
    found, safe = ways["replica"], ways["safe"]
    assert found.records_lost is not None
    assert safe.records_lost is not None
    assert found.records_lost >= safe.records_lost > 0
    assert (found.is_exact, found.out_of_reach, found.below_high_watermark) == (False, 0, False)
    assert (lost_text(found), sentence_of_lost(found)) == ("0 or more", "an unknown number of records, perhaps none")
    assert choice.recommended is not None
    assert choice.recommended.way == "replica"


@pytest.mark.parametrize("broker", [OLD, NEW])
def test_nobody_else_was_in_sync(broker: int, tmp_path: Path) -> None:
    """Who led alone at the end has records that nobody else need have: no other broker is offered."""
    ways = damaged(unpack_replicas(tmp_path) / f"broker-{broker}", "tale")
    assert "replica" not in ways


def test_no_broker_fetches_again_what_lies_below_its_recovery_point(tmp_path: Path) -> None:
    """Its start looks only above: the damaged copy would join those in sync, and stop whoever reads it."""
    volume = unpack_replicas(tmp_path) / f"broker-{BEHIND}"
    end = kafkalog.open(volume)["tale", 0].log_end_offset()
    (volume / "recovery-point-offset-checkpoint").write_text(f"0\n1\ntale 0 {end}\n")
    log = min((volume / "tale-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[BATCH.size + 10] ^= 1
    log.write_bytes(data)
    ways = {str(way.way): way for way in plan(volume)[0].choice.by_partition["tale-0"]}
    assert ways["kafka"].measured.damage_left == 1
    assert "replica" not in ways
    (volume / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    ways = {str(way.way): way for way in plan(volume)[0].choice.by_partition["tale-0"]}
    assert ways["kafka"].measured.damage_left == 0
    assert "replica" in ways
