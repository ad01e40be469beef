"""What commands say on standard error wraps at the width that a terminal or COLUMNS has, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.made.scenes import SCENES
from testkit.running.command import kafkalog

WIDE = 80
WORDS_OF_A_TITLE = 24
"""in columns, of a line that is not wrapped because it has a path: `plan for PATH in mode salvage`"""
COMMANDS = (
    ("verify",), ("plan",), ("recover", "--dry-run"), ("report", "--format", "text", "--output", "-"), ("ls",),
    ("triage",), ("quorum", "show"),
)  # fmt: skip


@pytest.mark.parametrize("scene", ["power-loss", "kraft-files", "lost-and-found", "lost-directory"])
def test_sentences_fit(scene: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SCENES[scene](tmp_path)
    monkeypatch.chdir(tmp_path)
    directories = sorted(each.name for each in tmp_path.iterdir() if each.is_dir() and each.name != "disk")
    said = 0
    for command in COMMANDS:
        ended = kafkalog(*command, *directories, columns=WIDE)
        for line in [*ended.out.splitlines(), *ended.err.splitlines()]:
            path = max(map(len, line.split()), default=0)
            assert len(line) <= max(WIDE, path + WORDS_OF_A_TITLE), (command, line)
        said += len(ended.err.splitlines())
    assert said > len(COMMANDS)


def test_a_finding_is_one_line_where_nothing_has_a_width(tmp_path: Path) -> None:
    SCENES["power-loss"](tmp_path)
    lines = kafkalog("verify", tmp_path / "data").err.splitlines()
    assert lines
    assert all(line.startswith("kafkalog: ") for line in lines), "scripts read them line by line"


def test_the_lines_of_a_wrapped_finding_are_its_words(tmp_path: Path) -> None:
    SCENES["power-loss"](tmp_path)
    whole = kafkalog("verify", tmp_path / "data").err
    folded = kafkalog("verify", tmp_path / "data", columns=WIDE).err
    assert folded.count("\n") > whole.count("\n")
    assert folded.split() == whole.split()
