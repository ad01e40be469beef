"""What docs/compaction.md shows works."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest

import kafkalog
from testkit.running.command import kafkalog as command

PAGE = Path(__file__).resolve().parents[2] / "docs" / "compaction.md"


def test_the_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert (result.failed, result.attempted) == (0, 11)


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    with kafkalog.Log.open("data/orders-0", kafkalog.LogConfig(segment_bytes=500)) as log:
        for number in range(60):
            log.append([(b"key %d" % (number % 3), b"value %d" % number)])
    lines = re.findall(r"^\$ kafkalog (.*)$", PAGE.read_text(), re.MULTILINE)
    assert [command(*shlex.split(line)).code for line in lines] == [0, 2, 2, 0]
