"""Sums up, at the end of a run, how much was compared with what Kafka itself read or printed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

PREFIX = "compared with Kafka: "


@pytest.fixture
def compared(record_property: Callable[[str, object], None]) -> Callable[[str, int], None]:
    """A function to say that so many of something were compared."""

    def note(what: str, count: int) -> None:
        record_property(PREFIX + what, count)

    return note


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line for each kind of comparison; what failed does not count."""
    total: Counter[str] = Counter()
    for report in terminalreporter.stats.get("passed", []):
        for name, count in report.user_properties:
            if name.startswith(PREFIX):
                total[name] += count
    for name, count in sorted(total.items()):
        terminalreporter.write_line(f"{name.removeprefix(PREFIX)}: {count} {PREFIX.strip(': ')}")
