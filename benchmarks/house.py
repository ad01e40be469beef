"""The house in figures: lines by room, the widest folder, the largest file, long functions, many parameters.

    python3 benchmarks/house.py [BEFORE [AFTER]]

compares two revisions, 160c8bbe and HEAD unless others are named; a revision that is not there is an error of git.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath

BEFORE = "160c8bbe"
LONG, MANY = 60, 10
BESIDE = ("tests", "benchmarks", "fixtures", "examples", "docs")


@dataclass
class House:
    """What there is at one revision; lines of Python."""

    lines: Counter[str] = field(default_factory=Counter)
    folders: Counter[str] = field(default_factory=Counter)
    files: Counter[str] = field(default_factory=Counter)
    long: list[str] = field(default_factory=list)
    many: list[str] = field(default_factory=list)

    @property
    def product(self) -> int:
        """Lines of what is installed."""
        return sum(count for room, count in self.lines.items() if room not in BESIDE)


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout


def room_of(path: PurePosixPath) -> str:
    parts = path.parts
    return "/".join(parts[:3]) if parts[0] == "src" and len(parts) > 3 else parts[0]


def sources(revision: str) -> Iterator[tuple[PurePosixPath, str]]:
    for name in git("ls-tree", "-r", "--name-only", revision).splitlines():
        if name.endswith(".py") and "/" in name:
            yield PurePosixPath(name), git("show", f"{revision}:{name}")


def house(revision: str) -> House:
    found = House()
    for path, text in sources(revision):
        found.lines[room_of(path)] += text.count("\n")
        if room_of(path) in BESIDE:
            continue
        found.files[str(path)] = text.count("\n")
        found.folders[str(path.parent)] += path.name != "__init__.py"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = node.args
                count = len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs)
                if (node.end_lineno or 0) - node.lineno >= LONG:
                    found.long.append(f"{path}:{node.name}")
                if count > MANY:
                    found.many.append(f"{path}:{node.name}")
    return found


def main(before: str = BEFORE, after: str = "HEAD") -> None:
    old, new = house(before), house(after)
    print(f"| lines of Python | {before} | {after} | more |\n|---|---:|---:|---:|")
    for room in sorted(old.lines.keys() | new.lines.keys()):
        print(f"| {room} | {old.lines[room]:,} | {new.lines[room]:,} | {new.lines[room] - old.lines[room]:+,} |")
    print(f"| **installed** | {old.product:,} | {new.product:,} | {new.product - old.product:+,} |\n")
    for label, value in (
        ("widest folders", lambda each: ", ".join(f"{name} {count}" for name, count in each.folders.most_common(4))),
        ("largest files", lambda each: ", ".join(f"{name} {count}" for name, count in each.files.most_common(3))),
        (f"functions above {LONG} lines", lambda each: len(each.long)),
        (f"functions with more than {MANY} parameters", lambda each: len(each.many)),
    ):
        print(f"{label}: {value(old)} -> {value(new)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
