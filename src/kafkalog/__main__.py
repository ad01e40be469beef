"""`python -m kafkalog`, and the `kafkalog` command."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from contextlib import suppress

_OBJECTS = 250_000
"""New objects between two searches for garbage in cycles, of which a command makes little: with Python's own 700 a
command over thousands of partitions spends a fifth of its time on them.  Importing makes fewer than this."""
_TOOLS = 6
"""of `sys.monitoring`, which Python has from 3.12 on"""


def _run() -> int:
    with suppress(ValueError):  # where this is not the main thread
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # while modules are imported, Ctrl-C ends it without a traceback
    gc.set_threshold(_OBJECTS)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's, for matrices: of threads the first 0.1 s is spinning
    from kafkalog.cli.main import run

    with suppress(ValueError):
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return run(sys.argv[1:])


def _is_waited_for() -> bool:
    """Whether somebody has something to do when this process ends: a thread, a handler, a debugger, a profiler."""
    threading, monitoring = sys.modules.get("threading"), getattr(sys, "monitoring", None)
    handlers = getattr(atexit, "_ncallbacks", None)  # how many there are, which Python tells nowhere else
    return bool(
        (threading is not None and threading.active_count() > 1)
        or handlers is None
        or handlers()
        or sys.gettrace() is not None
        or sys.getprofile() is not None
        or (monitoring is not None and any(monitoring.get_tool(number) for number in range(_TOOLS)))
        or sys.flags.inspect
        or sys.flags.dev_mode
    )


def main() -> None:
    """Run the command and raise `SystemExit` with its exit code."""
    code = _run()
    gc.freeze()  # else an interpreter that ends searches all that was imported for garbage: 40 ms of each command
    sys.exit(code)


def process() -> None:
    """Run the command and end the process with its exit code; nothing of the program comes after this."""
    code = _run()
    if not _is_waited_for():
        with suppress(OSError, ValueError, AttributeError):  # what cannot be written, the usual end complains about
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)  # else the interpreter takes apart, one by one, all that was imported: 7 ms
    gc.freeze()
    sys.exit(code)


if __name__ == "__main__":
    process()
