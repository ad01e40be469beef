"""`kafkalog serve` as a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from testkit.running.free_ports import free_port

STOP_SECONDS = 30


@contextmanager
def the_command(*arguments: object, descriptors: int | None = None) -> Iterator[subprocess.Popen[str]]:
    """The command with these arguments, killed at the end if it is still there; at most so many files are open."""
    words = [sys.executable, "-m", "kafkalog", "serve", *map(str, arguments)]
    if descriptors is not None:
        words = ["sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh", *words]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def listening(*arguments: object, descriptors: int | None = None) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Where the command listens, on a free port, and its process."""
    with the_command("--listen", f"127.0.0.1:{free_port()}", "--json", *arguments, descriptors=descriptors) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate(timeout=STOP_SECONDS)[1]
        yield json.loads(line)["bootstrap"], process
