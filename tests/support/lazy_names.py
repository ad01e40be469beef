"""The table of lazy names in a package's `__init__.py`, made from the stub beside it.

Run as a program it brings every table up to date; the tests only compare.
"""

from __future__ import annotations

import ast
import json
import textwrap
from pathlib import Path

from testkit.running.programs import dev

ROOT = Path(__file__).resolve().parents[2]
BEGIN, END = "_NAMES = {\n", "}\n"
COLUMNS = 120


def stubs() -> list[Path]:
    """The stub of every package with lazy names."""
    return sorted(stub for room in (*dev.ROOMS, "src") for stub in (ROOT / room).rglob("__init__.pyi"))


def table(stub: Path) -> dict[str, list[str]]:
    """Module, as the package names it -> the names that are imported from it."""
    folder = stub.parent.relative_to(ROOT)
    package = ".".join(folder.parts[1:] if folder.parts[0] == "src" else ("kafkalog", *folder.parts))
    names: dict[str, list[str]] = {}
    for node in ast.parse(stub.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            home = node.module.removeprefix(package)
            names.setdefault(home, []).extend(each.name for each in node.names)
    return names


def module(stub: Path) -> str:
    """The text of `__init__.py` with its table as it should be."""
    lines = []
    for home, names in table(stub).items():
        line = f'"{home}": {json.dumps(names)},'
        lines.append(textwrap.fill(line, COLUMNS, initial_indent="    ", subsequent_indent=" " * 8))
    before, _, rest = stub.with_suffix(".py").read_text(encoding="utf-8").partition(BEGIN)
    return "".join([before, BEGIN, *(f"{line}\n" for line in lines), END, rest.partition(END)[2]])


if __name__ == "__main__":
    for stub in stubs():
        stub.with_suffix(".py").write_text(module(stub), encoding="utf-8")
