"""What docs/serve.md shows works, and says what the page says."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest

import kafkalog
from json_pages import problems
from testkit.recorded.explained_answers import table
from testkit.serving.the_server import STOP_SECONDS, the_command

PAGE = Path(__file__).resolve().parents[2] / "docs" / "serve.md"
LINES = re.findall(r"^\$ kafkalog serve (.*)\n(.*)$", PAGE.read_text(), re.MULTILINE)


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    with kafkalog.Log.open("data/orders-0") as log:
        log.append([(b"key", b"value")])


def test_the_example() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert (result.failed, result.attempted) == (0, 3)


@pytest.mark.parametrize(("line", "answer"), LINES)
def test_a_command_says_where_it_listens_and_ends_when_it_is_told(line: str, answer: str) -> None:
    words = shlex.split(re.sub(r"127\.0\.0\.1:9092", "127.0.0.1:0", line))
    with the_command(*words) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        shape = re.sub(r"\d+", "N", answer.strip())
        assert re.sub(r"\d+", "N", said.strip()) == shape
        process.terminate()
        process.communicate(timeout=STOP_SECONDS)
        assert process.returncode == 0


def test_there_are_commands() -> None:
    assert len(LINES) == 2
    assert problems("serve", {"kind": "listening", "bootstrap": "h:1", "topics": 1, "partitions": 1, "absent": 0}) == []


def test_the_differences_to_a_broker_are_those_that_are_explained() -> None:
    """`tests/interop/test_answers.py` finds no others."""
    assert table() in PAGE.read_text(encoding="utf-8")
