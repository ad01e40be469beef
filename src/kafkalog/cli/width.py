"""Width of output lines: the width of the terminal, or the variable COLUMNS."""

from __future__ import annotations

import os
from typing import TextIO

__all__ = ["terminal_width"]


def terminal_width(stream: TextIO) -> int | None:
    """Return the number of columns of the terminal that `stream` writes to, or of the variable COLUMNS. None if the
    stream is not a terminal and COLUMNS is not a number.
    """
    if stream.isatty() or os.environ.get("COLUMNS", "").isdigit():
        from shutil import get_terminal_size  # with all archives that Python knows

        return get_terminal_size().columns
    return None
