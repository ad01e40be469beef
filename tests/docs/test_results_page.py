"""The page of results and its picture say what the table of all rows says."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.running.programs import loaded

PROGRAM = Path(__file__).resolve().parents[2] / "benchmarks" / "results_page.py"
HEAD = "| work | corpus | kafkalog | peers | kafkalog is | at least |\n|---|---|---|---|---|---|\n"


def test_page_and_picture_follow_the_table() -> None:
    assert loaded(PROGRAM).main(write=False) == 0


def test_a_row_that_is_gone_is_no_row_less(monkeypatch: pytest.MonkeyPatch) -> None:
    made = loaded(PROGRAM)
    monkeypatch.setattr(made, "ROWS", (("A row", "dump", "text"),))
    line = "| dump | text | 2.00 M (2.10 M, ±3 %) records/s, 10 MB/s | Java 500 (510, ±1 %) | 4000 × Java | |\n"
    (row,) = made.rows(HEAD + line)
    assert (row.unit, row.rates, row.ratio("Java")) == ("records", {"kafkalog": 2e6, "Java": 500.0}, 4000.0)
    with pytest.raises(KeyError):
        list(made.rows(HEAD))
