"""Writes docs/man/: a man page for the command and each of its subcommands, from the help texts.

Run as a program with ``--write`` it brings them up to date; the tests only compare.  The date is left out, so that
pages change only when the help does.
"""

from __future__ import annotations

import re
import sys
import tempfile
import warnings
from pathlib import Path

import click
from click_man.core import write_man_pages

from kafkalog import __version__
from kafkalog.cli.main import cli

MAN = Path(__file__).resolve().parents[2] / "docs" / "man"
_TITLE = re.compile(r'^(\.TH "[^"]*" "1" )"[^"]*"', re.MULTILINE)


def _with_all_commands() -> click.Group:
    """The command with its subcommands loaded; what makes the pages does not know that they can be lazy."""
    context = click.Context(cli)
    commands = {name: command for name in cli.list_commands(context) if (command := cli.get_command(context, name))}
    return click.Group("kafkalog", commands, help=cli.help, params=cli.params)


def pages() -> dict[str, str]:
    """File name -> page."""
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it asks click for short helps as click 8 gives them
        write_man_pages("kafkalog", _with_all_commands(), version=__version__, target_dir=place)
        found = {path.name: path.read_text() for path in Path(place).iterdir()}
    return {name: _TITLE.sub(r'\1""', click.unstyle(text)).rstrip("\n") + "\n" for name, text in found.items()}


if __name__ == "__main__" and "--write" in sys.argv:
    MAN.mkdir(exist_ok=True)
    for old in MAN.glob("*.1"):
        old.unlink()
    for page_name, page_text in pages().items():
        (MAN / page_name).write_text(page_text)
