"""Packages are divided into rooms that can be taken in at a glance, each with one line that says what is in it."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

from testkit.judging.modules import module
from testkit.running.programs import dev

ROOT = Path(__file__).resolve().parents[2]
MOST_MODULES = 24
PACKAGES = {"log": "src/kafkalog/log", "recovery": "recovery", "cluster": "src/kafkalog/cluster"}
WITH_ROOMS = (*PACKAGES.values(), "src/kafkalog/jobs", "src/kafkalog/cli")


def rooms() -> list[Path]:
    return sorted(door.parent for package in WITH_ROOMS for door in (ROOT / package).rglob("__init__.py"))


@pytest.mark.parametrize("room", rooms(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_room_is_small_and_says_what_is_in_it(room: Path) -> None:
    modules = [path for path in room.glob("*.py") if path.name != "__init__.py"]
    assert len(modules) <= MOST_MODULES
    said = ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8")))
    assert said
    assert said.splitlines()[0].endswith(".")


def test_no_module_lies_outside_of_a_room_but_public_calls_and_what_joins_rooms() -> None:
    outside = {str(path.relative_to(ROOT)) for package in PACKAGES.values() for path in (ROOT / package).glob("*.py")}
    doors = {f"{package}/__init__.py" for package in PACKAGES.values()}
    names = "run", "settled_rules", "recovery_job", "rebuilding", "undoing", "results", "vouching", "duplicates"
    calls = {f"recovery/{name}.py" for name in names}
    joining = {f"src/kafkalog/cluster/{name}.py" for name in ("coordinator_logs", "cross_check")}
    assert outside == doors | calls | joining


BY_NAME = {"codec/common/lazily.py": "the lazy names of packages", "src/kafkalog/cli/main.py": "the table of commands"}


def test_nothing_is_imported_by_a_string_but_through_two_doors() -> None:
    calling = set()
    for path in [*(path for room in dev.ROOMS for path in (ROOT / room).rglob("*.py")), *(ROOT / "src").rglob("*.py")]:
        names = {call.name for call in module(path).calls}
        if names & {"import_module", "__import__", "exec", "eval"}:
            calling.add(str(path.relative_to(ROOT)))
    assert calling == {*BY_NAME}


OTHER_TESTS = {
    "campaigns", "differential", "docs", "hostile", "house", "interop", "runbook", "spark_without_java", "support",
    "sweep",
}  # fmt: skip
"""Folders of tests that are about everything, and what tests use."""


def test_each_package_has_a_folder_of_tests() -> None:
    packages = {path.name for path in (ROOT / "src" / "kafkalog").iterdir() if (path / "__init__.py").is_file()}
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders - OTHER_TESTS == packages
    for package in ("codec", "log", "recovery", "jobs"):
        source = ROOT / "src" / "kafkalog" / package
        rooms = {path.name for path in source.iterdir() if (path / "__init__.py").is_file()}
        tested = {path.name for path in (ROOT / "tests" / package).iterdir() if any(path.glob("test_*.py"))}
        assert tested == rooms, package


SPANNING = {
    "cli/test_damaged_directories", "cli/test_golden", "cli/test_newer_formats", "cli/test_odd_topic_names",
    "cli/test_unreadable_files", "cli/test_unreadable_partitions", "cli/test_unreadable_records",
    "cluster/test_contradictions", "cluster/test_coordinator_state", "cluster/test_hostile_input",
}  # fmt: skip
"""Tests of a subject that concerns modules of several rooms."""


def test_each_test_file_is_named_after_a_module_of_its_room() -> None:
    """`test_MODULE.py` or `test_MODULE_ASPECT.py`; MODULE may also be the room itself."""
    tests = ROOT / "tests"
    others = set()
    for path in tests.rglob("test_*.py"):
        room = path.parent.relative_to(tests)
        if not room.parts or room.parts[0] in OTHER_TESTS:
            continue
        source = ROOT / "src" / "kafkalog" / room
        modules = {module.stem for module in source.iterdir() if module.suffix in (".py", ".c")} | {room.name}
        if not any(f"{path.stem}_".startswith(f"test_{module}_") for module in modules):
            others.add(str(room / path.stem))
    assert others == SPANNING


MOST_POSITIONAL = 7
BY_POSITION = {"Record", "Stretch"}
"""Made by the million, or by one function beside them."""


def test_what_has_many_fields_is_made_with_their_names() -> None:
    sources = [path for room in dev.ROOMS for path in (ROOT / room).rglob("*.py")]
    sources += (ROOT / "src" / "kafkalog").rglob("*.py")
    classes = {name for path in sources for name in module(path).classes} - BY_POSITION
    long = [
        f"{path.relative_to(ROOT)}:{call.line}: {call.name}"
        for path in sources
        for call in module(path).calls
        if call.owner is None and call.name in classes and call.positional > MOST_POSITIONAL
    ]
    assert long == []
    assert len(classes) > 500


@pytest.mark.parametrize("package", ["codec", *PACKAGES, "spark", "server", "replay", "producer"])
def test_no_room_takes_the_place_of_something_that_its_package_offers(package: str) -> None:
    """Python gives a package's attribute the value of the room that was imported last under that name."""
    found = importlib.import_module(f"kafkalog.{package}")
    inside = {each.name for each in pkgutil.iter_modules(found.__path__)}
    for name in inside & set(getattr(found, "__all__", ())):
        importlib.import_module(f"kafkalog.{package}.{name}")
        assert not inspect.ismodule(getattr(found, name)), name
