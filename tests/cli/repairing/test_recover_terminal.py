"""`recover` as a person sees it: the plan, a question, progress, a last paragraph; and Ctrl-C at every stage of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog.recovery.act.journal import JOURNAL, MANIFEST
from testkit.judging.every_byte import Originals
from testkit.judging.trees import stamps
from testkit.recorded.fixture_data import recovery_case
from testkit.recorded.recovery_settings import given
from testkit.running.command import kafkalog
from testkit.running.terminal import interrupted_at, on_a_terminal

CASE = recovery_case("random_mix/025")
SLOWLY = """
import kafkalog.log.directories.workers as workers
told = workers.Workers._tell
def slowly(self):
    told(self)
    time.sleep(0.02)
workers.Workers._tell = slowly
"""


def settings() -> list[str]:
    options = given(CASE)
    config = [word for name, value in options["config"].items() for word in ("--config", f"{name}={value}")]
    return [*config, "--at", str(options["at"])]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return CASE.unpack_before(tmp_path / "logs")


def test_plan_question_progress_and_last_paragraph(root: Path) -> None:
    before = stamps(root)
    words: list[str | Path] = ["recover", root, "--mode", "salvage", "--repair-bits", "structure", *settings()]
    seen = on_a_terminal(*words, answer=b"y\n", setup=SLOWLY)
    assert seen.code == 2, seen.text
    text = " ".join(seen.text.replace("\\\r\n", " ").split())
    order = [
        f"plan for {root} in mode salvage",
        f"ways for {root}",
        "recommended: salvage with repair_bits",
        f"Do this to {root}? [y/N]",
        f"recovered {root}: run ",
        "48 records are kept; about 6 are lost (t-0: offsets 23 to 26, offsets 36 to 39, offsets 43 to 44)",
        f"every byte that was removed is in {root}.recovery/",
        "a broker that starts on it now opens it, and changes nothing unless topics have settings",
        f"to undo this: kafkalog undo {root} --run ",
    ]
    places = [text.find(part) for part in order]
    assert -1 not in places, (order[places.index(-1)], text)
    assert places == sorted(places)
    assert re.search(r"saving what will be removed.*files \d+/\d+", text)
    assert re.search(r"/s", text)
    assert re.search(r"\d:\d\d:\d\d", text)
    (command,) = re.findall(r"kafkalog (undo \S+ --run \S+)", text)
    assert kafkalog(*command.split(), "--yes").code == 2
    assert stamps(root) == before


def test_no_is_no(root: Path) -> None:
    before = stamps(root)
    seen = on_a_terminal("recover", root, "--mode", "salvage", *settings(), answer=b"n\n")
    assert seen.code == 3
    assert stamps(root) == before
    assert not root.with_name("logs.recovery").exists()


def test_without_consent_the_choice_is_shown_and_nothing_asked(root: Path) -> None:
    before = stamps(root)
    seen = on_a_terminal("recover", root, *settings())
    assert seen.code == 3
    assert "[y/N]" not in seen.text
    assert "this would drop 30 records that can still be read" in " ".join(" ".join(seen.lines).split())
    assert f"kafkalog recover {root}" in " ".join(seen.text.replace("\\\r\n", " ").split())
    assert "--accept-loss" in seen.text
    assert stamps(root) == before


@pytest.mark.parametrize(
    "moment",
    [
        "kafkalog.recovery.decide.forecasts.examine_apart",
        "kafkalog.recovery.decide.counting.census",
        "kafkalog.recovery.act.preparing._Preparation:step",
        "click.confirm",
    ],
)
def test_interrupted_before_anything_is_changed(moment: str, root: Path) -> None:
    before = stamps(root)
    words: list[str | Path] = ["recover", root, "--mode", "salvage", *settings()]
    seen = on_a_terminal(*words, answer=b"y\n", setup=interrupted_at(moment))
    assert seen.code == 130, seen.text
    assert "interrupted; nothing was changed" in seen.text
    assert "Traceback" not in seen.text
    assert stamps(root) == before
    assert not root.with_name("logs.recovery").exists()


@pytest.mark.parametrize("then", ["recover", "undo"])
@pytest.mark.parametrize("kind", ["Link", "Replace"])
def test_interrupted_while_files_change(kind: str, then: str, root: Path) -> None:
    moment = f"kafkalog.recovery.act.operations.{kind}:do"
    before, originals = stamps(root), Originals(root)
    words: list[str | Path] = ["recover", root, "--mode", "salvage", "--yes", *settings()]
    seen = on_a_terminal(*words, setup=interrupted_at(moment))
    assert seen.code == 130, seen.text
    assert "Traceback" not in seen.text
    said = " ".join(" ".join(seen.lines).split())
    (run,) = set(re.findall(r"run (\S+) on \S+ has begun and is not finished", said))
    assert f"kafkalog undo {root} --run {run} reverses it" in said
    assert originals.missing(root, root.with_name("logs.recovery")) == []
    if then == "undo":
        assert kafkalog("undo", root, "--run", run, "--yes").code == 2
        assert stamps(root) == before
    else:
        finished = kafkalog("recover", root, "--mode", "salvage", "--yes", *settings())
        assert finished.code == 2
        assert f"run {run}, which had been cut short, was completed" in finished.out


def test_interrupted_when_all_is_done(root: Path) -> None:
    words: list[str | Path] = ["recover", root, "--mode", "salvage", "--yes", *settings()]
    seen = on_a_terminal(*words, setup=interrupted_at("kafkalog.cli.repairing.recover.print_result"))
    assert seen.code == 130
    said = " ".join(" ".join(seen.lines).split())
    assert re.search(r"run \S+ on \S+ is finished; to reverse it: kafkalog undo \S+ --run \S+", said)


MOMENTS = (
    "kafkalog.recovery.decide.forecasts.examine_apart", "kafkalog.recovery.decide.counting.census",
    "kafkalog.recovery.act.runner.prepare",
    "kafkalog.recovery.act.preparing._Preparation:step", "kafkalog.recovery.act.preparing.write_document",
    "kafkalog.recovery.act.runner.roll_forward", "kafkalog.recovery.act.operations.Link:do",
    "kafkalog.recovery.act.operations.Replace:do", "kafkalog.recovery.act.apply.finish_document",
    "kafkalog.cli.repairing.recover.print_result",
)  # fmt: skip


@pytest.mark.sweep
@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_and_what_is_said_then(moment: str, root: Path, measured: Callable[[str, int], None]) -> None:
    """`ls` and `plan` name a run that was cut short and change nothing; `recover` ends it; `undo` gives all back."""
    before, kept = stamps(root), root.with_name("logs.recovery")
    kill = interrupted_at(moment).replace("SIGINT", "SIGKILL")
    words: list[str | Path] = [root, "--mode", "salvage", *settings()]
    seen = on_a_terminal("recover", "--yes", *words, setup=kill)
    assert seen.code == -9, seen.text
    left = stamps(root)
    run = max((path.name for path in kept.glob("*")), default=None)
    begun, is_done = (bool(run and (kept / run / name).exists()) for name in (JOURNAL, MANIFEST))
    listed, planned = kafkalog("ls", root), kafkalog("plan", *words)
    for finished in (listed, planned):
        assert ("was cut short" in finished.out) is begun, finished.out
        assert begun is False or f" --run {run}` reverses it" in finished.out
    refuses = "if a broker was started since, the first sets the run aside, and the second refuses:"
    assert (refuses in " ".join(planned.out.split())) is begun
    assert stamps(root) == left
    recovered = kafkalog("recover", "--yes", *words)
    assert recovered.code == (0 if is_done else 2), recovered
    assert (f"run {run}, which had been cut short, was completed" in recovered.out) is begun
    assert kafkalog("recover", "--yes", *words).code == 0
    while (kafkalog("undo", "--yes", root)).code == 2:
        pass
    assert stamps(root) == before
    measured("kills after which ls, plan, recover and undo said and did what was right", 1)
