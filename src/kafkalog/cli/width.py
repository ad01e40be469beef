"""Width of output lines: the width of the terminal, or the variable COLUMNS."""

from __future__ import annotations

import os
from typing import TextIO

__all__ = ["terminal_width"]


def terminal_width(stream: TextIO) -> int | None:
    """Return the width for output in columns: the variable COLUMNS if it is above 0, else the width of the terminal at
    standard output, or 80 if there is none. None if `stream` is not a terminal and COLUMNS is not a number.
    """
    if stream.isatty() or os.environ.get("COLUMNS", "").isdigit():
        from shutil import get_terminal_size  # with all archives that Python knows

        return get_terminal_size().columns
    return None
