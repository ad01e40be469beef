"""A path that is not there is a mistake of the command line (64), one that this user may not read an I/O error (4).

All commands run as a user without rights, in one process of their own: root reads everything.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from testkit.recorded.broker_dirs import brokers, own_copy

NOBODY = 65534
COMMANDS = [
    "ls", "verify", "plan", "recover --yes", "dump", "find --offset 1", "runs", "undo --yes", "undelete",
    "index verify", "index rebuild --yes", "report --overwrite -o page.html", "offsets", "groups", "transactions",
    "metadata", "elections", "staging", "compact --yes", "merge --into NEW copy", "compare copy", "retention",
]  # fmt: skip
SUFFIXES = ["jsonl", "parquet", "arrow", "arrows"]
PLACES = {"nothere": 64, "locked": 4, "locked/stock-41-0": 4}
LINES = [
    *((f"{command.replace('NEW', f'new-{len(place)}')} {place}", code)
      for command in COMMANDS for place, code in PLACES.items()
      if (command, place) != ("staging", "locked")),  # it looks beside the log directory, not into it
    *((f"build --topic t --into built {place}.{suffix}", code)
      for suffix in SUFFIXES for place, code in (("nothere", 64), ("locked", 4))),
    ("ls --server-properties nothere", 64), ("ls --server-properties locked.properties", 4),
    ("triage copy locked", 4), ("verify copy2", 4),
    ("merge --into new-partition copy/stock-41-0 copy3/stock-41-0", 4),
]  # fmt: skip
PROGRAM = f"""
import contextlib, io, json, os, shlex, sys
from kafkalog.cli.main import run

class Stream(io.TextIOWrapper):
    pass

def one(line):
    out = Stream(io.BytesIO(), "utf-8")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = run(shlex.split(line))
        out.flush()
    return int(code), out.buffer.getvalue().decode()

lines = json.loads(sys.argv[1])
os.chdir("warm")
for line in lines:  # what they import, while this process may still read the interpreter's own files
    if line.endswith("nothere") or "nothere." in line:
        one(line)
one("compare ../copy ../copy2")
one("merge --into merged ../copy/stock-41-0 ../copy2/stock-41-0")
one("verify ../copy")
one("triage ../copy")
os.chdir("..")
os.setgroups([])
os.setuid({NOBODY})
print(json.dumps([one(line) for line in lines]))
"""

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user to try this")


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    """Command line -> exit code and everything that was printed."""
    folder = tmp_path_factory.mktemp("permission")
    for place in (folder, *folder.parents):
        if place.stat().st_uid == 0 and place != Path("/"):
            place.chmod(place.stat().st_mode | 0o055)
    (folder / "warm").mkdir()
    folder.chmod(0o777)
    for name in ("locked", "copy", "copy2", "copy3"):
        own_copy(brokers("4.1.1/segments")[0], folder / name)
    for path in (*(folder / "copy").rglob("*"), *(folder / "copy2").rglob("*")):
        path.chmod(path.stat().st_mode | 0o044)
    (folder / "copy2" / "stock-41-0").chmod(0o744)  # listed, and nothing in it may be examined
    (folder / "copy3" / "stock-41-0").chmod(0)
    (folder / "locked").chmod(0)
    for suffix in (*SUFFIXES, "properties"):
        (folder / f"locked.{suffix}").touch(0)
    command = [sys.executable, "-c", PROGRAM, json.dumps([line for line, _code in LINES])]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return {line: tuple(answer) for (line, _code), answer in zip(LINES, json.loads(done.stdout), strict=True)}


@pytest.mark.parametrize(("line", "expected"), LINES, ids=[line for line, _code in LINES])
def test_the_same_code_everywhere(line: str, expected: int, answers: dict[str, tuple[int, str]]) -> None:
    code, told = answers[line]
    said = " ".join(told.split())
    assert (code, "unexpected" in said) == (expected, False), said
    denied = "Not everything could be read" if line.startswith("report") else "Permission denied"
    assert ("does not exist" if expected == 64 else denied) in said
    if "report" in line:
        return
    assert shlex.split(line)[-1] in said


def test_triage_judges_without_a_directory_that_it_may_not_read(answers: dict[str, tuple[int, str]]) -> None:
    said = " ".join(answers["triage copy locked"][1].split())
    assert "error: unreadable (locked): cannot list the directory: Permission denied" in said


def test_verify_examines_the_rest_if_the_files_of_a_partition_may_not_be_examined(
    answers: dict[str, tuple[int, str]],
) -> None:
    assert "unreadable (copy2/stock-41-0" in " ".join(answers["verify copy2"][1].split())


def test_compare_examines_the_rest_if_a_directory_may_not_be_examined(answers: dict[str, tuple[int, str]]) -> None:
    said = " ".join(answers["compare copy locked/stock-41-0"][1].split())
    assert "9 of 9 partitions are equal and complete" in said
    assert "cannot be read: locked/stock-41-0: cannot examine the file: Permission denied" in said
