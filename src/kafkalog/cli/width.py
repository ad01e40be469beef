"""Width of output lines: the width of the terminal, or the variable COLUMNS."""

from __future__ import annotations

import os
from typing import TextIO

from kafkalog.words.wrapping import WIDTH

__all__ = ["terminal_width"]

_MOST_DIGITS = 9


def terminal_width(stream: TextIO) -> int | None:
    """Return the width for output to `stream` in columns. It is the variable COLUMNS if that is a number above 0, else
    the width of the terminal that `stream` is. If the terminal's width is unknown, it is 80. None if `stream` is not a
    terminal.
    """
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and len(columns) <= _MOST_DIGITS and int(columns):
        return int(columns)
    if not stream.isatty():
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or WIDTH
    except OSError:
        return WIDTH
