"""What `dev.py same` takes for a difference."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from testkit.running.programs import loaded

ROOT = Path(__file__).resolve().parents[2]
worker = loaded(ROOT / "tests" / "campaigns" / "same_worker.py")
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


class Versions:
    """Both commits as one: this one, whose `undo` leaves a file where it should leave none if `forgets` is set."""

    name = "older"

    def __init__(self, forgets: bool) -> None:
        self._forgets = forgets

    def ask(self, action: str, words: Any, number: int = 0) -> dict[str, Any]:
        answer: dict[str, Any] = getattr(worker, action)(*((words, number) if number else (words,)))
        if self._forgets and words[0] == "undo":
            (Path(words[-1]) / "forgotten").touch()
        return answer


@pytest.mark.parametrize(
    ("name", "forgets"), [("compact", False), ("undelete", False), ("merge", False), ("undo", False), ("merge", True)]
)
def test_runs_of_each_job_are_crossed(same: ModuleType, name: str, forgets: bool, tmp_path: Path) -> None:
    (job,) = (each for each in same.begun_jobs(tmp_path) if each.case.name == f"job {name}")
    judge = same.Judge(accepted=[])
    version = Versions(forgets)
    comparison = same.Comparison(version, version, version, judge, tmp_path / "place")
    assert comparison.crossing(job, 9)
    assert judge.compared > 10
    assert any("tree after undo" in each for each in judge.different) == forgets
    assert forgets or judge.different == []
