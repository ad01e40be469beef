"""Tests that would begin after a moment are left out, and are said to be: campaigns share a time that ends.

``KAFKALOG_UNTIL`` holds the moment in seconds of the epoch.  What has begun goes on to its end.
"""

from __future__ import annotations

import os
import time
from collections import Counter

import pytest

UNTIL = "KAFKALOG_UNTIL"
REASON = "left out, the time was up"


class TimeLimit:
    """A plugin of the processes that run tests."""

    def __init__(self, until: float) -> None:
        self._until = until

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        if time.time() >= self._until:
            pytest.skip(REASON)


def from_environment() -> TimeLimit | None:
    """The limit that this run was given, or None."""
    value = os.environ.get(UNTIL)
    return TimeLimit(float(value)) if value else None


def left_out(skipped: list[pytest.TestReport]) -> str | None:
    """A sentence about the tests that were left out, by file, or None."""
    files = Counter(
        report.nodeid.partition("::")[0]
        for report in skipped
        if isinstance(report.longrepr, tuple) and REASON in report.longrepr[2]
    )
    if not files:
        return None
    named = ", ".join(f"{name.removeprefix('tests/')} ({count})" for name, count in sorted(files.items()))
    return f"left out when the time was up, {files.total()} tests: {named}"
