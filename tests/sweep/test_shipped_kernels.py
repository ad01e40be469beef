"""Machine code that a wheel brings along, of every level, answers what the readable code answers, without numba."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafkalog.machine_code.levels import levels_here
from testkit.recorded.broker_dirs import STOPPED, unpacked

pytestmark = [pytest.mark.sweep]

ROOT = Path(__file__).resolve().parents[2]
READ = """
import hashlib, json, sys
from pathlib import Path
import kafkalog
from kafkalog.codec import thresholds
from kafkalog.machine_code import stored
stored._SHIPPED = Path(sys.argv[1])
stored._places = lambda: iter(())
if sys.argv[2] == "kernels":
    thresholds.kernel_is_worth_it = thresholds.headers_are_worth_it = lambda *_: True
found = {}
for path in sys.argv[3:]:
    for each in kafkalog.open(path).partitions:
        said = hashlib.sha256()
        findings = []
        if sys.argv[2] == "records":
            rows = [(r.offset, r.timestamp, r.key, r.value, [tuple(h) for h in r.headers]) for r in each.records()]
        else:
            table = each.to_arrow(["offset", "timestamp", "key", "value", "headers"], findings=findings).read_all()
            times = table["timestamp"].cast("int64").to_pylist()
            rows = [
                (row["offset"], -1 if time is None else time // 1000, row["key"], row["value"],
                 [(h["key"], h["value"]) for h in row["headers"] or ()])
                for row, time in zip(table.to_pylist(), times)
            ]
        found[each.path] = hashlib.sha256(repr(rows).encode()).hexdigest(), len(rows)
print(json.dumps([found, "numba" in sys.modules, len(stored.shipped())]))
"""


def read(folder: Path, way: str, paths: list[str], level: str) -> list[object]:
    hidden = f"import kafkalog.machine_code.levels as levels; levels.levels_here = lambda: ({level!r},)\n"
    done = subprocess.run(
        [sys.executable, "-c", hidden + READ, str(folder), way, *paths], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answer: list[object] = json.loads(done.stdout.splitlines()[-1])
    return answer


@pytest.mark.skipif(not levels_here(), reason="kernels are shipped for Linux on x86-64 alone")
def test_every_level_reads_what_the_readable_code_reads(tmp_path: Path) -> None:
    source = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    make = [sys.executable, str(ROOT / "release" / "kernels.py"), str(tmp_path)]
    made = subprocess.run(make, env=source, check=False)
    assert made.returncode == 0
    paths = [str(path) for case in STOPPED[::4] for path in sorted(unpacked(case.id).glob("broker-*"))]
    wanted = read(tmp_path, "records", paths, "none")[0]
    for level in levels_here():
        found, has_numba, kernels = read(tmp_path, "kernels", paths, level)
        assert (has_numba, kernels) == (False, 23)
        assert found == wanted
