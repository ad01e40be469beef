"""Programs that may die of what they do, run apart from the tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def number_printed(program: str, lines: list[str], folder: Path) -> int:
    """What a program prints that is given the name of a file with these lines; it must not die."""
    path = folder / "lines"
    path.write_text("\n".join(lines), encoding="ascii")
    result = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, (result.returncode, result.stderr)
    return int(result.stdout)
