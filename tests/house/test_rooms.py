"""Packages are divided into rooms that can be taken in at a glance, each with one line that says what is in it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST_MODULES = 22
PACKAGES = ("log", "recovery", "cluster")


def rooms() -> list[Path]:
    return sorted(door.parent for package in PACKAGES for door in (ROOT / package).rglob("__init__.py"))


@pytest.mark.parametrize("room", rooms(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_room_is_small_and_says_what_is_in_it(room: Path) -> None:
    modules = [path for path in room.glob("*.py") if path.name != "__init__.py"]
    assert len(modules) <= MOST_MODULES
    said = ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8")))
    assert said
    assert said.splitlines()[0].endswith(".")


def test_no_module_lies_outside_of_a_room_but_public_calls_and_what_joins_rooms() -> None:
    outside = {str(path.relative_to(ROOT)) for package in PACKAGES for path in (ROOT / package).glob("*.py")}
    doors = {f"{package}/__init__.py" for package in PACKAGES}
    joining = {"recovery/run.py", "recovery/vouching.py", "recovery/duplicates.py", "cluster/cross_check.py"}
    assert outside == doors | joining
