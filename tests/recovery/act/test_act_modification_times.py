"""Logs keep their modification times wherever they are rewritten or copied.

A broker goes by them where a segment has no timestamps, or has them in the future: with times of today, nothing that
was rewritten or copied would be deleted in its time (`LogSegment.largestTimestamp`, KAFKA-20609).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import kafkalog
from kafkalog.jobs.merge.merge import merge_directories
from kafkalog.jobs.undelete.request import Undelete
from kafkalog.jobs.undelete.taking_out import undelete_into
from kafkalog.recovery import Recovery, recover, undo
from kafkalog.recovery.run import recover_into

T0 = 1_500_000_000
"""seconds; segments are a day apart"""
DAY = 86_400


def made(root: Path) -> Path:
    """Several segments, each with a time of its own."""
    root.mkdir(parents=True)
    with kafkalog.Log.open(root / "orders-0", kafkalog.LogConfig(segment_bytes=2000)) as log:
        for number in range(60):
            log.append([kafkalog.NewRecord(value=b"%0100d" % number, timestamp=1000 * number) for _ in range(2)])
    for number, path in enumerate(sorted((root / "orders-0").glob("*.log"))):
        os.utime(path, (T0 + DAY * number, T0 + DAY * number))
    return root


def times(root: Path, directory: str = "orders-0") -> dict[str, float]:
    found = {path.name: path.stat().st_mtime for path in (root / directory).glob("*.log")}
    assert len(found) > 4
    return found


def damaged(root: Path) -> Path:
    """In the middle of the second segment; its time stays."""
    path = sorted((root / "orders-0").glob("*.log"))[1]
    before, data = path.stat(), bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    return root


def salvaged(root: Path, work: Path) -> Path:
    recover(Recovery(mode="salvage", accept_loss=True), damaged(root))
    return root


def copied(root: Path, work: Path) -> Path:
    recover_into(root, target=work / "new")
    return work / "new"


def undone(root: Path, work: Path) -> Path:
    recover(Recovery(mode="salvage", accept_loss=True), damaged(root))
    undo(root)
    return root


def merged(root: Path, work: Path) -> Path:
    shutil.copytree(root, work / "other")
    merge_directories(damaged(root), work / "other", target=work / "new")
    return work / "new"


def taken_out(root: Path, work: Path) -> Path:
    (root / "orders-0").rename(root / f"orders-0.{'0' * 31}1-delete")
    undelete_into(Undelete(topic="orders"), root, target=work / "new")
    return work / "new"


def brought_up(root: Path, work: Path) -> Path:
    """What `recover` makes of a broker that was killed: indexes are built, and no log is written."""
    for path in (root / "orders-0").glob("*.index"):
        path.unlink()
    recover(Recovery(full=True), root)
    return root


@pytest.mark.parametrize(
    "job", [salvaged, copied, undone, merged, taken_out, brought_up], ids=lambda job: job.__name__
)
def test_logs_keep_their_times(job: Callable[[Path, Path], Path], tmp_path: Path) -> None:
    root = made(tmp_path / "logs")
    before = times(root)
    assert len(set(before.values())) == len(before)
    after = times(job(root, tmp_path))
    kept = {name: when for name, when in after.items() if name in before}
    assert len(kept) >= len(before) - 1
    assert kept == {name: before[name] for name in kept}
