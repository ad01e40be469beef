"""What `dev.py same` takes for a difference."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from testkit.running.programs import loaded

ROOT = Path(__file__).resolve().parents[2]
LINE = '{"run": "20261128T151123.079566Z-f36bbd73", "seconds": 0.3, "path": "a, {b\\"", "offsets": [1, 2]}\n'


@pytest.fixture(scope="module")
def same() -> ModuleType:
    return loaded(ROOT / "tests" / "campaigns" / "same.py")


def different(same: ModuleType, ours: str) -> list[str]:
    judge = same.Judge(accepted=[])
    judge.compare("ls", *(same.without_chance(text) for text in (LINE, ours)))
    found: list[str] = judge.different
    return found


@pytest.mark.parametrize(
    "ours",
    [
        LINE.replace(": [", ":["), LINE.replace("0.3", " 0.3"), LINE.replace("1, 2", "1, 2.0"), LINE.rstrip("\n"),
        LINE.replace('\\"', "\\u0022"), LINE.replace("}\n", ', "offsets": [1, 2]}\n'),
    ],
)  # fmt: skip
def test_bytes_differ(same: ModuleType, ours: str) -> None:
    assert len(different(same, ours)) == 1


@pytest.mark.parametrize(("base", "ours"), [("a\n--x\n", "a\n"), ("a\n", "a\n++x\n")])
def test_lines_that_look_like_the_head_of_a_difference_count(same: ModuleType, base: str, ours: str) -> None:
    judge = same.Judge(accepted=[])
    judge.compare("ls", base, ours)
    assert len(judge.different) == 1


def test_run_ids_and_times_do_not(same: ModuleType) -> None:
    assert different(same, LINE.replace("f36bbd73", "00000000").replace("0.3", "12.75")) == []


def test_a_difference_names_its_field(same: ModuleType) -> None:
    (told,) = different(same, LINE.replace("a, {b", "a, {c"))
    assert told.splitlines()[1:] == [f'    {sign} "path": "a, {{{letter}\\"",' for sign, letter in ("-b", "+c")]


def test_both_commits_of_ci_are_named_in_full() -> None:
    lines = (ROOT / "tests" / "campaigns" / "base_commit.txt").read_text(encoding="utf-8").splitlines()
    named = dict(line.split() for line in lines if not line.startswith("#"))
    assert {name: len(commit) for name, commit in named.items()} == {"base": 40, "crossings": 40}
