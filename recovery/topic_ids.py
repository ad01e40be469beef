"""A topic id that a caller gives."""

from __future__ import annotations

import base64
import binascii

from kafkalog.codec.errors import UsageError

__all__ = ["check_topic_id"]

_UUID_BYTES = 16
_UUID_LETTERS = 22
_LONGEST_SHOWN = 60


def check_topic_id(text: str | None) -> None:
    """Let through what Kafka writes for a topic id: 22 letters of URL-safe base64."""
    if text is None:
        return
    try:
        raw = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != _UUID_BYTES or raw == bytes(_UUID_BYTES) or len(text) != _UUID_LETTERS:
        raise UsageError(
            f"{text[:_LONGEST_SHOWN]!r} is not a topic id: it has 22 letters and digits, as `kafka-topics --describe` "
            "shows it"
        )
