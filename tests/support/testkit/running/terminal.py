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

__all__ = ["CTRL_C", "Seen", "interrupted_at", "on_a_terminal"]

CTRL_C = b"\x03"
_SILENCE_SECONDS = 2.0
_MOST_SILENCE_SECONDS = 60.0
_INTERRUPT = "os.kill(os.getpid(), signal.SIGINT)"
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]")
_PROGRAM = """
import fcntl, os, signal, sys, termios, time
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a shell runs in the background
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


def interrupted_at(what: str) -> str:
    """Python that presses Ctrl-C when a function is called."""
    module, _, name = what.rpartition(".")
    owner, _, method = name.partition(":")
    target = f"getattr(module, {owner!r})" if method else "module"
    return f"""
import importlib
module = importlib.import_module({module!r})
target, name = {target}, {method or owner!r}
before = getattr(target, name)
def pressed(*arguments, **named):
    {_INTERRUPT}
    return before(*arguments, **named)
setattr(target, name, pressed)
"""


def on_a_terminal(*words: str | Path, answer: bytes = b"", setup: str = "", columns: int = 160) -> Seen:
    """Run a command line with a terminal as input, output and error; `answer` is typed when a question is there.

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
    poll = select.poll()  # unlike select it takes a number above 1024, which a long run of tests comes to
    poll.register(master, select.POLLIN)
    seen, pressed, silent = b"", False, 0.0
    while True:
        ready = poll.poll(_SILENCE_SECONDS * 1000)
        silent = 0.0 if ready else silent + _SILENCE_SECONDS
        if not ready and silent < _MOST_SILENCE_SECONDS:
            if pressed:  # between two looks of Python's at signals; a person presses it again
                os.write(master, CTRL_C)
            continue
        try:
            data = os.read(master, 65536) if ready else b""
        except OSError:  # the other side is closed
            data = b""
        if not data:
            break
        seen += data
        if answer and b"[y/N]" in seen:
            os.write(master, answer)
            pressed = answer == CTRL_C
            answer = b""
    os.close(master)
    return Seen(_ESCAPES.sub("", seen.decode("utf-8", "replace")), process.wait(60))
