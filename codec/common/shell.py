"""Quote words of a command line so that people can paste it into a shell. A quoted word stands for exactly the original
text, and contains no control character.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

__all__ = ["UNSAFE", "shell_line", "shell_option", "shell_word"]

UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that are never printed as they are: control and direction characters, line ends, and surrogates."""

_SPECIAL = rf"{UNSAFE.pattern}|[\\\\']"


def shell_word(text: str) -> str:
    r"""Return one word quoted for a POSIX shell. If it has unsafe characters, it is `$'..'` (POSIX.1-2024) with each
    byte of such characters as `\ooo`, so that nothing invisible is printed.
    """
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
    """Return an option with its value as unquoted words: one word if the value itself looks like an option, otherwise
    two.
    """
    return [f"{name}={value}"] if value.startswith("-") else [name, value]


def shell_line(words: Iterable[str]) -> str:
    """Return a command line from unquoted words."""
    return " ".join(map(shell_word, words))
