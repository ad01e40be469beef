"""A word that is printed for a shell names exactly what it is to name, whatever is in it, and shows no control."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.codec.common.shell import UNSAFE, shell_line, shell_option, shell_word
from testkit.running.shell_words import as_bash_reads

WORDS = [
    "orders", "", "two words", "it's", "a$b`c`\"d\"", "\\", "*?[x]", "~", "#", "-x", "--topic", "a\nb", "a\x1b[31mb",
    "tab\there", "it's\na \\ and $x", "\x01\x02'7", "\x017", "caf\udce9", "\u202egnp", "\u2028", "é", "日本", "\x7f9",
]  # fmt: skip


def test_every_word_comes_back() -> None:
    line = shell_line(WORDS)
    assert UNSAFE.search(line) is None
    assert as_bash_reads(line) == WORDS


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1))
def test_any_text(words: list[str]) -> None:
    line = shell_line(words)
    assert UNSAFE.search(line) is None
    assert as_bash_reads(line) == words


@pytest.mark.parametrize("value", ["-x", "--topic", "orders", "-\n"])
def test_a_value_is_never_taken_for_an_option(value: str) -> None:
    words = shell_option("--topic", value)
    assert words == ([f"--topic={value}"] if value.startswith("-") else ["--topic", value])


def test_ordinary_words_are_quoted_as_ever() -> None:
    assert [shell_word(each) for each in ("a-b.c_d", "a b")] == ["a-b.c_d", "'a b'"]
