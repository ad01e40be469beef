"""The glossary: at most sixty words, each once and in order, and every value of the enumerations that it explains."""

from __future__ import annotations

import json
import re

import pytest

from kafkalog.codec.common.findings import Severity
from kafkalog.recovery.modes.table import Mode
from testkit.running.pages import DOCS

PAGE = (DOCS / "glossary.md").read_text(encoding="utf-8")
WORD = re.compile(r"^\| \*(?P<word>[^*]+)\* \| (?P<meaning>[^|]+) \|$", re.MULTILINE)
ONE_MEANING = {"sound", "way", "mode", "plan", "run", "finding", "place", "part", "outcome"}


def section(title: str) -> str:
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_at_most_sixty_words_each_once() -> None:
    words = [found["word"] for found in WORD.finditer(PAGE)]
    assert len(words) <= 60
    assert len(set(words)) == len(words)
    assert set(words) >= ONE_MEANING


@pytest.mark.parametrize("title", ["Kafka's words", "Words of kafkalog"])
def test_words_are_in_alphabetical_order(title: str) -> None:
    words = [found["word"].lower() for found in WORD.finditer(section(title))]
    assert words == sorted(words)


def test_severities_are_named() -> None:
    meaning = next(found["meaning"] for found in WORD.finditer(PAGE) if found["word"] == "severity")
    assert [meaning.find(each.value) for each in Severity] == sorted(meaning.find(each.value) for each in Severity)
    assert all(each.value in meaning for each in Severity)


@pytest.mark.parametrize("command", ["plan", "recover", "index-rebuild"])
def test_json_names_every_mode(command: str) -> None:
    schema = json.loads((DOCS / "json" / f"{command}.schema.json").read_text(encoding="utf-8"))
    assert schema["properties"]["mode"]["enum"] == [*(each.value for each in Mode), None]
