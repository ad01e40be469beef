"""Many random logs, damaged at random, read in every way: the same rows and the same complaint."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

import reading_pairs

SEED = int(os.environ.get("KAFKALOG_SWEEP_SEED", "1"))
LOGS = 5_500
PART = 10 if os.environ.get("KAFKALOG_SWEEP") == "ci" else 1
pytestmark = pytest.mark.sweep


@pytest.mark.parametrize("part", range(10))
def test_pairs_of_a_damaged_log_and_a_reader(part: int, compared: Callable[[str, int], None]) -> None:
    wrong: list[str] = []
    each = LOGS // 10 // PART
    first = SEED * 1_000_000 + part * each
    counts = reading_pairs.run(range(first, first + each), wrong.append)
    compared("pairs of a damaged log and a reader", counts["pairs"])
    assert not wrong, f"{len(wrong)} of {counts['pairs']}:\n" + "\n".join(wrong[:20])
