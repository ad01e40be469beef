"""Numbers in sentences."""

from __future__ import annotations

import pytest

from kafkalog.codec.common.wording import counted


@pytest.mark.parametrize(("count", "noun", "text"), [
    (0, "record", "0 records"), (1, "record", "1 record"), (2, "sound batch", "2 sound batches"),
    (1, "log directory", "1 log directory"), (3, "log directory", "3 log directories"), (2, "key", "2 keys"),
    (2, "index", "2 indexes"),
])  # fmt: skip
def test_a_noun_stands_in_the_form_of_its_count(count: int, noun: str, text: str) -> None:
    assert counted(count, noun) == text
