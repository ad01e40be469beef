"""Print text that comes from data: control characters that would steer a terminal become visible escapes."""

from __future__ import annotations

import re

from kafkalog.codec.common.shell import UNSAFE

__all__ = ["escape_controls", "text_of"]


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was not UTF-8, kept as a surrogate escape
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def escape_controls(text: str) -> str:
    """`text` with control, direction and surrogate characters as visible escapes; newlines and tabs too."""
    return UNSAFE.sub(_escape, text)


def text_of(data: bytes) -> str:
    """Bytes as text for people: UTF-8, with everything else as escapes."""
    return escape_controls(data.decode("utf-8", "surrogateescape"))
