"""A program that exports a topic; what started it may kill it at any moment, and it says when it is about to begin.

`exporter.py DATA OUT FORMAT [AT]`: with AT it kills itself at that event of its run, counted from the beginning (files
that are opened, renamed and removed): `events` prints how many there are instead.
"""

from __future__ import annotations

import os
import signal
import sys

import kafkalog
from kafkalog.tables import exporting

WATCHED = {"open", "os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "sqlite3.connect"}


def main() -> int:
    data, out, format, *rest = sys.argv[1:]
    exporting._ROWS_OF_A_ROUND = 100  # so that there are several commits
    for module in ("parquet", "iceberg", "delta"):
        __import__(f"kafkalog.tables.{module}")
    seen, at = 0, int(rest[0]) if rest and rest[0] != "events" else None

    def hook(event: str, arguments: object) -> None:
        nonlocal seen
        if event in WATCHED:
            seen += 1
            if seen == at:
                os.kill(os.getpid(), signal.SIGKILL)

    print("ready", flush=True)
    if rest:
        sys.addaudithook(hook)
    kafkalog.export(kafkalog.Export(format=format, values="bytes"), data, target=out, jobs=2)
    print(seen, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
