"""The package is reached by one name only, through relative links, and starts light."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ["codec", "recovery", "spark"]


def python(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program in a new interpreter that finds the package as an installation would."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=variables, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_cannot_be_imported_by_its_bare_name(room: str) -> None:
    answer = python(f"import {room}", ROOT)
    assert answer.returncode == 1
    assert answer.stderr.splitlines()[-1] == f"ImportError: this folder is kafkalog.{room}; import that name"


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_is_reached_through_a_relative_link(room: str) -> None:
    link = ROOT / "src" / "kafkalog" / room
    assert os.readlink(link) == f"../../{room}"
    assert (link / "__init__.py").samefile(ROOT / room / "__init__.py")


def test_every_link_in_the_package_is_a_room() -> None:
    links = sorted(path.name for path in (ROOT / "src" / "kafkalog").iterdir() if path.is_symlink())
    assert links == sorted(ROOMS)


def test_importing_kafkalog_imports_nothing_heavy(tmp_path: Path) -> None:
    heavy = ["numpy", "pyarrow", "pyspark", "pandas"]
    answer = python(f"import sys, kafkalog; print(sorted(set({heavy}) & set(sys.modules)))", tmp_path)
    assert answer.stderr == ""
    assert answer.stdout == "[]\n"


def test_the_package_is_the_one_in_this_checkout(tmp_path: Path) -> None:
    answer = python("import kafkalog; print(kafkalog.__file__)", tmp_path)
    assert Path(answer.stdout.strip()) == ROOT / "src" / "kafkalog" / "__init__.py"


def test_the_import_contracts_are_kept() -> None:
    program = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    answer = python(program, ROOT)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert " 0 broken" in answer.stdout


def test_a_bare_room_name_is_refused_by_ruff(tmp_path: Path) -> None:
    program = tmp_path / "user.py"
    program.write_text("".join(f"import {room}\n" for room in ROOMS), encoding="utf-8")
    config = str(ROOT / "pyproject.toml")
    options = ["--config", config, "--select", "TID251", "--no-cache", "--output-format", "concise"]
    command = [sys.executable, "-m", "ruff", "check", *options, str(program)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    for room in ROOMS:
        assert f"`{room}` is banned: import kafkalog.{room}" in answer.stdout
