"""docs/old-documents.md: the tests that it names exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "old-documents.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.split("## Where the documents")[0].splitlines() if re.match(r"\| 00[0-4]:", line)]


def test_the_page_goes_through_all_documents() -> None:
    assert {row[4] for row in ROWS} == set("01234")
    assert len(ROWS) > 30


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[2:9].strip())
def test_each_line_is_proved_by_a_test_that_exists(row: str) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", row)
    assert named
    for path, function in named:
        text = (ROOT / path).read_text(encoding="utf-8")
        assert not function or f"def {function}(" in text
