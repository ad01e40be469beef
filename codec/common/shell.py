"""Words of a command line that somebody will paste: each names exactly what it is to name, and shows no control."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

__all__ = ["UNSAFE", "shell_line", "shell_option", "shell_word"]

UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control and direction characters, line ends, and surrogates: what is never printed as it is."""

_SPECIAL = rf"{UNSAFE.pattern}|[\\\\']"


def shell_word(text: str) -> str:
    r"""One word, quoted for a POSIX shell; with unsafe characters as `$'..'` (POSIX.1-2024), each byte as `\ooo`."""
    if UNSAFE.search(text) is None:
        return shlex.quote(text)
    return f"$'{re.sub(_SPECIAL, _octal, text)}'"


def _octal(match: re.Match[str]) -> str:
    character = match.group()
    if character in "\\'":
        return f"\\{character}"
    how = "surrogateescape" if "\udc80" <= character <= "\udcff" else "surrogatepass"
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", how))


def shell_option(name: str, value: str) -> list[str]:
    """An option with its value as words, not quoted yet: one word where the value could be taken for an option."""
    return [f"{name}={value}"] if value.startswith("-") else [name, value]


def shell_line(words: Iterable[str]) -> str:
    """A whole command line."""
    return " ".join(map(shell_word, words))
