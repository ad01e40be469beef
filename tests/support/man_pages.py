"""Writes docs/man/: a man page for the command and each of its subcommands, from the help texts.

Run as a program with ``--write`` it brings them up to date; the tests only compare.  The date is left out, so that
pages change only when the help does.
"""

from __future__ import annotations

import copy
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


def _with_backslashes(command: click.Command) -> click.Command:
    """A copy whose help keeps its backslashes, which begin an instruction in a man page."""
    made = copy.copy(command)
    made.params = [copy.copy(each) for each in command.params]
    for each in made.params:
        if isinstance(each, click.Option) and each.help:
            each.help = each.help.replace("\\", "\\e")
    return made


def _with_all_commands() -> click.Group:
    """The command with its subcommands loaded; what makes the pages does not know that they can be lazy."""
    context = click.Context(cli)
    found = {name: command for name in cli.list_commands(context) if (command := cli.get_command(context, name))}
    commands = {name: _with_backslashes(command) for name, command in found.items()}
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
