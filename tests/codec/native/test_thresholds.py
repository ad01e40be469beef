"""Columns are for work that is large in batches: what loading numpy takes must be earned."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kafkalog.codec.native import thresholds

pytestmark = pytest.mark.compiled

SMALL_FIRST = """
import sys
from kafkalog.codec.native.thresholds import headers_are_worth_it
print(headers_are_worth_it({work}, lambda: {batch}), "numpy" in sys.modules)
"""


@pytest.mark.parametrize(
    ("work", "batch", "wanted"),
    [
        (thresholds.ENOUGH_BYTES - 1, 1, "False False"),
        (thresholds.ENOUGH_BYTES, 16 << 10, "False False"),
        (thresholds.ENOUGH_BYTES, 256, "True False"),
        (1 << 30, 16 << 10, "True False"),
    ],
)
def test_the_number_of_batches_decides(work: int, batch: int, wanted: str) -> None:
    code = SMALL_FIRST.format(work=work, batch=batch)
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == wanted


def test_what_is_loaded_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", sys)
    assert thresholds.headers_are_worth_it(thresholds.ENOUGH_BYTES, lambda: 1 << 30)
    assert not thresholds.headers_are_worth_it(thresholds.ENOUGH_BYTES - 1, lambda: 1)
