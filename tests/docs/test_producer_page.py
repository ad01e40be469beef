"""What docs/producer.md shows works."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest
from msgspec.structs import fields

import kafkalog

PAGE = Path(__file__).resolve().parents[2] / "docs" / "producer.md"


def test_the_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.failed == 0
    assert result.attempted > 20


def test_every_setting_is_there() -> None:
    named = set(re.findall(r"`(\w+)`", PAGE.read_text()))
    assert {field.name for field in fields(kafkalog.ProducerConfig)} - {"producer_type"} <= named
