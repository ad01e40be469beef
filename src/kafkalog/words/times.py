"""Times as text for people."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from kafkalog.codec.common.time_units import unit_of
from kafkalog.codec.common.wording import moment_text
from kafkalog.codec.model import NO_TIMESTAMP

__all__ = ["moment_text", "span_text", "time_text", "unit_remarks"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_NAMES = 3


def time_text(milliseconds: int | None) -> str:
    """Return a time in ms since 1970 as text: ISO 8601 in UTC with milliseconds. Empty for None, "none" for -1 (Kafka's
    "no timestamp"), and the number itself if it is beyond the calendar.
    """
    if milliseconds is None:
        return ""
    if milliseconds == NO_TIMESTAMP:
        return "none"
    try:
        return (_EPOCH + timedelta(milliseconds=milliseconds)).isoformat("T", "milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return str(milliseconds)


def span_text(milliseconds: int) -> str:
    """Return a duration in ms as text, rounded. The unit is the largest one for which the number is at least two: "730
    ms", "95 s", "47 h", "12 d".
    """
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if abs(milliseconds) >= 2 * size:
            return f"{round(milliseconds / size)} {unit}"
    return f"{milliseconds} ms"


def unit_remarks(ranges: Iterable[tuple[str, int | None, int | None]]) -> list[str]:
    """Return a sentence for each unit, such as seconds, that timestamps seem to have in place of milliseconds, with the
    names of the logs; empty if all look like milliseconds. `ranges` are (name, smallest, largest timestamp); a
    timestamp is None if unknown.
    """
    named: dict[str, list[str]] = {}
    for name, first, last in ranges:
        for unit in {unit_of(each) for each in (first, last) if each is not None} - {None}:
            named.setdefault(str(unit), []).append(name)
    return [
        f"times of {', '.join(names[:_MOST_NAMES])}{_more(len(names) - _MOST_NAMES)} look like {unit} in place of "
        "milliseconds: retention, look-ups by time and queries take them for other moments"
        for unit, names in sorted(named.items())
    ]


def _more(number: int) -> str:
    return f" and {number} more" if number > 0 else ""
