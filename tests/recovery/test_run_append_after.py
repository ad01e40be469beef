"""After a recovery the log goes on: append, read back, and verify finds nothing new."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkalog import FindingCode, FormatError, Log, LogConfig, RecoveryRefused, Severity, open_all
from kafkalog.recovery import Recovery, recover
from kafkalog.recovery.checks.verify import verify
from testkit.recorded.fixture_data import recovery_cases, recovery_families

NOW = 1700000200000
NEW = [b"first after the crash", b"second", b"third"]


LEFT_OUT = {
    "bases": "no cases",
    "config": "the settings are at fault",
    "log_dir": "about the directory, not the log",
    **dict.fromkeys(
        ("crc_fixed", "not_under_crc", "checkpoints", "foreign_files", "segment_set"),
        "some keep what no broker writes, which is a finding and no reason to cut; the writer declines to go on there",
    ),
}


def values(root: Path) -> list[bytes | None]:
    return [record.value for record in open_all(root)["t", 0].records(all=True)]


def serious(root: Path) -> set[tuple[str, str | None]]:
    """Codes and files of what verify finds wrong."""
    return {
        (str(finding.code), finding.file) for finding in verify(root).findings if finding.severity is not Severity.INFO
    }


@pytest.mark.parametrize("family", [name for name in recovery_families() if name not in LEFT_OUT])
def test_append_after_recovery(family: str, tmp_path: Path, compared: Callable[[str, int], None]) -> None:
    count = 0
    for number, case in enumerate(recovery_cases([family])[::4]):
        root = case.unpack_before(tmp_path / str(number))
        params = case.case["params"]
        settings = {name: str(value) for name, value in params.items() if "." in name}
        given: dict[str, Any] = {"config": settings, "at": NOW}
        try:
            recover(Recovery(accept_loss=True, **given), root)
        except RecoveryRefused:
            continue
        if not (root / "t-0").is_dir():
            continue  # it has become stray
        before, known = values(root), serious(root)
        config = LogConfig(
            segment_bytes=1 << 20,
            segment_index_bytes=int(params["segment.index.bytes"]),
            index_interval_bytes=int(params["index.interval.bytes"]),
        )
        try:
            log = Log.open(root / "t-0", config, clock=lambda: NOW)
        except FormatError as error:
            # Kafka keeps a batch whose offsets were there before, and so does recovery; the writer does not go on there
            assert "after" in str(error)  # noqa: PT017
            assert FindingCode.OFFSET_NOT_INCREASING in {each.code for each in verify(root).findings}, case.id
            continue
        with log:
            first = log.append(NEW)
            assert first + len(NEW) == log.end_offset
        assert values(root) == [*before, *NEW], case.id
        if any(code == FindingCode.SNAPSHOT_MISMATCH for code, _path in known):  # the next one inherits it
            known |= {(FindingCode.SNAPSHOT_MISMATCH, str(path)) for path in (root / "t-0").glob("*.snapshot")}
        assert serious(root) <= known, case.id
        count += 1
    assert count
    compared("logs appended to after a recovery, and whole", count)
