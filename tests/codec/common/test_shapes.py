"""Lines as JSON: names that are not UTF-8 and numbers that are none stay as Python's encoder writes them."""

from __future__ import annotations

import json
import math
import os

import msgspec
import pytest
from msgspec import Struct

from kafkalog.codec.common.advice import Ask, Sentence
from kafkalog.codec.common.shapes import plain


class Line(Struct, frozen=True, kw_only=True):
    """A line."""

    name: str
    value: float = 0.0
    by_name: dict[str, float] = {}


def test_a_name_that_is_not_utf_8_is_written_as_its_surrogates() -> None:
    name = os.fsdecode(b"quotes-\xff-0")
    line = Line(name=name, by_name={name: 1.0})
    with pytest.raises(UnicodeEncodeError):
        msgspec.json.encode(line)
    written = json.dumps(plain(line))
    assert written == '{"name": "quotes-\\udcff-0", "value": 0.0, "by_name": {"quotes-\\udcff-0": 1.0}}'
    assert os.fsencode(json.loads(written)["name"]) == b"quotes-\xff-0"


def test_not_a_number_and_infinity_are_not_null() -> None:
    line = Line(name="a", value=math.nan, by_name={"b": -math.inf})
    assert b'"value":null' in msgspec.json.encode(line)
    assert json.dumps(plain(line)) == '{"name": "a", "value": NaN, "by_name": {"b": -Infinity}}'


def test_advice_gets_the_words_that_were_asked_for() -> None:
    line = Line(name=Sentence("it needs ", Ask.ACCEPT_LOSS))
    assert plain(line)["name"] == "it needs accept_loss=True"
    assert plain(line, lambda advice: f"--{advice.ask.name.lower()}")["name"] == "it needs --accept_loss"


def test_a_value_that_json_does_not_have_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="object"):
        plain([object()])
