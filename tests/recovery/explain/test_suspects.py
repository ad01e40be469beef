"""`explain` names the field that was damaged in the recorded cases in which it is known, and never another one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from named_fields import cases


def test_the_damaged_field_is_named_or_none_is(compared: Callable[[str, int], None]) -> None:
    found = list(cases())
    counts = Counter(each.verdict for each in found)
    assert [each for each in found if each.verdict in ("wrong", "among")] == []
    assert counts["right"] >= 60
    compared("damaged fields that were named", counts["right"])
    compared("damaged fields that cannot be known", counts["unknown"])
