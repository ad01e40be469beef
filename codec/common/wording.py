"""Numbers and times in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from kafkalog.codec.common.sentinels import NO_TIMESTAMP

__all__ = ["NEWER", "counted", "first_of", "moment_text", "plural"]

NEWER = "newer than this program"
"""Text about something that is damaged, or from a later version of Kafka."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: `1 record`, `2 records`, `0 sound batches`, `3 log directories`."""
    return f"{count} {plural(count, noun)}"


def plural(count: int, noun: str) -> str:
    """Return `noun` for a count of 1, otherwise its English plural (-s, -es or -ies), without the number."""
    if count == 1:
        return noun
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}{'es' if noun.endswith(('ch', 's', 'x')) else 's'}"


def first_of(names: Sequence[str], most: int) -> str:
    """Return the first `most` names, separated by commas, and the number of the others: `a, b and 3 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def moment_text(milliseconds: int) -> str:
    """Return date and time in UTC to the second (`2024-01-31 12:00:00Z`) of ms since 1970. Return "none" for -1,
    Kafka's "no timestamp", and the number itself if it is beyond Python's calendar (years 1 to 9999).
    """
    if milliseconds == NO_TIMESTAMP:
        return "none"
    try:
        return (_EPOCH + timedelta(milliseconds=milliseconds)).isoformat(" ", "seconds").replace("+00:00", "Z")
    except OverflowError:
        return str(milliseconds)
