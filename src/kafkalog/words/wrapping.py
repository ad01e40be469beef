"""Wrap lines to the width of a terminal: sentences between words, command lines so that they can be pasted."""

from __future__ import annotations

import re
import textwrap

__all__ = [
    "REPORT_WIDTH", "WIDTH", "before_command", "folded", "folded_with_command", "is_command", "wrapped",
    "wrapped_command",
]  # fmt: skip

WIDTH = 80
"""Columns of a line if the terminal's width is unknown."""
REPORT_WIDTH = 80
"""Columns of a report, which is read on another terminal than it is made on."""
_NARROWEST = 24
_SHELL_WORD = re.compile(r"""(?:\$'(?:\\.|[^'\\])*'|'[^']*'|"[^"]*"|\\.|[^\s'"\\])+""")
_COMMANDS = ("kafkalog ", "mv /", "mv '/", "cp -a /", "cp -a '/", "kafka-transactions.sh ")
"""beginnings of the command lines that are printed"""
_BEFORE_COMMAND = re.compile(rf"(?s)(.*): (?=(?:{'|'.join(_COMMANDS)}))")


def is_command(line: str) -> bool:
    """Whether a line is a command line, to be pasted."""
    return line.lstrip().startswith(_COMMANDS)


def before_command(line: str) -> str | None:
    """Return the sentence without the command that it ends in after a colon; None if it does not end in one."""
    found = _BEFORE_COMMAND.match(line)
    return None if found is None else found[1]


def folded(line: str, width: int) -> list[str]:
    """Wrap a sentence or a command line."""
    return wrapped_command(line, width) if is_command(line) else wrapped(line, width)


def folded_with_command(line: str, width: int) -> list[str]:
    """Wrap as `folded` does. If the line does not fit and ends in a command after a colon, the command gets lines of
    its own.
    """
    found = _BEFORE_COMMAND.match(line)
    if found is None or len(line) <= width:
        return folded(line, width)
    return [*folded_with_command(f"{found[1]}:", width), *folded(f"  {line[found.end() :]}", width)]


def wrapped(text: str, width: int) -> list[str]:
    """Wrap text to lines of at most `width` columns, or `_NARROWEST` if that is more. Lines after the first are
    indented by two more columns. A word that is longer than a line, such as a path, is not broken. A text that fits
    into one line is returned unchanged.
    """
    if len(text) <= width:
        return [text]
    indent = text[: len(text) - len(text.lstrip())]
    return textwrap.wrap(
        text, max(width, _NARROWEST), subsequent_indent=f"{indent}  ", break_long_words=False, break_on_hyphens=False
    ) or [text]


def wrapped_command(command: str, width: int) -> list[str]:
    """Wrap a command line to several lines that a shell reads as one: each except the last ends in a backslash, and
    later ones are indented. Words are not broken, so a line may be wider than `width` columns.
    """
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
