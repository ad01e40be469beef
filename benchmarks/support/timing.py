"""What seconds are in a run, and how a piece of work is timed."""

from __future__ import annotations

import os
import resource
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

Measured = tuple[float, int]
Run = Callable[[], Measured]

use_cpu_time = False
"""Whether seconds are those of the thread that works, or of the clock on the wall."""


def clock() -> float:
    """Seconds since some moment."""
    return time.thread_time() if use_cpu_time else time.perf_counter()


def timed(work: Callable[[], int]) -> Run:
    """Seconds and what it counted."""

    def run() -> Measured:
        start = clock()
        count = work()
        return clock() - start, count

    return run


def process(command: list[str], output: Path, told: str = "", *, further: dict[str, str] | None = None) -> float:
    """Seconds of a process from its start to its end, its output in a file; of processor time, all its threads'.

    `told` is its standard input; `further` is added to its environment.
    """
    # an installed package has its bytecode on disk, as the peers' classes are compiled
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment.update(further or {})
    output.unlink(missing_ok=True)  # letting go of an old one takes time too
    before, start = _of_children(), time.perf_counter()
    with output.open("wb") as target:
        subprocess.run(
            command, input=told, text=True, stdout=target, stderr=subprocess.DEVNULL, check=False, env=environment
        )
    return _of_children() - before if use_cpu_time else time.perf_counter() - start


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
