"""No command costs the square of anything: lines executed and bytes read, counted at n, 2n and 4n of one thing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from testkit.judging.counting import bytes_read, lines_of
from testkit.made.many_things import STRUCTURES
from testkit.running.command import kafkalog

COMMANDS = [
    "ls",
    "verify",
    "plan",
    "plan --mode kafka",
    "plan --mode salvage",
    "report -o {out}.html",
    "dump --json",
    "dump --json --isolation-level read_committed",
    "top",
    "find --time latest",
    "transactions",
    "groups",
    "offsets",
    "retention",
    "runs",
    "undelete --list",
    "compact --dry-run",
    "compare {copy}",
    "merge {copy} --into {out}",
    "export --format parquet --to {out} --values bytes",
    "recover --yes --accept-loss",
]
SUSPECTS = [
    ("open transactions", "verify"),
    ("aborted transactions", "verify"),
    ("gaps", "report -o {out}.html"),
    ("segments", "top"),
    ("leader epochs", "merge {copy} --into {out}"),
    ("damaged places", "compare {copy}"),
]
"""what did cost so once, or is the newest; the others are tried by `sweep`"""
COUNT = 40
MOST = 2.5
"""Twice as much more is in proportion; four times as much more is the square."""
NOTHING_THERE = ("no partition of __consumer_offsets in", "there are no records in")
"""what `groups`, `offsets` and `export` say of directories that have nothing for them"""
SLACK = {"lines": 3000, "bytes": 200_000}
"""what is not counted: something else than the number that is tried"""


def cost(root: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Lines executed, and bytes read, by a command on a copy of a log directory."""
    data, copy = root / "data", root / "copy"
    first, *rest = (word.format(out=root / "out", copy=copy) for word in command.split())
    runs = []
    with bytes_read(monkeypatch) as sizes:
        lines = lines_of(lambda: runs.append(kafkalog(first, data, *rest)), "")
    (run,) = runs
    assert run.code in (0, 1, 2, 3) or any(words in run.err for words in NOTHING_THERE), (command, run.code, run.err)
    return lines, sum(sizes)


def in_proportion(thing: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A single step, such as a file that is read twice from some size on, may look like a square at `COUNT`: only what
    looks like one at four times as much, too, is one.
    """
    found = costs(thing, command, COUNT, tmp_path / "few", monkeypatch)
    if any(is_square(*found[what], slack) for what, slack in SLACK.items()):
        found = costs(thing, command, 4 * COUNT, tmp_path / "many", monkeypatch)
    for what, slack in SLACK.items():
        assert not is_square(*found[what], slack), (thing, command, what, found[what])


def costs(
    thing: str, command: str, count: int, work: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, tuple[int, int, int]]:
    found = []
    for number in (count - 1, count, 2 * count, 4 * count):  # the first time something is imported
        root = work / str(number)
        root.mkdir(parents=True)
        STRUCTURES[thing](root / "data", number)
        shutil.copytree(root / "data", root / "copy")
        found.append(cost(root, command, monkeypatch))
    (_, one, two, four) = found
    return {"lines": (one[0], two[0], four[0]), "bytes": (one[1], two[1], four[1])}


def is_square(low: int, middle: int, high: int, slack: int) -> bool:
    return high - middle > MOST * max(middle - low, 0) + slack


@pytest.mark.parametrize(("thing", "command"), SUSPECTS)
def test_what_cost_the_square_once(
    thing: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_proportion(thing, command, tmp_path, monkeypatch)


@pytest.mark.sweep
@pytest.mark.skipif(os.environ.get("KAFKALOG_SWEEP") == "ci", reason="takes hours: `dev.py sweep` runs it as a whole")
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("thing", STRUCTURES)
def test_every_command_on_many_of_everything(
    thing: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_proportion(thing, command, tmp_path, monkeypatch)
