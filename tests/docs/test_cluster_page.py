"""What docs/cluster.md shows works, on directories that real brokers and a real ZooKeeper left."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from kafkalog.cli.main import COMMANDS
from testkit.judging.trees import stamps
from testkit.recorded.fixture_data import broker_case
from testkit.running.command import kafkalog

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "cluster.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
LINES = [line for kind, text in BLOCKS if kind == "console" for line in text.splitlines()]
MAY_BE_SHORT = ("--pending", "metadata data --json")  # nothing waits there; one object


@pytest.fixture
def directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directories under the names that the examples have for them, in the current directory."""
    next(broker_case("4.1.1", "groups").unpack(tmp_path / "one").glob("broker-*")).rename(tmp_path / "data")
    (broker_case("2.8.2", "zkhist").unpack(tmp_path / "two") / "zookeeper").rename(tmp_path / "zookeeper")
    three = broker_case("0.8.2.2", "groups").unpack(tmp_path / "three")
    (three / "zookeeper").rename(tmp_path / "old")
    next(three.glob("broker-*")).rename(tmp_path / "log")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_command_has_an_example() -> None:
    shown = {shlex.split(line)[2] for line in LINES}
    assert shown == {"offsets", "groups", "transactions", "metadata", "zk", "elections"}
    assert shown <= {*COMMANDS}


@pytest.mark.parametrize("line", LINES)
def test_commands(line: str, directories: Path) -> None:
    into = directories / "new"
    before = stamps(directories)
    assert line.startswith("$ kafkalog ")
    finished = kafkalog(*shlex.split(line)[2:])
    assert (finished.code, finished.err) == (0, "")
    assert into.exists() is ("--into" in line)
    changed = into.exists()
    if changed:
        shutil.rmtree(into)
    after = stamps(directories)
    if changed:
        assert before.pop(".")[1:] == after["."][1:]
    assert len(finished.lines) > 2 or any(each in line for each in MAY_BE_SHORT)
    if "--json" in line:
        assert finished.objects
    assert after.items() >= before.items()
    assert {*after} == {*before, "."}


@pytest.mark.parametrize("text", [text for kind, text in BLOCKS if kind == "python"])
def test_python(text: str, directories: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(text, "docs/cluster.md", "exec"), {})
    printed = capsys.readouterr().out
    assert any(each in printed for each in ("alive-68", "brokerid", "old-alive"))
