"""Sizes in a report."""

from __future__ import annotations

import pytest

from kafkalog.reporting.wording import size_text


@pytest.mark.parametrize(
    ("size", "text"),
    [(1, "1 byte"), (1023, "1,023 bytes"), (1023.7, "1.0 KiB"), (1024, "1.0 KiB"), (1_048_524, "1023.9 KiB"),
     (1_048_525, "1.0 MiB"), (2**30 - 1, "1.0 GiB"), (2**60, "1024.0 PiB")],
)  # fmt: skip
def test_a_size_that_rounds_to_1024_of_a_unit_is_one_of_the_next(size: float, text: str) -> None:
    assert size_text(size) == text
