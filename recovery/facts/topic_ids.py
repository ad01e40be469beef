"""Check a topic id that a caller passes."""

from __future__ import annotations

from kafkalog.codec.common.errors import FormatError, UsageError
from kafkalog.codec.files.text import decode_uuid

__all__ = ["check_topic_id"]

_UUID_LETTERS = 22
_LONGEST_SHOWN = 60


def check_topic_id(text: str | None) -> None:
    """Raise `UsageError` unless `text` is a topic id as Kafka prints it (22 characters of URL-safe base64, not all
    zeros) or None.
    """
    if text is None:
        return
    try:
        is_valid = any(decode_uuid(text)) and len(text) == _UUID_LETTERS
    except FormatError:
        is_valid = False
    if not is_valid:
        raise UsageError(
            f"{text[:_LONGEST_SHOWN]!r} is not a topic id: it has 22 letters and digits, as `kafka-topics --describe` "
            "shows it"
        )
