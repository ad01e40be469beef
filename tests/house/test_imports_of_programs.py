"""Programs that no test imports find what they import: whoever runs one next may do so years later."""

from __future__ import annotations

import ast
import sys
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("benchmarks", "examples", "fixtures", "release", "tests/campaigns", "tests/interop", "tests/support")
HOMES = [ROOT / "src", ROOT / "tests" / "support", ROOT / "tests" / "codec" / "files", ROOT / "benchmarks"]
"""What they have on their path beside their own folder and those above it."""


def programs() -> list[str]:
    found = [path.relative_to(ROOT) for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    return [str(path) for path in found if "testkit" not in path.parts and not path.name.startswith(("test_", "."))]


def imported(tree: ast.AST) -> set[str]:
    """Names of modules, but for those that may be missing: in a `try`."""
    tried = {id(node) for each in ast.walk(tree) if isinstance(each, ast.Try) for node in ast.walk(each)}
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and id(node) not in tried:
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and id(node) not in tried and not node.level:
            names.add(str(node.module))
    return names


def is_found(module: str, places: list[str]) -> bool:
    """Whether a module is in one of the places or installed, without running it."""
    path: list[str] | None = [*places, *sys.path]
    for part in module.split("."):
        spec = PathFinder.find_spec(part, path)
        if spec is None:
            return module in sys.builtin_module_names
        path = list(spec.submodule_search_locations or ())
    return True


@pytest.mark.parametrize("program", programs())
def test_what_a_program_imports_is_there(program: str) -> None:
    path = ROOT / program
    places = [str(place) for place in (*path.parents, *HOMES) if place.is_relative_to(ROOT)]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert [name for name in sorted(imported(tree)) if not is_found(name, places)] == []
