"""Writes docs/explain.svg: what `kafkalog explain` prints about the flipped bit of a recorded case, on a terminal.

Run as a program with ``--write`` it brings the picture up to date; the tests only compare.
"""

from __future__ import annotations

import io
import re
import sys
import tempfile
from contextlib import chdir
from pathlib import Path

from rich.console import Console
from rich.text import Text

from testkit.recorded.fixture_data import recovery_case
from testkit.running.command import kafkalog

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "explain.svg"
WORDS = ("explain", "data/t-0/00000000000000000055.log", "--max-fields", "30")
COLUMNS = 110


def picture() -> str:
    """The picture as it should be."""
    with tempfile.TemporaryDirectory() as directory, chdir(directory):
        recovery_case("bit_flip/length").unpack_before(Path("data"))
        finished = kafkalog(*WORDS, columns=COLUMNS)
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text(f"$ kafkalog {' '.join(WORDS)}", style="bold"))
    for line in finished.out.splitlines():
        is_wrong = line.startswith("what breaks") or " would end " in line
        console.print(Text(line, style="bold red" if is_wrong else ""), no_wrap=True, overflow="crop")
    drawn = console.export_svg(title="kafkalog explain", unique_id="explain")
    return re.sub(r"^\s*@font-face \{.*?\}\n", "", drawn, flags=re.MULTILINE | re.DOTALL)


if __name__ == "__main__" and "--write" in sys.argv:
    PICTURE.write_text(picture(), encoding="utf-8")
