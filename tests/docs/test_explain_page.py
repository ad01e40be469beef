"""What docs/explain.md shows works, and its picture is what the program prints."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from explain_picture import PICTURE, picture
from testkit.recorded.fixture_data import recovery_case
from testkit.running.command import kafkalog

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explain.md"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`data` in the current directory."""
    recovery_case("bit_flip/length").unpack_before(tmp_path / "data")
    monkeypatch.chdir(tmp_path)


def test_commands() -> None:
    (lines,) = (text.splitlines() for kind, text in BLOCKS if kind == "console")
    for line in lines:
        finished = kafkalog(*shlex.split(line)[2:])
        is_damaged = "055.log" in line
        assert "--offset" not in line or " 65 " in line  # an offset of the damaged batch
        assert (finished.code, finished.err) == (int(is_damaged), ""), line
        assert ("what breaks: batch_length" in finished.out) is is_damaged


def test_python(capsys: pytest.CaptureFixture[str]) -> None:
    (text,) = (text for kind, text in BLOCKS if kind == "python")
    exec(text, {})
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed] == ["before", "damaged", "after"]
    assert printed[1].endswith("('batch_length',)")


def test_the_picture_is_what_is_printed() -> None:
    assert PICTURE.read_text(encoding="utf-8") == picture(), "run: python tests/support/explain_picture.py --write"
