"""Who decides does not say how a command line asks for it; and one part asks, warns and tells for all that act."""

from __future__ import annotations

import re
from pathlib import Path

from kafkalog.codec.common.advice import Ask
from kafkalog.words.advice import WORDS
from testkit.judging.modules import module

ROOT = Path(__file__).resolve().parents[2]
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
KAFKAS = re.compile(r"`kafka-[a-z-]+(\.sh)? ")
"""A command of Kafka's own, which has no words but these."""


REQUESTS = {"recovery/facts/recovery_request.py", "recovery/facts/run_requests.py", "recovery/rebuilding.py"}
"""The fields of a request state their options beside them."""


def strings(path: Path) -> list[str]:
    """All texts of a module that are no docstrings."""
    return [text.value for text in module(path).texts if not text.is_statement]


def test_what_recovers_names_no_option() -> None:
    found = {
        str(path.relative_to(ROOT)): options
        for path in (ROOT / "recovery").rglob("*.py")
        if str(path.relative_to(ROOT)) not in REQUESTS
        if (options := [each for text in strings(path) if not KAFKAS.search(text) for each in OPTION.findall(text)])
    }
    assert found == {}


def test_the_search_finds_options() -> None:
    assert OPTION.findall("say so with --moved") == ["--moved"]
    assert KAFKAS.search("as `kafka-topics --describe` shows it")
    assert not KAFKAS.search("`kafkalog plan --full`")


def test_everything_that_can_be_asked_for_has_words_for_both() -> None:
    assert {*WORDS, Ask.WAY} == set(Ask)


def test_one_part_asks_for_all_commands_that_change_a_directory() -> None:
    commands = ROOT / "src" / "kafkalog" / "cli"
    asking = {
        path.name
        for path in commands.rglob("*.py")
        if re.search(r"\b(confirm|interruptible)\(", path.read_text())
    } - {"confirm.py", "interrupt.py"}
    assert asking == {"acting.py", "replay.py"}, "replay changes no directory, and is interrupted in its own way"
