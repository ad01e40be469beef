"""Width of output lines: that of the terminal, or COLUMNS."""

from __future__ import annotations

import os
from typing import TextIO

__all__ = ["terminal_width"]


def terminal_width(stream: TextIO) -> int | None:
    """Columns of the terminal that `stream` writes to, or of COLUMNS; None if the width is not limited."""
    if stream.isatty() or os.environ.get("COLUMNS", "").isdigit():
        from shutil import get_terminal_size  # with all archives that Python knows

        return get_terminal_size().columns
    return None
