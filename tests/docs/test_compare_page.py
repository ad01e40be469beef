"""What docs/compare.md shows works, on the volumes of three real brokers that went apart."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from testkit.recorded.fixture_data import replica_roles, unpack_replicas
from testkit.running.command import kafkalog

PAGE = Path(__file__).resolve().parents[2] / "docs" / "compare.md"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
LINES = [line for kind, text in BLOCKS if kind == "console" for line in text.splitlines()]
CODES = {"compare": 1, "merge": 0}


@pytest.fixture(autouse=True)
def volumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`broker-1` to `broker-3` in the current directory."""
    unpack_replicas(tmp_path)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("line", LINES)
def test_commands(line: str) -> None:
    words = shlex.split(line)
    assert words[:2] == ["$", "kafkalog"]
    assert kafkalog(*words[2:]).code == CODES[words[2]]


def test_the_paragraph_is_what_the_first_command_prints() -> None:
    (shown,) = (text for kind, text in BLOCKS if kind == "text")
    printed = kafkalog(*shlex.split(LINES[0])[2:]).out
    assert " ".join(shown.split()) in " ".join(printed.split())


def test_python(capsys: pytest.CaptureFixture[str]) -> None:
    roles = replica_roles()
    for text in (text for kind, text in BLOCKS if kind == "python"):
        exec(compile(text, "docs/compare.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert printed == [
        f"{roles['new_leader']} its last leader epoch, 1, is the highest",
        f"{roles['old_leader']} agrees up to 90 and has 40 records of its own",
        "130 []",
    ]
