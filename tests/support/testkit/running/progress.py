"""One line that says how far a run of the tests is, and about how long the rest will take.

Tests differ by a factor of ten thousand in what they take, so a share of their number says little.  Each test counts
with the seconds that its file took before (``tests/seconds.json``, written by ``KAFKALOG_SECONDS=write``), and the rest
takes as long as what is done has shown this machine to need for that.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import pytest

SECONDS = Path(__file__).resolve().parents[3] / "seconds.json"
_UNKNOWN_SECONDS = 0.05
_EVERY_SECONDS = 15.0
_EVERY_SECONDS_ON_A_TERMINAL = 1.0


def spoken(seconds: float) -> str:
    """Minutes and seconds, as a person reads them."""
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02} s"


class Pace:
    """What is done of a set of tests, and what the rest will take."""

    def __init__(self, tests: Collection[str], seconds_of_files: Mapping[str, float], workers: int) -> None:
        in_file = Counter(_file(test) for test in tests)
        self._weights = {
            test: max(seconds_of_files.get(_file(test), 0.0) / in_file[_file(test)], _UNKNOWN_SECONDS) for test in tests
        }
        self._left = set(tests)
        self._whole = sum(self._weights.values())
        self._open = self._whole
        self._workers = workers

    def done(self, test: str) -> None:
        if test in self._left:
            self._left.remove(test)
            self._open -= self._weights[test]

    def line(self, gone: float) -> str:
        count = len(self._weights)
        done = self._whole - self._open
        # the table's own machine counts as the first tenth of what this one shows
        rate = (gone + self._whole / 10 / self._workers) / (done + self._whole / 10)
        return f"{count - len(self._left):,} of {count:,} tests, {spoken(gone)}, about {spoken(rate * self._open)} left"


def _file(test: str) -> str:
    return test.partition("::")[0]


class ProgressLine:
    """A plugin of the process that reports: a line now and then in the place of a dot for each test."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._pace: Pace | None = None
        self._started = self._shown = time.monotonic()
        self._terminal = sys.stdout.isatty()
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._begin([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Iterable[str]) -> None:
        self._begin(list(ids))

    def _begin(self, tests: Collection[str]) -> None:
        if tests and self._pace is None:
            known = json.loads(SECONDS.read_text(encoding="utf-8")) if SECONDS.is_file() else {}
            self._pace = Pace(tests, known, self._workers)
            self._started = time.monotonic()

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.CollectReport | pytest.TestReport) -> tuple[str, str, str] | None:
        """Show no letter for a test that passed; it is counted all the same."""
        if report.passed and isinstance(report, pytest.TestReport):
            return ("passed" if report.when == "call" else "", "", "")
        return None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[_file(report.nodeid)] += report.duration
        if self._pace is None or report.when != "teardown":
            return
        self._pace.done(report.nodeid)
        now = time.monotonic()
        if now - self._shown >= (_EVERY_SECONDS_ON_A_TERMINAL if self._terminal else _EVERY_SECONDS):
            self._shown = now
            line = self._pace.line(now - self._started)
            print(f"\r{line:<70}" if self._terminal else line, end="" if self._terminal else "\n", flush=True)

    def pytest_sessionfinish(self) -> None:
        if self._terminal and self._pace is not None:
            print()
        if os.environ.get("KAFKALOG_SECONDS") == "write":
            known = json.loads(SECONDS.read_text(encoding="utf-8")) if SECONDS.is_file() else {}
            known |= {name: round(seconds, 1) for name, seconds in self._seconds.items()}
            here = {name: seconds for name, seconds in known.items() if (SECONDS.parents[1] / name).is_file()}
            SECONDS.write_text(json.dumps(dict(sorted(here.items())), indent=0) + "\n", encoding="utf-8")
