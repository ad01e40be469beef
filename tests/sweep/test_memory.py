"""Verifying and recovering hold no more than 256 MiB and twice the largest batch, whatever the size of the log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import kafkalog
from kafkalog.codec.encode import build_batch
from kafkalog.codec.model import Record, TimestampType

pytestmark = pytest.mark.sweep

MIB = 1 << 20
SMALLEST, SMALL, LARGE = 176, 16 << 10, 48 * MIB
LOG_BYTES = 400 * MIB
RUN = """
import json, sys
from pathlib import Path
from kafkalog import Recovery, recover, verify
what, path = sys.argv[1:]
if what in ("verify", "shallow"):
    found = verify(path, deep=what == "verify").findings
else:
    found = recover(Recovery(mode=what, accept_loss=True), path)[0].plan.findings
lines = Path("/proc/self/status").read_text().splitlines()
peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
print(json.dumps({"kib": peak, "findings": [finding.code for finding in found]}))
"""


def batch_of(size: int, seed: int) -> bytes:
    value = seed.to_bytes(4, "big") * (size // 4)
    return build_batch([Record(0, 1_700_000_000_000, TimestampType.CREATE_TIME, None, value)], base_offset=0)


def write_log(root: Path, value_bytes: int, *, torn: bool) -> None:
    """One segment: small batches, one large one in the middle, small ones again; the offset lies outside the CRC.

    With the smallest batches there is no large one.
    """
    directory = root / "big-0"
    directory.mkdir(parents=True)
    (root / "recovery-point-offset-checkpoint").write_bytes(b"0\n0\n")
    small, large = batch_of(value_bytes, 7), batch_of(LARGE if value_bytes == SMALL else value_bytes, 11)
    offset = written = 0
    with (directory / f"{0:020d}.log").open("wb") as file:
        while written < LOG_BYTES:
            data = large if offset == 10_000 else small
            file.write(offset.to_bytes(8, "big") + data[8:])
            offset, written = offset + 1, written + len(data)
        if torn:
            file.write(offset.to_bytes(8, "big") + small[8:-5])


@pytest.mark.parametrize(
    ("what", "value_bytes"),
    [
        ("verify", SMALL),
        ("shallow", SMALL),
        ("safe", SMALL),
        ("kafka", SMALL),
        ("shallow", SMALLEST),
        ("safe", SMALLEST),
    ],
)
def test_memory_does_not_grow_with_the_log(
    what: str, value_bytes: int, tmp_path: Path, measured: Callable[[str, int], None]
) -> None:
    write_log(tmp_path / "logs", value_bytes, torn=True)
    environment = os.environ | {"PYTHONPATH": str(Path(kafkalog.__file__).resolve().parents[1])}
    finished = subprocess.run(
        [sys.executable, "-c", RUN, what, str(tmp_path / "logs")],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr[-2000:]
    result = json.loads(finished.stdout)
    if what != "kafka":
        assert "torn_tail" in [code.lower() for code in result["findings"]]
    size = (tmp_path / "logs" / "big-0" / f"{0:020d}.log").stat().st_size
    assert size > LOG_BYTES - LARGE
    assert result["kib"] << 10 < 256 * MIB + (2 * LARGE if value_bytes == SMALL else 0)
    kind = f"batches of {value_bytes} B"
    measured(f"MiB held while a log of {size // MIB} MiB, {kind}, went through {what}", result["kib"] >> 10)
