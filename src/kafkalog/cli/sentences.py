"""Print sentences that wrap at the width of the terminal, or at 80 columns."""

from __future__ import annotations

from kafkalog.cli.output import LineWriter
from kafkalog.cli.tables import text_width
from kafkalog.words.first_screen import FirstScreen
from kafkalog.words.wrapping import folded_with_command

__all__ = ["SentenceWriter", "print_screen"]


class SentenceWriter(LineWriter):
    """A `LineWriter` that wraps lines; command lines are wrapped so that they can be copied."""

    def __init__(self) -> None:
        super().__init__()
        self._width = text_width()

    def write(self, line: str) -> None:
        """Write a sentence or command line, given without its newline, on as many lines as needed."""
        for part in folded_with_command(line, self._width):
            super().write(part)


def print_screen(screen: FirstScreen) -> None:
    """Write the first screen, which has at most 24 lines unless its first command or its list of deleted partitions and
    segments is long. If it leaves commands out, an empty line and all commands follow.
    """
    width = text_width()
    with LineWriter() as writer:
        for line in screen.lines(width):
            writer.write(line)
        commands = screen.all_commands(width)
        for line in ["", *commands] if commands else []:
            writer.write(line)
