"""`python -m kafkalog`, and the `kafkalog` command."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress


def main() -> None:
    """Run the command and end the process with its exit code."""
    with suppress(ValueError):  # where this is not the main thread
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # while modules are imported, Ctrl-C ends it without a traceback
    from kafkalog.cli.main import run

    with suppress(ValueError):
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
