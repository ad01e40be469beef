"""Times for people."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kafkalog.codec.wording import moment_text

__all__ = ["moment_text", "span_text", "time_text"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_text(milliseconds: int | None) -> str:
    """ISO 8601 in UTC to the millisecond; nothing for None, the number itself where no calendar reaches."""
    if milliseconds is None:
        return ""
    try:
        return (_EPOCH + timedelta(milliseconds=milliseconds)).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    except OverflowError:
        return str(milliseconds)


def span_text(milliseconds: int) -> str:
    """A length of time in the largest unit that it holds twice, as tables show it: "730 ms", "95 s", "47 h", "12 d"."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if abs(milliseconds) >= 2 * size:
            return f"{round(milliseconds / size)} {unit}"
    return f"{milliseconds} ms"
