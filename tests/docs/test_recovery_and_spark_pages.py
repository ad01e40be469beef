"""What the pages on recovery and Spark show works, on a directory that a killed broker left."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from kafkalog.recovery import Recovery, recover
from testkit.judging.trees import stamps
from testkit.recorded.fixture_data import broker_case
from testkit.running.command import kafkalog

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = (DOCS / "recovery.md", DOCS / "spark.md")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = [block for page in PAGES for block in BLOCK.findall(page.read_text())]
CODES = {"ls": {1}, "verify": {1}, "plan": {1}, "recover": {2}, "undo": {2}, "dump": {0, 1}, "runs": {0},
         "undelete": {0}, "find": {0, 1}}  # fmt: skip
DECLINED = "recover --yes data"
"""It would drop what can still be read."""


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory that the examples call `data`, in the current directory."""
    root = broker_case("4.1.1", "torn").unpack(tmp_path / "unpacked")
    (broker,) = (path for path in root.iterdir() if path.name.startswith("broker-"))
    broker.rename(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "data"


def test_there_are_examples() -> None:
    kinds = [kind for kind, _ in BLOCKS]
    assert kinds.count("console") == 3
    assert kinds.count("python") == 2


@pytest.mark.parametrize("text", [text for kind, text in BLOCKS if kind == "console"])
def test_commands(text: str, data: Path) -> None:
    before = stamps(data)
    for line in text.splitlines():
        assert line.startswith("$ kafkalog ")
        words = shlex.split(line)[2:]
        finished = kafkalog(*words)
        if " ".join(words) == DECLINED:
            assert finished.code == 3
            assert "can still be read" in finished.err
            continue
        assert finished.code in CODES[words[0]], (line, finished.err)
        assert finished.out
        assert "Traceback" not in finished.err
    assert stamps(data) == before


@pytest.mark.interop
@pytest.mark.java
def test_spark(data: Path) -> None:
    # a process of its own: one JVM serves a process, and relative paths are relative to where that was started
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    text = "\n".join(text for kind, text in BLOCKS if kind == "python")
    assert 'os.environ["PYSPARK_PYTHON"] = sys.executable' in text
    recover(Recovery(accept_loss=True), "data")
    finished = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, cwd=data.parent, env=environment, check=False
    )
    assert finished.returncode == 0, finished.stderr[-2000:]
    assert finished.stdout.count("|partition|count|") == 1
    assert finished.stdout.count("quotes-20-0: offsets from 0 up to the end in bytes 0 to ") == 1
