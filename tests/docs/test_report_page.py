"""What docs/report.md shows works, on a directory with a flipped bit."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from kafkalog.inspect import examine, walked
from kafkalog.inspect.stretches import Kind
from kafkalog.reporting import section_inventory, section_topics
from testkit.recorded.fixture_data import recovery_cases
from testkit.running.command import kafkalog

PAGE = Path(__file__).resolve().parents[2] / "docs" / "report.md"
TEXT = PAGE.read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`data` in the current directory."""
    recovery_cases(["bit_flip"])[0].unpack_before(tmp_path / "data")
    monkeypatch.chdir(tmp_path)


def test_commands(tmp_path: Path) -> None:
    (lines,) = (text.splitlines() for kind, text in BLOCKS if kind == "console")
    for line in lines:
        words = shlex.split(line)
        assert words[:3] == ["$", "kafkalog", "report"]
        finished = kafkalog(*words[2:])
        assert (finished.code, finished.err) == (1, "")
    assert (tmp_path / "report.html").read_text().startswith("<!DOCTYPE html>")
    (shown,) = (text for kind, text in BLOCKS if kind == "text")
    assert (tmp_path / "report.md").read_text().startswith(shown)


def test_python(capsys: pytest.CaptureFixture[str]) -> None:
    (text,) = (text for kind, text in BLOCKS if kind == "python")
    exec(compile(text, "docs/report.md", "exec"), {})
    sentence, count = capsys.readouterr().out.splitlines()
    assert sentence.startswith("1 segment in 1 of 1 partition")
    assert re.fullmatch(r"[1-9] findings", count)


def test_every_kind_is_explained() -> None:
    assert re.findall(r"^\| `([A-Z])` \|", TEXT, re.MULTILINE) == [str(kind) for kind in (
        Kind.SOUND, Kind.AFTER, Kind.ZEROS, Kind.TORN, Kind.MISPLACED, Kind.NONSENSE, Kind.CORRUPT, Kind.UNREAD
    )]  # fmt: skip


def test_the_limits_are_those_of_the_program() -> None:
    (limits,) = re.findall(r"^## How large it becomes\n\n(.*?)\n\n", TEXT, re.MULTILINE | re.DOTALL)
    numbers = re.findall(r"\b\d+\b", limits)
    assert numbers == [str(each) for each in (
        walked.MOST_DAMAGED, walked.MOST_CLEAN, examine.MOST_DAMAGES, section_inventory.MOST, section_topics.MOST
    )]  # fmt: skip
