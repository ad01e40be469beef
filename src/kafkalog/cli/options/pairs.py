"""Values of options that are given as NAME=VALUE."""

from __future__ import annotations

from collections.abc import Iterable

from kafkalog.codec.common.errors import UsageError

__all__ = ["pairs_of"]


def pairs_of(option: str, texts: Iterable[str], form: str = "NAME=VALUE", *, is_secret: bool = False) -> dict[str, str]:
    """Return values by name from texts in the form NAME=VALUE; `form` is the form for messages. Blanks around a name
    are removed. If a name occurs twice, the last value counts; a value may be empty. Raises `UsageError` if a text has
    no `=`, or nothing before it. The message repeats the text unless it `is_secret`.
    """
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (equals and name.strip()):
            raise UsageError(f"{option} needs {form}" + ("" if is_secret else f", not {text!r}"))
        pairs[name.strip()] = value
    return pairs
