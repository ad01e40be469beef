"""`health` with bounds of its own on what a batch may hold."""

from __future__ import annotations

from pathlib import Path

import kafkalog
from kafkalog.codec.common.findings import FindingCode
from kafkalog.inspect.health import health
from kafkalog.log import Log, NewRecord


def test_a_batch_above_the_limit_is_a_finding_in_directories_and_segments(tmp_path: Path) -> None:
    root = tmp_path / "data"
    root.mkdir()
    with Log.open(root / "t-0") as log:
        log.append([NewRecord(b"small")])
        log.append([NewRecord(b"v" * 5000)])
    limits = kafkalog.Limits(batch_bytes=1000)
    for path in (root, root / "t-0", root / "t-0" / f"{0:020}.log"):
        assert [len(each.partitions[0].findings) for each in health(path)] == [0]
        (found,) = health(path, limits=limits)
        (partition,) = found.partitions
        assert [finding.code for finding in partition.findings] == [FindingCode.LIMIT_EXCEEDED]
        assert partition.log_end_offset == 1
