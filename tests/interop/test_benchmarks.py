"""The comparison with the peers runs, and everyone finds the same records; no figure is looked at."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.interop
def test_the_comparison_runs(tmp_path: Path) -> None:
    results = tmp_path / "results.md"
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "compare.py"), "--quick", "--results", str(results)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert results.read_text().count("\n| ") >= 16


@pytest.mark.interop
def test_the_scaling_runs(tmp_path: Path) -> None:
    results = tmp_path / "scaling.md"
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "scaling.py"), "--quick", "--results", str(results)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert results.read_text().count("\n## ") == 12  # groups
