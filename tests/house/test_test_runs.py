"""The parts of a run of tests that have rules of their own: what the rest takes, a time that is up, ports."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from testkit.running import free_ports, time_limit
from testkit.running.progress import SECONDS, Pace, spoken
from testkit.running.shares import SHARES

ROOT = Path(__file__).resolve().parents[2]


def test_what_is_left_is_weighed_by_what_files_took() -> None:
    pace = Pace(["a::1", "a::2", "b::1"], {"a": 100.0, "b": 20.0}, workers=2)
    assert pace.line(0.0) == "0 of 3 tests, 0 s, about 1 min 00 s left", "on the machine of the table"
    pace.done("b::1")
    assert pace.line(40.0).startswith("1 of 3 tests, 40 s, about 2 min"), "this one takes longer"
    for test in ("a::1", "a::2", "a::2", "unknown"):
        pace.done(test)
    assert pace.line(200.0) == "3 of 3 tests, 3 min 20 s, about 0 s left"


def test_a_file_that_is_new_counts_too() -> None:
    assert "left" in Pace(["new::1"], {}, workers=1).line(1.0)


def test_the_table_names_files_that_there_are() -> None:
    known = json.loads(SECONDS.read_text())
    assert [name for name in known if not (ROOT / name).is_file()] == []


def test_a_share_is_of_a_test_with_many_cases() -> None:
    """Whoever names a test again, or takes its cases away, finds it here."""
    for name, every in SHARES.items():
        path, _, function = name.partition("::")
        text = (ROOT / "tests" / path).read_text(encoding="utf-8")
        before, found, _ = text.partition(f"\ndef {function}(")
        assert found, name
        decorators = before.rpartition("\n\n\n")[2]
        assert re.search(r"^@((pytest\.mark\.parametrize|combined)\(|every_hurt$)", decorators, re.MULTILINE), name
        assert every > 1


def test_the_rest_is_marked_and_every_case_runs_somewhere(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "from testkit.running import shares\nshares.SHARES['test_x.py::test_x'] = 3\n"
        "def pytest_collection_modifyitems(items):\n    shares.leave_to_recorded(items)\n"
    )
    (tmp_path / "test_x.py").write_text(
        "import pytest\n@pytest.mark.parametrize('n', range(7))\ndef test_x(n): pass\ndef test_y(): pass\n"
        "@pytest.mark.parametrize('n', range(90))\ndef test_long(n): pass\n"
        "@pytest.mark.parametrize('n', range(8))\ndef test_short(n): pass\n"
    )
    counts = []
    for chosen in ("recorded", "not recorded"):
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-m", chosen, "-W", "ignore", str(tmp_path)],
            capture_output=True, text=True, check=False, cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT / "tests" / "support")},
        )  # fmt: skip
        counts.append(int(ran.stdout.split(" passed")[0].split()[-1]))
    assert counts == [4 + 67, 4 + 23 + 8]


@pytest.mark.parametrize(("seconds", "text"), [(0.2, "0 s"), (59.4, "59 s"), (60, "1 min 00 s"), (623, "10 min 23 s")])
def test_times_as_a_person_reads_them(seconds: float, text: str) -> None:
    assert spoken(seconds) == text


def test_what_would_begin_after_the_time_is_left_out_and_said(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "from testkit.running import time_limit\n"
        "def pytest_configure(config): config.pluginmanager.register(time_limit.from_environment())\n"
        "def pytest_terminal_summary(terminalreporter):\n"
        "    terminalreporter.write_line(str(time_limit.left_out(terminalreporter.stats.get('skipped', []))))\n"
    )
    (tmp_path / "test_it.py").write_text("def test_one(): pass\ndef test_two(): 1 / 0\n")
    variables = {"PYTHONPATH": str(ROOT / "tests" / "support")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", str(tmp_path)]
    runs = (time.time() + 600, "1 failed, 1 passed", "None"), (0.0, "2 skipped", "test_it.py (2)")
    for until, passed, left in runs:
        variables[time_limit.UNTIL] = str(until)
        answer = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
        assert passed in answer.stdout
        assert left in answer.stdout


def test_a_port_that_is_named_is_none_that_the_system_lends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given = [free_ports.free_port() for _ in range(20)]
    assert len(set(given)) == 20
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        lent = s.getsockname()[1]
    assert lent not in free_ports.named_ports()
    monkeypatch.setattr(free_ports, "LENT", tmp_path / "range")
    free_ports.LENT.write_text("1024\t65535\n")
    assert free_ports.named_ports()[0] == 10_240, "where all are lent there is no choice"
