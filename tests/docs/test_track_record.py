"""Tests that pages name exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def test_each_test_that_a_page_names_exists() -> None:
    pages = sorted((ROOT / "docs").rglob("*.md"))
    named = {found.groups() for page in pages for found in NAMED.finditer(page.read_text(encoding="utf-8"))}
    missing = {path for path, _ in named if not (ROOT / path).is_file()}
    gone = {
        f"{path}::{test}"
        for path, test in named
        if test and path not in missing and not re.search(rf"\bdef {test}\b", (ROOT / path).read_text(encoding="utf-8"))
    }
    assert missing | gone == set()
    assert len(named) > 200
