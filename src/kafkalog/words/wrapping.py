"""Lines that fit the width of a terminal: sentences wrap between words, command lines so that they can be pasted."""

from __future__ import annotations

import re
import textwrap

__all__ = ["REPORT_WIDTH", "WIDTH", "folded", "folded_with_command", "is_command", "wrapped", "wrapped_command"]

WIDTH = 80
"""Columns of a line if nothing tells the terminal's width."""
REPORT_WIDTH = 80
"""Columns of a report, which is read elsewhere than where it is made."""
_NARROWEST = 24
_SHELL_WORD = re.compile(r"(?:\$'(?:\\.|[^'\\])*'|'[^']*'|\\.|[^\s'\\])+")
_COMMAND = "kafkalog "


def is_command(line: str) -> bool:
    """Whether a line is a command line of this program, for somebody to paste."""
    return line.lstrip().startswith(_COMMAND)


def folded(line: str, width: int) -> list[str]:
    """A sentence or a command line on as many lines as it takes."""
    return wrapped_command(line, width) if is_command(line) else wrapped(line, width)


def folded_with_command(line: str, width: int) -> list[str]:
    """The same; a command line behind a colon gets lines of its own if the sentence does not fit with it."""
    words, colon, command = line.rpartition(f": {_COMMAND}")
    if not colon or len(line) <= width:
        return folded(line, width)
    return [*folded_with_command(f"{words}:", width), *folded(f"  {_COMMAND}{command}", width)]


def wrapped(text: str, width: int) -> list[str]:
    """Lines of at most `width` columns; those after the first are indented by two more than the first.

    A word that is longer than a line, such as a path, stays whole.  A line that fits is returned unchanged.
    """
    if len(text) <= width:
        return [text]
    indent = text[: len(text) - len(text.lstrip())]
    return textwrap.wrap(
        text, max(width, _NARROWEST), subsequent_indent=f"{indent}  ", break_long_words=False, break_on_hyphens=False
    ) or [text]


def wrapped_command(command: str, width: int) -> list[str]:
    """A command line on several lines that a shell reads as one: each but the last ends in a backslash."""
    if len(command) <= width:
        return [command]
    indent = command[: len(command) - len(command.lstrip())]
    lines = [indent]
    for word in _SHELL_WORD.findall(command):
        line = lines[-1]
        if line.strip() and len(line) + 1 + len(word) + 2 > width:
            lines[-1] = f"{line} \\"
            lines.append(f"{indent}  {word}")
        else:
            lines[-1] = f"{line} {word}" if line.strip() else f"{line}{word}"
    return lines
