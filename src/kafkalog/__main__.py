"""`python -m kafkalog`, and the `kafkalog` command."""

from __future__ import annotations

import gc
import os
import signal
import sys
from contextlib import suppress

_OBJECTS = 250_000
"""New objects between two searches for garbage in cycles, of which a command makes little: with Python's own 700 a
command over thousands of partitions spends a fifth of its time on them.  Importing makes fewer than this."""


def _take_closed_descriptors() -> None:
    """Open /dev/null in place of each of stdin, stdout and stderr that is closed. Reading such a stdin, or writing to
    such a stdout, raises an error; what is written to such a stderr is discarded. Otherwise the next file that is
    opened, perhaps a log, would get the descriptor, and receive printed text.
    """
    for name, flags in (("stdin", os.O_WRONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, flags)
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, os.fdopen(descriptor, mode, encoding="utf-8", errors="backslashreplace", closefd=False))


def main() -> None:
    """Run the command with the arguments of the process, and end the process with its exit code (`SystemExit`). Opens
    closed standard streams, sets signal handlers and the garbage collector's threshold, and sets OPENBLAS_NUM_THREADS
    unless it is set.
    """
    _take_closed_descriptors()
    with suppress(ValueError):  # where this is not the main thread
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # while modules are imported, Ctrl-C ends it without a traceback
    gc.set_threshold(_OBJECTS)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's, for matrices: of threads the first 0.1 s is spinning
    from kafkalog.cli.main import run

    with suppress(ValueError):
        signal.signal(signal.SIGINT, signal.default_int_handler)
    code = run(sys.argv[1:])
    gc.freeze()  # else an interpreter that ends searches all that was imported for garbage: 40 ms of each command
    sys.exit(code)


if __name__ == "__main__":
    main()
