"""Width of output lines: the width of the terminal, or the variable COLUMNS."""

from __future__ import annotations

import os
from typing import TextIO

__all__ = ["terminal_width"]


def terminal_width(stream: TextIO) -> int | None:
    """Return the width for output in columns; None if `stream` is not a terminal and the variable COLUMNS is not a
    number. COLUMNS takes precedence if it is above 0. Otherwise the result is the width of the process's terminal, or
    80 if that width is unknown.
    """
    if stream.isatty() or os.environ.get("COLUMNS", "").isdigit():
        from shutil import get_terminal_size  # with all archives that Python knows

        return get_terminal_size().columns
    return None
