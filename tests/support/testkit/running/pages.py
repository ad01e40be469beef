"""Pages of documentation, followed literally: their commands run in a shell, in order, and print what they show.

A ``console`` block holds commands behind ``$`` and parts of what they print; a line ``...`` stands for what is left
out.  A command ends with exit code 0, or with the one that a comment behind it names (``# exit code 2``).  ``python``
blocks of a page share their names, as in one session; one that uses Spark stands alone.  Blocks of other languages are
not run.  `type_commands` does the same on directories that the page was not written about: exit codes count there, and
of what is shown that a directory is clean.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

__all__ = [
    "DOCS", "TAKEN_BACK", "Command", "Followed", "blocks_of", "commands_of", "follow", "scene_of", "sections_of",
    "type_commands",
]  # fmt: skip

DOCS = Path(__file__).resolve().parents[4] / "docs"
TAKEN_BACK = "## To take it back"
"""The heading of a page's last section, which undoes the others."""
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"\s+# exit code ([0-9]+)$")
_BLOCK_AFTER_BLOCK = """
import contextlib, io, json, sys, traceback
names = {"__name__": "__main__"}
for line in sys.stdin:
    printed, code = io.StringIO(), 0
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            exec(json.loads(line), names)
        except BaseException:
            traceback.print_exc()
            code = 1
    print(json.dumps([code, printed.getvalue()]), flush=True)
"""
"""A program that runs blocks as they come, a line of JSON each, in one namespace; what they print it gives back."""
_SCENE = re.compile(r"<!-- scene: ([a-z-]+) -->")


@dataclass(frozen=True)
class Command:
    """One command of a page, the exit code that the page promises, and the lines that it shows."""

    text: str
    code: int
    shown: tuple[str, ...]


@dataclass(frozen=True)
class Followed:
    """What a command did when it was followed."""

    command: Command
    code: int
    output: str

    @property
    def complaint(self) -> str:
        """What differs from the page; empty if nothing does."""
        if self.code != self.command.code:
            return f"$ {self.command.text}: exit code {self.code}, the page says {self.command.code}:\n{self.output}"
        printed = [_squeezed(line) for line in self.output.splitlines()]
        place = 0
        for line in self.command.shown:
            if line == "...":
                continue
            ends = (_end_of(printed, start, _squeezed(line)) for start in range(place, len(printed)))
            place = next((end for end in ends if end), 0)
            if not place:
                return f"$ {self.command.text}: does not print (in this order): {line}\n{self.output}"
        return ""


def _end_of(printed: list[str], start: int, line: str) -> int:
    """Number of the line after a shown one that begins at `start`, whole or wrapped; 0 if none begins there."""
    end, rest = start, line
    while end < len(printed) and rest.startswith(printed[end]) and printed[end]:
        rest = rest.removeprefix(printed[end]).lstrip()
        end += 1
        if not rest:
            return end
    return 0


def _squeezed(line: str) -> str:
    return " ".join(line.split())


def scene_of(page: Path) -> str:
    """The name of what the page starts from."""
    found = _SCENE.search(page.read_text())
    assert found is not None, f"{page} does not say which scene it starts from"
    return found.group(1)


def blocks_of(page: Path) -> list[tuple[str, str]]:
    """Language and text of every block of a page, in order."""
    return _BLOCK.findall(page.read_text())


def _commands(text: str) -> list[Command]:
    found: list[Command] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            code = _CODE.search(line)
            found.append(Command(_CODE.sub("", line[2:]), int(code.group(1)) if code else 0, ()))
        elif line.strip():
            assert found, f"output before the first command: {line}"
            last = found[-1]
            found[-1] = Command(last.text, last.code, (*last.shown, line.strip()))
    return found


def _commands_in(text: str) -> list[Command]:
    return [command for kind, block in _BLOCK.findall(text) if kind == "console" for command in _commands(block)]


def commands_of(page: Path) -> list[Command]:
    """All commands of a page, in order."""
    return _commands_in(page.read_text())


def sections_of(page: Path) -> dict[str, list[Command]]:
    """The commands of each section of a page, by its heading."""
    _, *sections = re.split(r"^(?=## )", page.read_text(), flags=re.MULTILINE)
    return {each.partition("\n")[0]: _commands_in(each) for each in sections}


def type_commands(
    commands: Iterable[Command], directory: Path, instead: Mapping[str, str] | None = None
) -> list[Followed]:
    """Run commands of a page in `directory`, with other words where the page has those of its own directories.

    `AssertionError` at the first that does not end as the page says, and for a word that no command has.
    """
    done: list[Followed] = []
    unused = set(instead or {})
    for command in commands:
        text, shown = command.text, tuple(line for line in command.shown if line.startswith("clean: "))
        for word, other in (instead or {}).items():
            if word in text:
                unused.discard(word)
            text, shown = text.replace(word, other), tuple(line.replace(word, other) for line in shown)
        done.append(_ran(replace(command, text=text, shown=shown), ["bash", "-c", text], directory))
        assert not done[-1].complaint, done[-1].complaint
    assert done, "nothing to type"
    assert not unused, f"no command has {unused}"
    return done


def _environment() -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    environment.pop("COLUMNS", None)
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return environment


def _ran(command: Command, words: list[str], directory: Path) -> Followed:
    finished = subprocess.run(
        words, cwd=directory, env=_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    return Followed(command, finished.returncode, finished.stdout)


class _Session:
    """Python as somebody has it open while they read a page: one process, in which names stay; begun when needed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> _Session:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.communicate()

    def ran(self, text: str) -> Followed:
        """A block, and what it printed."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "error", "-c", _BLOCK_AFTER_BLOCK], cwd=self._directory, env=_environment(),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(text) + "\n")
        self._process.stdin.flush()
        code, printed = json.loads(self._process.stdout.readline())
        return Followed(Command(text, 0, ()), code, printed)


def follow(page: Path, directory: Path, *, with_spark: bool = True) -> list[Followed]:
    """Do what the page says in `directory`, one thing after another; stops at the first that differs."""
    done: list[Followed] = []
    with _Session(directory) as session:
        for kind, text in blocks_of(page):
            if kind == "console":
                for command in _commands(text):
                    done.append(_ran(command, ["bash", "-c", command.text], directory))
                    if done[-1].complaint:
                        return done
            elif kind == "python" and (with_spark or "pyspark" not in text):
                alone = [sys.executable, "-W", "error", "-c", text]
                done.append(_ran(Command(text, 0, ()), alone, directory) if "pyspark" in text else session.ran(text))
                if done[-1].complaint:
                    return done
    return done
