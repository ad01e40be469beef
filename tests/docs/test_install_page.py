"""What docs/install.md says of extras and commands is what the project declares."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_every_extra_is_told_with_what_installs_it() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| `pip install 'kafkalog\[(\w+)\]'` \|$", TEXT, re.MULTILINE)
    assert [name for name, _adds, _installed in rows] == list(PROJECT["optional-dependencies"])
    for name, adds, installed in rows:
        assert installed == name
        own = [re.split(r"[\[<>=]", each)[0] for each in PROJECT["optional-dependencies"][name]]
        told = set(own) - {"kafkalog"} - ({"numpy", "pyarrow"} if name == "spark" else set())
        assert told <= set(re.findall(r"[\w-]+", adds))


def test_spark_that_is_missing_is_told_with_its_extra() -> None:
    program = "import sys; sys.modules['pyspark'] = None; import kafkalog.spark; kafkalog.spark.register(None)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "UsageError: the data source needs the package pyspark: install kafkalog[spark]" in done.stderr


def test_the_python_that_is_needed_is_the_one_declared() -> None:
    (version,) = re.findall(r"needs Python (\S+) or later", TEXT)
    assert PROJECT["requires-python"] == f">={version}"


def test_the_commands_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    import dev

    commands = [shlex.split(line) for line in re.findall(r"^\$ (.+)$", TEXT, re.MULTILINE)]
    assert [command[:2] for command in commands] == [["python3", "dev.py"]] * 2
    assert {command[2] for command in commands} <= dev.COMMANDS.keys()
