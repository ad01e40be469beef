"""Values of options that are given as NAME=VALUE."""

from __future__ import annotations

from collections.abc import Iterable

from kafkalog.codec.common.errors import UsageError

__all__ = ["pairs_of"]


def pairs_of(option: str, texts: Iterable[str], form: str = "NAME=VALUE", *, is_secret: bool = False) -> dict[str, str]:
    """Return name -> value from texts like `form`. Blanks around a name are removed; of two texts with one name the
    last counts, and a value may be empty. Raises `UsageError` if a text has no `=`, or nothing before it; the message
    repeats the text unless it `is_secret`.
    """
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (equals and name.strip()):
            raise UsageError(f"{option} needs {form}" + ("" if is_secret else f", not {text!r}"))
        pairs[name.strip()] = value
    return pairs
