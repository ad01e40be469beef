"""Every line of docs/options.md does what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "options.md").read_text()
BLOCKS = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
LINES = [line for block in BLOCKS for line in block.splitlines() if line.startswith("$ ")]


def test_there_are_lines() -> None:
    assert len(LINES) == 6


@pytest.mark.parametrize("line", LINES)
def test_commands(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = "4.1.1/groups" if "offsets" in line else "4.1.1/segments"
    own_copy(brokers(case)[0], tmp_path / "data")
    (tmp_path / "server.properties").write_text("log.dirs=data\n")
    monkeypatch.chdir(tmp_path)
    finished = kafkalog(*shlex.split(line)[2:])
    block = next(block for block in BLOCKS if line in block)
    shown = block.splitlines()[block.splitlines().index(line) + 1 :]
    if shown and shown[0].startswith("kafkalog: "):
        assert (finished.code, finished.out, finished.err.rstrip()) == (1, "", shown[0])
    else:
        assert finished.code in ((0, 1) if "plan" in line else (0,)), finished.err
        assert finished.err == ""
        assert finished.lines
