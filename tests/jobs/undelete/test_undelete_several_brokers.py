"""Replicas of a deleted topic on several brokers are copies, and not several deletions."""

from __future__ import annotations

import shutil
from pathlib import Path

from kafkalog import compare
from testkit.made.scenes import deleted_topic, metadata_elsewhere
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog


def test_each_broker_has_its_own_copy(tmp_path: Path) -> None:
    deleted_topic(tmp_path)
    disks = [tmp_path / f"broker-{number}" for number in (1, 2, 3)]
    told = kafkalog("undelete", "--topic", "sessions-20", "--into", tmp_path / "rescued", *disks)
    assert told.code == 3
    assert "sessions-20-0 was deleted on 3 brokers, from " in told.err
    assert "into a directory of its own and merge those" in told.err
    assert not (tmp_path / "rescued").exists()
    for number, disk in enumerate(disks):
        assert kafkalog("undelete", "--topic", "sessions-20", "--into", tmp_path / f"from-{number}", disk).code == 0
    assert compare(*(tmp_path / f"from-{number}" for number in range(3))).is_clean


def test_what_another_directory_of_the_broker_holds_again_does_not_come_back(tmp_path: Path) -> None:
    """A topic that was made again, whose partition lies in the other directory with records of its own."""
    first = own_copy(brokers("4.1.1/segments")[0], tmp_path / "a")
    second = metadata_elsewhere(first, tmp_path / "b")
    live = first / "stock-41-0"
    shutil.copytree(live, second / live.name)
    live.rename(first / f"{live.name}.0123456789abcdef0123456789abcdef-delete")
    words = ("undelete", "--topic", live.name.removesuffix("-0"), first, second)
    listed = " ".join(kafkalog(*words, "--list").out.split())
    assert f"becomes {live.name} again" not in listed
    assert f"{second}/{live.name} exists and holds its own data" in listed
    assert f"move {second}/{live.name} away" not in " ".join(kafkalog(*words, "--yes").err.split())
