"""Each mode has its row, its document and a test that carries it out; what is derived names all of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec import structs

from kafkalog.cli.repairing.recover import command
from kafkalog.recovery.facts.recovery_request import Rules
from kafkalog.recovery.modes.spec import ExaminedSegments
from kafkalog.recovery.modes.table import MODES, WAYS, Mode

ROOT = Path(__file__).resolve().parents[3]
RECOVERY = (ROOT / "docs" / "recovery.md").read_text(encoding="utf-8")


def test_every_mode_has_a_row() -> None:
    assert list(MODES) == list(Mode)
    assert all(spec.name == mode for mode, spec in MODES.items())


def test_every_way_of_a_mode_has_a_place() -> None:
    assert {spec.way.name for spec in MODES.values() if spec.way is not None} <= set(WAYS)
    assert all(way.name == name for name, way in WAYS.items())


@pytest.mark.parametrize("name", [*Mode, *WAYS])
def test_each_is_described(name: str) -> None:
    assert re.search(rf"^\| `{name}`( \(default\))? \| \S", RECOVERY, re.MULTILINE)


@pytest.mark.parametrize("mode", Mode)
def test_each_has_a_file_and_is_carried_out_in_tests(mode: Mode) -> None:
    assert (ROOT / "recovery" / "modes" / f"{mode.value.replace('-', '_')}.py").is_file()
    used = rf"mode=(\"{mode.value}\"|Mode\.{mode.name})|--mode\", \"{mode.value}\""
    tests = (path.read_text(encoding="utf-8") for path in (ROOT / "tests" / "recovery").rglob("test_*.py"))
    assert mode is Mode.SAFE or any(re.search(used, text) for text in tests)


def test_a_row_says_which_segments_are_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = {mode: Rules(mode=mode) for mode in Mode}
    assert [mode for mode in Mode if rules[mode].examines_all] == [Mode.SALVAGE]
    full = [mode for mode in Mode if Rules(mode=mode, full=True).examines_all]
    assert full == [mode for mode in Mode if mode not in (Mode.KAFKA, Mode.SET_ASIDE)]
    assert [mode for mode in Mode if rules[mode].may_need_full] == [Mode.SAFE, Mode.SALVAGE]
    less = structs.replace(Mode.SAFE.spec, examined=ExaminedSegments.FROM_RECOVERY_POINT)
    monkeypatch.setitem(MODES, Mode.SAFE, less)
    assert not Rules(full=True).examines_all
    assert not Rules().may_need_full


def test_help_names_every_mode() -> None:
    text = " ".join(CliRunner().invoke(command, ["--help"]).output.split())
    assert f"How to recover: {', '.join(list(Mode)[:-1])} or {list(Mode)[-1]}." in text
    does = re.findall(r"Modes: (.*?)\. With --remote,", text)[0].split("; ")
    assert [sentence.split(" ", 1)[0] for sentence in does] == list(Mode)
    assert all(len(sentence.split()) > 5 and "{" not in sentence for sentence in does)
    assert "the copies given with --copy hold together" in does[list(Mode).index(Mode.MERGE)]
