"""The command on a terminal: what a person would see of it, and what a key pressed at the right moment does."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Seen", "on_a_terminal"]

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]")
_PROGRAM = """
import os, signal, sys, time
import kafkalog.cli.progress as progress
progress._PATIENCE_SECONDS = 0.0
progress._REFRESH_SECONDS = 0.0
{setup}
from kafkalog.cli.main import run
sys.exit(run(sys.argv[1:]))
"""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was on the terminal, without colors and cursor movements, and the exit code."""

    text: str
    code: int

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in re.split(r"[\r\n]+", self.text) if line.strip()]


def on_a_terminal(*words: str | Path, answer: bytes = b"", setup: str = "", columns: int = 160) -> Seen:
    """Run a command line with a terminal as input, output and error; `answer` is typed when a question stands there.

    `setup` is Python that runs before: it may put an interrupt at a certain moment.  Bars show at once.
    """
    master, slave = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "LINES": "50", "TERM": "xterm"}
    program = _PROGRAM.format(setup=setup)
    process = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, words)],
        stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True,
    )  # fmt: skip
    os.close(slave)
    seen = b""
    while True:
        ready, _, _ = select.select([master], [], [], 60)
        try:
            data = os.read(master, 65536) if ready else b""
        except OSError:  # the other side is closed
            data = b""
        if not data:
            break
        seen += data
        if answer and b"[y/N]" in seen:
            os.write(master, answer)
            answer = b""
    os.close(master)
    return Seen(_ESCAPES.sub("", seen.decode("utf-8", "replace")), process.wait(60))
