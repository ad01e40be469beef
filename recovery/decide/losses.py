"""What a way loses, in words: no sum is said to be the whole where a part of it is not known."""

from __future__ import annotations

from collections.abc import Callable

from kafkalog.codec.wording import counted
from kafkalog.recovery.decide.ways import Measured

__all__ = ["lost_text", "sentence_of_lost"]


def lost_text(found: Measured, number: Callable[[int], str] = str) -> str:
    """For the cell of a table: records that are lost, as far as that is known; `number` writes one."""
    if found.records_lost is None or (found.records_lost == 0 and not found.is_exact):
        return "unknown"
    text = number(found.records_lost)
    if found.uncounted:
        return f"{text} or more"
    return text if found.is_exact else f"about {text}"


def sentence_of_lost(found: Measured) -> str:
    """What comes after "it loses"; what is skipped is told apart from what is lost, as in the table."""
    if found.records_lost is None:
        return "an unknown number of records"
    if found.records_lost == 0:
        lost = "no record" if found.is_exact else "an unknown number of records"
        if not found.records_hidden and found.is_exact:
            return "nothing"
    else:
        lost = counted(found.records_lost, "record")
        if found.uncounted:
            lost = f"about {lost} and an unknown number more" if found.is_estimate else f"at least {lost}"
        elif not found.is_exact:
            lost = f"about {lost}"
    return f"{lost} and skips {found.records_hidden}" if found.records_hidden else lost
