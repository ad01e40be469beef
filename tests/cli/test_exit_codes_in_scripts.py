"""The line that the documents give to scripts starts a broker after a recovery, and after nothing else but peace."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from testkit.made.tens import flip, log_of_tens

PAGE = Path(__file__).parents[2] / "docs" / "recovery.md"
(LINE,) = re.findall(r"^kafkalog recover .*systemctl start kafka$", PAGE.read_text(), re.MULTILINE)


@pytest.mark.parametrize(("damage", "starts"), [("none", True), ("torn", True), ("middle", False), ("missing", False)])
def test_the_line_for_scripts(damage: str, *, starts: bool, tmp_path: Path) -> None:
    if damage != "missing":
        (log,) = log_of_tens(tmp_path / "data", 4)
        if damage == "torn":
            log.write_bytes(log.read_bytes()[:-1])
        if damage == "middle":
            flip(log, (1, 70, 1))
    program = shlex.join([sys.executable, "-m", "kafkalog"])
    line = LINE.replace("kafkalog", program, 1).replace("systemctl start kafka", "touch started")
    subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, check=False, env=dict(os.environ))
    assert (tmp_path / "started").exists() == starts
