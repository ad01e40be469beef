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
LINES, BYTES = 3000, 200_000
"""what is not counted: something else than the number that is tried"""


def cost(root: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Lines executed, and bytes read, by a command on a copy of a log directory."""
    data, copy = root / "data", root / "copy"
    first, *rest = (word.format(out=root / "out", copy=copy) for word in command.split())
    codes = []
    with bytes_read(monkeypatch) as sizes:
        lines = lines_of(lambda: codes.append(kafkalog(first, data, *rest).code), "")
    assert codes[0] in (0, 1, 2, 3), (command, codes)
    return lines, sum(sizes)


def in_proportion(thing: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for number, times in enumerate((1, 1, 2, 4)):  # the first time something is imported
        root = tmp_path / str(number)
        root.mkdir()
        STRUCTURES[thing](root / "data", COUNT * times)
        shutil.copytree(root / "data", root / "copy")
        found.append(cost(root, command, monkeypatch))
    (_, one, two, four) = found
    for number, (what, slack) in enumerate((("lines", LINES), ("bytes", BYTES))):
        low, middle, high = one[number], two[number], four[number]
        assert high - middle <= MOST * max(middle - low, 0) + slack, (thing, command, what, low, middle, high)


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
