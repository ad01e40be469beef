"""`python -m kafkalog`, and the `kafkalog` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command and end the process with its exit code."""
    from kafkalog.cli.main import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
