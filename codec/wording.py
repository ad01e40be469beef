"""Numbers and times in sentences."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kafkalog.codec.sentinels import NO_TIMESTAMP

__all__ = ["NEWER", "counted", "moment_text", "plural"]

NEWER = "newer than this program"
"""Said of what may be damaged, or of a version of Kafka to come."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def counted(count: int, noun: str) -> str:
    """`1 record`, `2 records`, `0 sound batches`, `3 log directories`."""
    return f"{count} {plural(count, noun)}"


def plural(count: int, noun: str) -> str:
    """The form of `noun` that goes with `count`."""
    if count == 1:
        return noun
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}{'es' if noun.endswith(('ch', 's', 'x')) else 's'}"


def moment_text(milliseconds: int) -> str:
    """Date and time in UTC to the second, as tables show it; "none" for -1, Kafka's "no timestamp".

    The number itself where no calendar reaches.
    """
    if milliseconds == NO_TIMESTAMP:
        return "none"
    try:
        return (_EPOCH + timedelta(milliseconds=milliseconds)).strftime("%Y-%m-%d %H:%M:%SZ")
    except OverflowError:
        return str(milliseconds)
