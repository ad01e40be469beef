"""Compiled functions against plain Python on a few random windows of each family of `campaigns/windows.py`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from testkit.running.programs import loaded

pytestmark = pytest.mark.compiled

ROOT = Path(__file__).resolve().parents[3]
_EXPORTED = re.compile(r"^EXPORTED (?:int64_t|void) (\w+)\(", re.MULTILINE)


def test_each_function_is_reached_by_random_windows_and_gives_what_plain_python_gives(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "campaigns"))
    windows = loaded(ROOT / "tests" / "campaigns" / "windows.py")
    reached: set[str] = set()
    for name in windows.FAMILIES:
        different, names = windows.compared(name, max(60 // windows.SLOW.get(name, 1), 15), 2)
        assert different == 0, capsys.readouterr().out
        reached |= names
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "codec" / "native").glob("*.c"))
    exported = {name for source in sources for name in _EXPORTED.findall(source)}
    assert reached == exported - {"has_instructions"}  # which has no input
