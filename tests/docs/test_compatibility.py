"""docs/compatibility.md says what is counted now, and nothing in it falls short."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import compatibility


def test_every_recovered_log_is_counted() -> None:
    rows = re.findall(r"^\| (\S+) \| (\d+) \| (\d+) \| (\d+) \|$", compatibility.PAGE.read_text(), re.MULTILINE)
    assert [row[0] for row in rows] == compatibility.versions()
    for version, directories, same, total in rows:
        assert same == total, version
        assert int(directories) == (1 if version == "4.4.0" else 2), "of 4.4.0 there is no crash"


@pytest.mark.sweep
def test_the_page_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[1] / "codec" / "files"))
    assert compatibility.page() == compatibility.PAGE.read_text()
    sys.modules.pop("test_files_of_brokers", None)
