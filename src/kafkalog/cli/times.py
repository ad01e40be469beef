"""Times for people."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

__all__ = ["time_text"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_text(milliseconds: int | None) -> str:
    """ISO 8601 in UTC to the millisecond; nothing for None, the number itself where no calendar reaches."""
    if milliseconds is None:
        return ""
    try:
        return (_EPOCH + timedelta(milliseconds=milliseconds)).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    except OverflowError:
        return str(milliseconds)
