"""Many recorded partitions, damaged at random, and queries near the damage: Spark beside `to_arrow`.

Of two damages near one another, what is found behind the second depends on whether reading began before the first, and
Spark's tasks do not all begin where `to_arrow` does: a few queries of a hundred may differ in rows, but in no error.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

import damaged_queries

SEED = int(os.environ.get("KAFKALOG_SWEEP_SEED", "1"))
LOGS = 2_000
PART = 10 if os.environ.get("KAFKALOG_SWEEP") == "ci" else 1
pytestmark = pytest.mark.sweep


@pytest.mark.parametrize("part", range(10))
def test_queries_near_damage(part: int, compared: Callable[[str, int], None]) -> None:
    wrong: list[str] = []
    each = LOGS // 10 // PART
    first = SEED * 1_000_000 + part * each
    counts = damaged_queries.run(range(first, first + each), wrong.append)
    compared("queries near damage", counts["queries"])
    told = f"{len(wrong)} of {counts['queries']}:\n" + "\n".join(wrong[:20])
    assert counts["silent"] == 0, told
    assert len(wrong) <= max(16, counts["queries"] // 50), told
