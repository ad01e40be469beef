"""Damaged directories of the recovery fixtures, all of them in a sweep: reading ends with findings, not an accident."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.recorded.fixture_data import recovery_cases, recovery_families
from testkit.running.command import kafkalog


@pytest.mark.parametrize("each", [3, pytest.param(1, marks=pytest.mark.sweep)])
@pytest.mark.parametrize("family", recovery_families())
def test_reading_a_damaged_directory_ends_with_findings_at_most(family: str, each: int, tmp_path: Path) -> None:
    damaged = 0
    for number, case in enumerate(recovery_cases([family])[::each]):
        directory = case.unpack_before(tmp_path / str(number))
        for arguments in (["ls", "--json"], ["dump", "--all"], ["dump", "--isolation-level", "read_committed"]):
            finished = kafkalog(*arguments, directory)
            assert finished.code in (0, 1), (case.id, arguments, finished.err)
            # findings and nothing else make the difference; an open transaction is told of, and is none
            told = [line for line in finished.err.splitlines() if ": read_committed ends at offset " not in line]
            assert (finished.code == 1) == bool(told), (case.id, arguments)
            damaged += finished.code
    if family in ("bit_flip", "torn_tail", "tail_junk"):
        assert damaged > 0
    if family == "undamaged":
        assert damaged == 0
