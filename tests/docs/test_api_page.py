"""What docs/api.md shows works, on bytes that a broker wrote."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

from testkit.recorded.broker_dirs import brokers

PAGE = Path(__file__).resolve().parents[2] / "docs" / "api.md"


def shown_entries() -> list[bytes]:
    """The entries of logs that the page shows, as bytes."""
    found = re.findall(r"fromhex\(\s*(.*?)\s*\)", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    data = [bytes.fromhex("".join(re.findall(r'"([0-9a-f]+)"', text))) for text in found]
    return [entry for entry in data if len(entry) > 30]


def test_the_examples() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.failed == 0
    assert result.attempted > 20


def test_the_bytes_are_those_of_a_broker_in_every_magic() -> None:
    entries = shown_entries()
    assert {entry[16] for entry in entries} == {0, 1, 2}
    logs = [path.read_bytes() for path in brokers("2.8.2/codecs")[0].parent.rglob("*.log")]
    assert all(any(entry in log for log in logs) for entry in entries)
