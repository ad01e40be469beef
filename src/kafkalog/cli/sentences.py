"""Writing sentences to standard output that wrap at the width of the terminal, or at 80 columns."""

from __future__ import annotations

from kafkalog.cli.output import LineWriter
from kafkalog.cli.tables import text_width
from kafkalog.words.first_screen import FirstScreen
from kafkalog.words.wrapping import folded_with_command

__all__ = ["SentenceWriter", "print_screen"]


class SentenceWriter(LineWriter):
    """A `LineWriter` whose lines wrap; of command lines so that they can still be pasted."""

    def __init__(self) -> None:
        super().__init__()
        self._width = text_width()

    def write(self, line: str) -> None:
        """One sentence or command line, without its newline, on as many lines as it takes."""
        for part in folded_with_command(line, self._width):
            super().write(part)


def print_screen(screen: FirstScreen) -> None:
    """Write the first screen, which holds 24 lines at most."""
    with LineWriter() as writer:
        for line in screen.lines(text_width()):
            writer.write(line)
