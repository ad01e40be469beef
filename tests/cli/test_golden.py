"""What every command prints on three directories, 80 and 160 columns wide.

``python tests/support/golden.py --write`` changes what is expected: look at the difference before you commit it.
"""

from __future__ import annotations

import re

import pytest

from golden import FIXTURES, GOLDEN, LINES, made
from kafkalog.cli.main import COMMANDS

NO_TABLES = {"dump.txt", "completion.txt", "report.txt"}
IS_ROW = re.compile(r"[^$! ][^ ]*(?: [^ ]+)*  ")
"""cells with two blanks between them, and no sentence of standard error"""


def test_every_command_is_there() -> None:
    assert {line.split()[0] for line in LINES.strip().splitlines()} == COMMANDS.keys()


@pytest.mark.parametrize("fixture", FIXTURES)
def test_nothing_has_changed(fixture: str) -> None:
    expected = {path.name: path.read_text() for path in (GOLDEN / fixture).iterdir()}
    got = dict(made(fixture))
    assert got.keys() == expected.keys()
    for name, text in got.items():
        assert text == expected[name], f"{fixture}/{name}"


@pytest.mark.parametrize("fixture", FIXTURES)
def test_tables_fit_their_width(fixture: str) -> None:
    """Lines of a table do; sentences, paths and records are as long as they are."""
    wide = []
    for path in sorted((GOLDEN / fixture).iterdir()):
        if path.name not in NO_TABLES:
            width = 0
            for line in path.read_text().splitlines():
                if line.startswith("$ "):
                    width = int(line.partition("# ")[2].partition(" ")[0])
                elif IS_ROW.match(line) and len(line) > width:
                    wide.append((path.name, line))
    assert wide == []
