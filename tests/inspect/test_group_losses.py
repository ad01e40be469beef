"""What groups lost where replicas diverged: in a recorded story of three brokers, told by the epochs of commits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafkalog import OffsetAndMetadata, commit_offsets, compare
from kafkalog.inspect.group_losses import GroupLoss, commits_of, group_losses
from testkit.recorded.fixture_data import replica_roles, unpack_replicas
from testkit.running.command import kafkalog

ROLES = replica_roles()
OLD, NEW = ROLES["old_leader"], ROLES["new_leader"]
COMMON, OLD_END, NEW_END = 90, 130, 120
"""60 + 30 records that both have; 40 more of the old leader, 30 at the same offsets of the new one, in epoch 1."""


@pytest.fixture
def volumes(tmp_path: Path) -> dict[int, Path]:
    root = unpack_replicas(tmp_path / "volumes")
    return {broker: root / f"broker-{broker}" for broker in ROLES["brokers"]}


def losses_of(volumes: dict[int, Path], commits: dict[str, tuple[int, int]]) -> dict[str, GroupLoss]:
    for group, (offset, epoch) in commits.items():
        committed = {("tale", 0): OffsetAndMetadata(offset, leader_epoch=epoch)}
        commit_offsets(volumes[NEW], group, committed, offsets_topic_num_partitions=1)
    found = compare(*volumes.values())
    known, findings = commits_of(found)
    assert len(known) == len(commits)
    assert findings == []
    return {each.group: each for each in group_losses(found, known)}


def test_by_the_epoch_of_the_commit(volumes: dict[int, Path]) -> None:
    lost = losses_of(volumes, {
        "of the old leader": (OLD_END, 0), "in the middle": (100, 0), "of what both have": (COMMON, 0),
        "of the new leader": (NEW_END, 1), "says no epoch": (110, -1), "no epoch, of what both have": (50, -1),
    })  # fmt: skip
    assert lost.keys() == {"of the old leader", "in the middle", "says no epoch"}
    tail = str(volumes[OLD] / "tale-0")
    assert lost["of the old leader"] == GroupLoss(
        group="of the old leader",
        topic="tale",
        partition=0,
        committed_offset=OLD_END,
        leader_epoch=0,
        gone_first=COMMON,
        unseen_last=NEW_END - 1,
        is_certain=True,
        held_by=tail,
    )
    assert lost["in the middle"] == GroupLoss(
        group="in the middle",
        topic="tale",
        partition=0,
        committed_offset=100,
        leader_epoch=0,
        gone_first=COMMON,
        unseen_last=99,
        is_certain=True,
        held_by=tail,
    )
    assert lost["says no epoch"] == GroupLoss(
        group="says no epoch",
        topic="tale",
        partition=0,
        committed_offset=110,
        leader_epoch=None,
        gone_first=COMMON,
        unseen_last=109,
        is_certain=False,
        held_by=tail,
    )


def test_without_the_copy_that_was_read(volumes: dict[int, Path]) -> None:
    del volumes[OLD]
    lost = losses_of(volumes, {"a": (OLD_END, 0), "b": (OLD_END, -1), "c": (NEW_END, 1)})
    assert lost["a"].held_by is None
    assert (lost["a"].gone_first, lost["a"].unseen_last, lost["a"].is_certain) == (COMMON, NEW_END - 1, True)
    assert (lost["b"].gone_first, lost["b"].unseen_last, lost["b"].is_certain) == (NEW_END, None, True)
    assert "c" not in lost


def test_the_command(volumes: dict[int, Path]) -> None:
    losses_of(volumes, {"readers": (OLD_END, 0)})
    paths = [str(path) for path in volumes.values()]
    shown = kafkalog("compare", *paths, "--topic", "tale", "--groups")
    assert shown.code == 1
    assert f"{COMMON} to {OLD_END - 1}" in shown.out
    assert f"{COMMON} to {NEW_END - 1}" in shown.out
    told = kafkalog("compare", *paths, "-t", "tale", "--groups", "--json").out
    lines = [json.loads(line) for line in told.splitlines()]
    assert [line["kind"] for line in lines] == ["partition", "group", "summary"]
    assert lines[1]["gone"] == [COMMON, OLD_END - 1]
    equal = kafkalog("compare", *paths, "--topic", "equal", "--groups")
    assert "groups: none has read anything that the best copies lack" in equal.out
    assert equal.code == 0


def test_without_the_offsets_of_groups(volumes: dict[int, Path]) -> None:
    """What is missing is said, and not that a topic does not exist which nobody has named."""
    told = kafkalog("compare", *volumes.values(), "--topic", "tale", "--groups")
    assert told.code == 1
    assert told.err.startswith("kafkalog: none of these has __consumer_offsets, so what groups have read is not known")
