"""Many recorded partitions, damaged at random, and queries near the damage: Spark beside `to_arrow`."""

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
    assert not wrong, f"{len(wrong)} of {counts['queries']}:\n" + "\n".join(wrong[:20])
