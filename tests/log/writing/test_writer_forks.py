"""A log that is carried over `fork()` belongs to the parent: a child changes nothing, and is told so at once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[2] / "support" / "forked_writer.py"
LONGEST_SECONDS = 300
"""A child that waits for a lock of a thread that it does not have would wait forever."""


@pytest.mark.compiled
def test_no_child_changes_anything_at_any_moment(tmp_path: Path, measured: Callable[[str, int], None]) -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", str(PROGRAM), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    seen = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each for each in seen if each["wrong"]] == []
    assert len(seen) >= 100
    measured("forks of a process that writes or reads", len(seen))
