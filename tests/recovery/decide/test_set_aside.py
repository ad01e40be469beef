"""A partition set aside, so that its broker fetches all of it again: on the volumes of a recorded cluster."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

import kafkalog
from kafkalog import RecoveryRefused
from kafkalog.codec.model import BATCH
from kafkalog.recovery import Recovery, plan, recover, undo
from testkit.judging.trees import stamps
from testkit.recorded.fixture_data import replica_roles, unpack_replicas
from testkit.running.command import kafkalog as command

ROLES = replica_roles()
OLD, NEW, BEHIND = (ROLES[part] for part in ("old_leader", "new_leader", "behind"))
TALE = "tale-0"


def damage(log: Path) -> None:
    """More than a flipped bit, in the first batch."""
    data = bytearray(log.read_bytes())
    data[BATCH.size + 10 : BATCH.size + 14] = bytes(each ^ 0xA5 for each in data[BATCH.size + 10 : BATCH.size + 14])
    log.write_bytes(data)


@pytest.fixture
def volumes(tmp_path: Path) -> Path:
    """The broker that was behind has damage in `tale` below its recovery point, where its start looks no more."""
    volumes = unpack_replicas(tmp_path)
    volume = volumes / f"broker-{BEHIND}"
    end = kafkalog.open(volume)["tale", 0].log_end_offset()
    (volume / "recovery-point-offset-checkpoint").write_text(f"0\n1\ntale 0 {end}\n")
    log = min((volume / TALE).glob("*.log"))
    damage(log)
    return volumes


def test_the_printed_command_sets_it_aside_and_can_be_undone(volumes: Path) -> None:
    volume = volumes / f"broker-{BEHIND}"
    before = stamps(volume)
    (way,) = (each for each in plan(volume)[0].choice.by_partition[TALE] if each.way == "set_aside")
    printed = [line.strip() for line in command("plan", volume).lines]
    (line,) = {each for each in printed if each.startswith("kafkalog recover ") and "set-aside" in each}
    done = command(*shlex.split(line)[1:])
    assert done.code == 2
    ends = "in sync: this broker fetches tale-0 again from the leader, which must be alive first"
    in_sync = ", ".join(map(str, sorted((OLD, NEW))))
    assert f"by the metadata, brokers {in_sync} are {ends}" in " ".join(done.out.split())
    assert not (volume / TALE).exists()
    left = {name: held for name, held in stamps(volume).items() if name != "."}
    assert left == {name: held for name, held in before.items() if name != "." and not name.startswith(TALE)}
    made = plan(volume)[0]
    assert made.broker.outcome == "loaded"
    assert TALE not in made.broker.log_end_offsets
    for broker in (OLD, NEW):  # what it fetches from those that it names
        there = sum(1 for _ in kafkalog.open(volumes / f"broker-{broker}")["tale", 0].records())
        assert there >= (way.measured.records_kept or 0) > 0
    undo(volume)
    assert stamps(volume) == before


def test_it_is_done_only_to_partitions_that_are_named(volumes: Path) -> None:
    volume = volumes / f"broker-{BEHIND}"
    before = stamps(volume)
    with pytest.raises(RecoveryRefused, match="say which"):
        recover(Recovery(mode="set-aside", accept_loss=True), volume)
    metadata = volumes / "controller" / "__cluster_metadata-0"
    refused = command("recover", "--mode", "set-aside", "--yes", volume / TALE, metadata.parent)
    assert refused.code == 3
    assert str(metadata) in "".join((refused.out + refused.err).split())
    assert str(metadata.parent) in command("plan", "--mode", "set-aside", volume / TALE, metadata).out
    with pytest.raises(RecoveryRefused, match="can still be read"):
        recover(Recovery(mode="set-aside"), volume / TALE)
    assert stamps(volume) == before


def test_it_removes_the_marker_as_every_run_does(volumes: Path) -> None:
    """A broker then examines the other logs too."""
    volume = volumes / f"broker-{BEHIND}"
    (volume / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    recover(Recovery(mode="set-aside", accept_loss=True), volume / TALE)
    assert not (volume / ".kafka_cleanshutdown").exists()


def test_nobody_else_has_it(volumes: Path) -> None:
    """Who led alone at the end names nobody: setting it aside is no way there."""
    log = min((volumes / f"broker-{NEW}" / TALE).glob("*.log"))
    damage(log)
    ways = plan(volumes / f"broker-{NEW}")[0].choice.by_partition[TALE]
    assert "set_aside" not in {str(way.way) for way in ways}
