"""Values of options that are given as NAME=VALUE."""

from __future__ import annotations

from collections.abc import Iterable

from kafkalog.codec.common.errors import UsageError

__all__ = ["pairs_of"]


def pairs_of(
    option: str,
    texts: Iterable[str],
    form: str = "NAME=VALUE",
    *,
    is_secret: bool = False,
    may_be_empty: bool = True,
) -> dict[str, str]:
    """Return values by name from texts in the form NAME=VALUE; `form` is the form for messages. Blanks around a name
    are removed. Raises `UsageError` if a text has no `=`, or nothing before it, or if two texts give one name different
    values; with `may_be_empty=False` also for an empty or blank value. The message repeats the texts unless they are
    secret (`is_secret`).
    """
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not (equals and name and (may_be_empty or value.strip())):
            raise UsageError(f"{option} needs {form}" + ("" if is_secret else f", not {text!r}"))
        if pairs.get(name, value) != value:
            values = "" if is_secret else f", {pairs[name]!r} and {value!r}"
            raise UsageError(f"{option} is given two values for {name}{values}: give one")
        pairs[name] = value
    return pairs
