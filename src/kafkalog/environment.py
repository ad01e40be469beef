"""Settings of the process that come from environment variables."""

from __future__ import annotations

import os

__all__ = ["number_of"]


def number_of(name: str, below: int) -> int | None:
    """The positive number less than `below` that an environment variable has; None if it has none, or is not set."""
    text = os.environ.get(name, "")
    if not (text.isascii() and text.isdecimal()) or len(text) > len(str(below)):
        return None
    return int(text) if 0 < int(text) < below else None
