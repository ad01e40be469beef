"""Logs that end beyond where their broker closed them, because the last batch's base offset was changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkalog.log import open_segment
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog

CASE = "4.1.1/txn"
MARKER = ".kafka_cleanshutdown"
CODE = "log_end_beyond_checkpoint"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory that a broker closed in order, as it was recorded."""
    return own_copy(brokers(CASE)[0], tmp_path / "data")


def recovery_points(root: Path) -> dict[str, int]:
    """What the broker wrote when it stopped, by partition directory."""
    lines = (root / "recovery-point-offset-checkpoint").read_text().splitlines()[2:]
    return {f"{topic}-{number}": int(point) for topic, number, point in map(str.split, lines)}


def raise_last_offset(folder: Path, bits: int) -> tuple[int, int]:
    """Flip bits in the base offset of a log's last batch; return the offset before and after."""
    log = max(folder.glob("*.log"))
    *_, last = open_segment(log).batches()
    with log.open("r+b") as file:
        file.seek(last.position)
        file.write((last.header.first_offset ^ bits).to_bytes(8, "big"))
    return last.header.first_offset, last.header.first_offset ^ bits


def told(command: str, root: Path) -> list[dict[str, Any]]:
    (line,) = kafkalog(command, "--json", root).objects
    assert not line.get("actions")
    return [each for each in line["findings"] if each["severity"] != "info"]


@pytest.mark.parametrize("command", ["verify", "plan", "ls"])
@pytest.mark.parametrize("bit", [12, 29])
def test_a_flipped_bit_is_told_by_the_recovery_point(command: str, bit: int, root: Path) -> None:
    """With the offset as it was, the log ends at the recovery point that the broker left."""
    assert told(command, root) == []
    points = {name: point for name, point in recovery_points(root).items() if point}
    del points["__consumer_offsets-1"]  # its last leader epoch begins at the last batch, which is told too
    assert len(points) == 6
    offsets = {name: raise_last_offset(root / name, 1 << bit) for name in points}
    all_told = told(command, root)
    assert [each["code"] for each in all_told] == [CODE] * 6
    findings = {each["file"].split("/")[-2]: each for each in all_told}
    assert findings.keys() == points.keys()
    for name, each in findings.items():
        before, after = offsets[name]
        assert f"beyond the recovery point {points[name]} of" in each["detail"]
        assert f"has offset {after} where {before} should come" in each["detail"]
        assert f"differ by one bit, and with {before} the log ends at {points[name]}, as that says" in each["detail"]


def test_of_several_bits_only_the_contradiction_is_told(root: Path) -> None:
    before, after = raise_last_offset(root / "trades-41-0", 0b11 << 12)
    (finding,) = told("verify", root)
    assert f"has offset {after} where {before} should come" in finding["detail"]
    assert "one bit" not in finding["detail"]


def test_a_checkpoint_of_an_earlier_moment_is_told(root: Path) -> None:
    checkpoint = root / "recovery-point-offset-checkpoint"
    checkpoint.write_text(checkpoint.read_text().replace("trades-41 0 211\n", "trades-41 0 189\n"))
    (finding,) = told("verify", root)
    assert (finding["code"], finding["detail"]) == (
        CODE, "the log ends at 211, beyond the recovery point 189 of a broker that stopped in order",
    )  # fmt: skip


@pytest.mark.parametrize("has_snapshot", [True, False])
def test_after_a_kill_a_snapshot_may_tell_it(has_snapshot: bool, root: Path) -> None:
    """Without the marker the recovery point says only how far the log was flushed."""
    (root / MARKER).unlink()
    before, after = raise_last_offset(root / "trades-41-0", 1 << 12)
    snapshot = root / "trades-41-0" / f"{recovery_points(root)['trades-41-0']:020}.snapshot"
    if not has_snapshot:
        snapshot.unlink()
    (line,) = kafkalog("plan", "--json", root).objects
    details = [each["detail"] for each in line["findings"] if each["code"] == CODE]
    assert details == [each["detail"] for each in told("verify", root) if each["code"] == CODE]
    assert len(details) == has_snapshot
    for detail in details:
        assert "beyond a producer snapshot" in detail
        assert f"has offset {after} where {before} should come" in detail
        assert f"with {before} the log ends at {int(snapshot.stem)}" in detail
