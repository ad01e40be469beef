"""The example that uses every public function of the library runs, and leaves none out."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import kafkalog
from testkit.recorded.fixture_data import unpack_tiered
from testkit.recorded.quorums import copied

PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "library.py"


def test_it_runs(tmp_path: Path) -> None:
    controller = copied("dynamic", tmp_path / "controllers", 1)[1]
    tiered = unpack_tiered("stopped", tmp_path / "tiered")
    given = (tmp_path / "work", controller, tiered, tiered.parent / "remote")
    ran = subprocess.run(
        [sys.executable, str(PROGRAM), *map(str, given)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "quorum:" in ran.stdout


def test_it_uses_every_function() -> None:
    exported: list[str] = vars(kafkalog)["__all__"]
    functions = {name for name in exported if inspect.isfunction(getattr(kafkalog, name))}
    used = set(re.findall(r"\bkafkalog\.(\w+)\(", PROGRAM.read_text(encoding="utf-8")))
    assert functions - used == set()
