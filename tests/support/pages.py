"""Pages of documentation, followed literally: their commands run in a shell, in order, and print what they show.

A ``console`` block holds commands behind ``$`` and parts of what they print; a line ``...`` stands for what is left
out.  A command ends with exit code 0, or with the one that a comment behind it names (``# exit code 2``).  Blocks of
other languages are not run here.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Command", "Followed", "commands_of", "follow", "scene_of"]

DOCS = Path(__file__).resolve().parents[2] / "docs"
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"\s+# exit code ([0-9]+)$")
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
            try:
                place = printed.index(_squeezed(line), place) + 1
            except ValueError:
                return f"$ {self.command.text}: does not print (in this order): {line}\n{self.output}"
        return ""


def _squeezed(line: str) -> str:
    return " ".join(line.split())


def scene_of(page: Path) -> str:
    """The name of what the page starts from."""
    found = _SCENE.search(page.read_text())
    assert found is not None, f"{page} does not say which scene it starts from"
    return found.group(1)


def commands_of(page: Path) -> list[Command]:
    """All commands of a page, in order."""
    found: list[Command] = []
    for block in _BLOCK.findall(page.read_text()):
        for line in block.splitlines():
            if line.startswith("$ "):
                code = _CODE.search(line)
                found.append(Command(_CODE.sub("", line[2:]), int(code.group(1)) if code else 0, ()))
            elif line.strip():
                assert found, f"{page}: output before the first command"
                last = found[-1]
                found[-1] = Command(last.text, last.code, (*last.shown, line.strip()))
    return found


def follow(page: Path, directory: Path) -> list[Followed]:
    """Run every command of the page in `directory`, one after another; stops at the first that differs."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    environment.pop("COLUMNS", None)
    done: list[Followed] = []
    for command in commands_of(page):
        finished = subprocess.run(
            ["bash", "-c", command.text], cwd=directory, env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        done.append(Followed(command, finished.returncode, finished.stdout))
        if done[-1].complaint:
            break
    return done
