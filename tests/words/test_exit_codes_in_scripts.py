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
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog

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
    assert run_line(tmp_path) == starts


def test_a_node_that_loses_something_is_not_started_after_a_change(tmp_path: Path) -> None:
    """Kafka 4.3.0 makes the partition again, empty, and deletes the directory a minute later."""
    root = own_copy(brokers("4.3.0/metadata")[0], tmp_path / "data")
    (root / ".kafka_cleanshutdown").unlink()
    live = next(each for each in sorted(root.iterdir()) if each.name.endswith("-0") and each.name[0] != "_")
    live.rename(root / f"{live.name}.{'0' * 32}-delete")
    assert kafkalog("recover", "--yes", root).code == 2
    assert not run_line(tmp_path)


@pytest.mark.parametrize("closed", [True, False])
def test_a_node_whose_consumers_would_skip_records_is_not_started(closed: bool, tmp_path: Path) -> None:
    """A real 4.1.1 with an index of another segment below the recovery point skipped 1282 records, without an error."""
    root = own_copy(brokers("4.3.0/segments")[0], tmp_path / "data")
    if not closed:
        (root / ".kafka_cleanshutdown").unlink()
    index = max(root.glob("sensors-0-0/*74.index"))
    index.chmod(0o600)
    index.write_bytes((root / "sensors-0-1" / index.name).read_bytes())
    assert not run_line(tmp_path)
    assert kafkalog("recover", "--full", "--yes", root).code == 2
    assert run_line(tmp_path)


def run_line(tmp_path: Path) -> bool:
    """Run the line on `data`; whether it starts the broker."""
    program = shlex.join([sys.executable, "-m", "kafkalog"])
    line = LINE.replace("kafkalog", program).replace("systemctl start kafka", "touch started")
    subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, check=False, env=dict(os.environ))
    return (tmp_path / "started").exists()
