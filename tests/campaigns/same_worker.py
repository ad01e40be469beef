"""One side of `dev.py same`: carries out what each line of JSON on standard input asks, and answers with a line.

It runs in the environment of either commit, so it uses nothing but the command line's entry point, the data source and,
for runs that are to be cut short, that commit's own test support (`testkit.running.stopping`).
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

Answer = dict[str, Any]


def run(words: Sequence[str]) -> Answer:
    """One command line: exit code, what it printed, and the processor time it took."""
    from kafkalog.cli.main import run as command

    out, err = io.BytesIO(), io.BytesIO()
    text = [io.TextIOWrapper(each, "utf-8", "surrogateescape", write_through=True) for each in (out, err)]
    begun = time.process_time()
    try:
        with redirect_stdout(text[0]), redirect_stderr(text[1]):
            code: int | str = command(list(words))
    except BaseException as error:  # noqa: BLE001 - a traceback is an answer too, and a difference
        code = f"{type(error).__name__}: {error}"
    seconds = time.process_time() - begun
    for each in text:
        each.flush()
    return {
        "code": code,
        "out": out.getvalue().decode("utf-8", "backslashreplace"),
        "err": err.getvalue().decode("utf-8", "backslashreplace"),
        "seconds": seconds,
    }


def tree(root: str) -> Answer:
    """Names, sizes and digests of all files below a directory, but for the lock."""
    found = {}
    for path in sorted(Path(root).rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = f"link to {os.readlink(path)}"
        elif path.is_dir():
            found[name] = "directory"
        elif path.is_file() and path.name != ".lock":
            found[name] = f"{path.stat().st_size} {hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"
    return {"tree": found}


def spark_rows(root: str) -> Answer:
    """The rows that the data source gives in mode PERMISSIVE, without a JVM, in the order of its tasks."""
    from kafkalog.spark.source import KafkaLogSource

    rows = []
    try:
        source = KafkaLogSource({"path": root, "mode": "PERMISSIVE", "includeHeaders": "true"})
        reader = source.reader(source.schema())
        for part in reader.partitions():
            for batch in reader.read(part):
                lines = (repr(row).encode("utf-8", "backslashreplace") for row in batch.to_pylist())
                rows += [hashlib.sha256(line).hexdigest()[:16] for line in lines]
    except Exception as error:  # noqa: BLE001 - an answer too
        return {"rows": [f"{type(error).__name__}: {error}"]}
    return {"rows": rows}


def cut_short(words: Sequence[str], number: int) -> Answer:
    """A command line in a process that is killed before its n-th change; whether it came to that."""
    from testkit.running.stopping import killed_at

    return {"killed": killed_at(number, lambda: run(words), may_decline=True)}


_ACTIONS: dict[str, Callable[..., Answer]] = {
    each.__name__: each for each in (run, tree, spark_rows, cut_short)
}


def main() -> None:
    """Answer each line; the answer goes to the descriptor that standard output was when the program began."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what prints past Python's own streams must not be taken for an answer
    for line in sys.stdin:
        action, arguments = json.loads(line)
        answers.write(json.dumps(_ACTIONS[action](*arguments)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
