"""Running the ``kafkalog`` command inside the test process; what it prints as JSON is held against docs/json."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import json_pages
from kafkalog.cli.main import run
from kafkalog.codec.common.shapes import plain
from kafkalog.words import wrapping

_MOST_LINES = 50
"""of one command line that are held against its schema"""
_ANY_WIDTH = 1_000_000
"""Columns at which no sentence wraps."""


@dataclass(frozen=True)
class Finished:
    """What one command line gave."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """Standard output by lines."""
        return self.out.splitlines()

    @property
    def objects(self) -> list[dict[str, Any]]:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.out.split("\n") if line]


def in_json(line: object) -> Any:
    """A line, or several, after a round trip through JSON."""
    return json.loads(json.dumps(plain(line)))


@contextmanager
def _streams() -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
    out, err = io.BytesIO(), io.BytesIO()
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = io.TextIOWrapper(out, "utf-8"), io.TextIOWrapper(err, "utf-8")
    try:
        yield out, err
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            stream.detach()
        sys.stdout, sys.stderr = before


@contextmanager
def _width(columns: int | None) -> Iterator[None]:
    before, lines = os.environ.pop("COLUMNS", None), wrapping.WIDTH
    if columns is None:
        wrapping.WIDTH = _ANY_WIDTH
    else:
        os.environ["COLUMNS"] = str(columns)
    try:
        yield
    finally:
        wrapping.WIDTH = lines
        os.environ.pop("COLUMNS", None)
        if before is not None:
            os.environ["COLUMNS"] = before


def kafkalog(*arguments: object, columns: int | None = None) -> Finished:
    """Run one command line; `columns` is how wide the lines may be, None for whatever they need."""
    words = [str(argument) for argument in arguments]
    with _width(columns), _streams() as (out, err):
        code = run(words)
    finished = Finished(code, out.getvalue().decode(), err.getvalue().decode())
    if "--json" in words and "--help" not in words and finished.out:
        lines = [line for line in finished.out.split("\n") if line][:_MOST_LINES]
        found = [each for line in lines for each in json_pages.problems_of_line(schema_of(words), line)]
        assert found == [], "\n".join(found[:5])
    return finished


def schema_of(words: Sequence[str]) -> str:
    """The name of the schema in docs/json for a command line."""
    if words[0] in ("index", "quorum"):
        return f"{words[0]}-{words[1]}"
    return "plan" if words[0] == "recover" and "--dry-run" in words else words[0]
