"""What Kafka's dump tool printed and what `kafkalog dump` printed, so that equal lines are equal text.

Kafka prints data as it is, newlines included, and U+FFFD for bytes that are not UTF-8; kafkalog prints both as escapes.
"""

from __future__ import annotations

import json
import re

from kafkalog.words.escapes import escape_controls

__all__ = ["as_lines"]

_NOT_TEXT = re.compile(r"(?:�|\\x[89a-f][0-9a-f])+")


def as_lines(text: str) -> list[str]:
    """Lines in which control characters are escapes, and what is no UTF-8 is one question mark."""
    text = text.replace("\\x0a", "\n")
    escaped = "\n".join(escape_controls(line) for line in text.split("\n"))
    return [_in_order(line.rstrip()) for line in _NOT_TEXT.sub("?", escaped).rstrip("\n").split("\n")]


def _in_order(line: str) -> str:
    """The line with the names of a payload's object in alphabetic order: Kafka prints tagged fields in between."""
    front, word, payload = line.partition(" payload: ")
    try:
        return f"{front}{word}{json.dumps(json.loads(payload), sort_keys=True)}" if payload[:1] == "{" else line
    except ValueError:
        return line
