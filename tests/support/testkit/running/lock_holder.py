"""Another process that holds a broker's lock."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["held"]

_HOLD = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print(flush=True)
input()
"""


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the lock of a file, which is made if it is not there, until the context ends."""
    command = [sys.executable, "-c", _HOLD, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"\n"
        try:
            yield
        finally:
            holder.communicate(b"\n")
