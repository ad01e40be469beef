"""Replicas of a deleted topic on several brokers are copies, and not several deletions."""

from __future__ import annotations

from pathlib import Path

from kafkalog import compare
from testkit.made.scenes import deleted_topic
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
