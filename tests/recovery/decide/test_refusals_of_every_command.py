"""Every command that changes a log directory, with every option and every reason to decline, on every kind of past.

What does not end with "changed" has changed nothing, not a byte and not a time, in the directory, its quarantines, or
elsewhere.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import product
from pathlib import Path

import pytest

from kafkalog.recovery import Recovery, recover
from testkit.judging.trees import copy_tree, first_difference, stamps
from testkit.made.compactable import CONFIG, T0, compactable
from testkit.recorded.fixture_data import recovery_case
from testkit.recorded.recovery_settings import given
from testkit.running.command import kafkalog
from testkit.running.lock_holder import held
from testkit.running.stopping import cut_short

CASE = recovery_case("bit_flip/length")
SETTINGS = [f"--config={name}={value}" for name, value in given(CASE)["config"].items()]
AT = ["--at", str(T0 + 5)]
NO_RUN = "20260101T000000.000000Z-00000001"
CLEANER = [f"--config={name}={value}" for name, value in CONFIG.items()]

COMMANDS: dict[str, list[str]] = {
    "recover": ["recover", *SETTINGS, *AT],
    "recover, any loss": ["recover", "--accept-loss", *SETTINGS, *AT],
    "recover --mode salvage": ["recover", "--mode", "salvage", *SETTINGS, *AT],
    "recover --mode strict": ["recover", "--mode", "strict", *SETTINGS, *AT],
    "recover --mode kafka": ["recover", "--mode", "kafka", *SETTINGS, *AT],
    "recover --mode kafka --mark-clean": ["recover", "--mode", "kafka", "--mark-clean", *SETTINGS, *AT],
    "recover --mode set-aside": ["recover", "--mode", "set-aside", *AT],
    "recover --mode set-aside of one": ["recover", "--mode", "set-aside", "--topic", "t", "--partition", "0", *AT],
    "recover --mode merge": ["recover", "--mode", "merge", "--copy", "COPY", *SETTINGS, *AT],
    "recover --mode merge, no copy": ["recover", "--mode", "merge", *SETTINGS, *AT],
    "recover --mark-clean": ["recover", "--mark-clean", *SETTINGS, *AT],
    "recover --mark-clean of one": ["recover", "--mark-clean", "--topic", "t", "--partition", "0", *SETTINGS, *AT],
    "recover --repair-bits": ["recover", "--repair-bits", "checksum", *SETTINGS, *AT],
    "recover --full": ["recover", "--full", *SETTINGS, *AT],
    "recover --complete": ["recover", "--complete", NO_RUN, *SETTINGS, *AT],
    "recover --moved": ["recover", "--moved", *SETTINGS, *AT],
    "recover --into": ["recover", "--into", "NEW", *SETTINGS, *AT],
    "undo": ["undo"],
    "undo --run": ["undo", "--run", NO_RUN],
    "undo --moved": ["undo", "--moved"],
    "runs --purge": ["runs", "--purge", NO_RUN],
    "runs --purge-older-than": ["runs", "--purge-older-than", "0"],
    "compact": ["compact", *CLEANER, *AT],
    "compact --into": ["compact", "--into", "NEW", *CLEANER, *AT],
    "index rebuild": ["index", "rebuild", *SETTINGS, *AT],
    "undelete": ["undelete", "--topic", "t", *AT],
    "undelete --hold": ["undelete", "--topic", "t", "--hold", *AT],
    "undelete --as": ["undelete", "--topic", "t", "--as", "u", *AT],
    "undelete --into": ["undelete", "--topic", "t", "--into", "NEW", *AT],
    "quorum recover": ["quorum", "recover", "--standalone", "--others-are-gone"],
    "build": ["build", "--into", "ROOT", "LINES"],
    "build --append": ["build", "--append", "--into", "ROOT", "LINES"],
    "merge": ["merge", "COPY", "--into", "NEW"],
}
WITHOUT_PATH = ("build", "build --append")
NEVER_ASKS = (*WITHOUT_PATH, "merge", "recover --into", "compact --into", "undelete --into")


@contextmanager
def _changed(change: Callable[[Path], None], root: Path) -> Iterator[None]:
    change(root)
    yield


def hard_link(root: Path) -> None:
    for number, log in enumerate(sorted(root.glob("*-*/*.log"))):
        os.link(log, root.parent / f"snapshot-{number}")


def file_for_quarantine(root: Path) -> None:
    if not root.with_name("logs.recovery").exists():
        root.with_name("logs.recovery").write_text("a file")


def full_target(root: Path) -> None:
    (root.parent / "new").mkdir()
    (root.parent / "new" / "mine").write_text("mine")


def no_pointer_sense(root: Path) -> None:
    (root / ".kafkalog-quarantine").write_text("nonsense")


REASONS: dict[str, tuple[list[str], Callable[[Path], AbstractContextManager[None]]]] = {
    "nobody agreed": ([], lambda root: nullcontext()),
    "none": (["--yes"], lambda root: nullcontext()),
    "in use": (["--yes"], lambda root: held(root / ".lock")),
    "hard links": (["--yes"], lambda root: _changed(hard_link, root)),
    "a file where the quarantine goes": (["--yes"], lambda root: _changed(file_for_quarantine, root)),
    "a quarantine inside": (["--yes", "--quarantine", "INSIDE"], lambda root: nullcontext()),
    "the new directory is there": (["--yes"], lambda root: _changed(full_target, root)),
    "a pointer that makes no sense": (["--yes"], lambda root: _changed(no_pointer_sense, root)),
}


def _original(root: Path, patch: pytest.MonkeyPatch) -> None:
    CASE.unpack_before(root)


def _cut_short(root: Path, patch: pytest.MonkeyPatch) -> None:
    CASE.unpack_before(root)
    cut_short(lambda: recover(Recovery(accept_loss=True, **given(CASE)), root)[0], patch)


def _finished(root: Path, patch: pytest.MonkeyPatch) -> None:
    CASE.unpack_before(root)
    recover(Recovery(accept_loss=True, **given(CASE)), root)


def _deleted(root: Path, patch: pytest.MonkeyPatch) -> None:
    CASE.unpack_before(root)
    for suffix in (".log", ".index", ".timeindex"):
        (root / "t-0" / f"{0:020d}{suffix}.deleted").write_bytes(b"")


def _several(root: Path, patch: pytest.MonkeyPatch) -> None:
    CASE.unpack_before(root)
    shutil.copytree(root / "t-0", root / "t-1")


def _sound(root: Path, patch: pytest.MonkeyPatch) -> None:
    compactable(root)


def _anothers(root: Path, patch: pytest.MonkeyPatch) -> None:
    """A copy of a directory whose run is kept elsewhere."""
    original = CASE.unpack_before(root.with_name("original"))
    recover(Recovery(accept_loss=True, quarantine=root.with_name("kept"), **given(CASE)), original)
    copy_tree(original, root)


PASTS: dict[str, Callable[[Path, pytest.MonkeyPatch], None]] = {
    "damaged": _original,
    "a run cut short": _cut_short,
    "a finished run": _finished,
    "deleted segments": _deleted,
    "several partitions": _several,
    "sound": _sound,
    "another owner": _anothers,
}


def _everything(place: Path) -> dict[str, object]:
    """What is there; the time of the folder around all of it says nothing."""
    return {path: held for path, held in stamps(place).items() if path != "."}


def line(name: str, more: list[str], place: Path) -> list[str]:
    root = place / "logs"
    words = [*COMMANDS[name], *([] if name in NEVER_ASKS and more == ["--yes"] else more)]
    known = {"ROOT": root, "NEW": place / "new", "COPY": place / "copy", "LINES": place / "lines.jsonl",
             "INSIDE": root / "t-0" / "q"}  # fmt: skip
    return [str(known.get(word, word)) for word in words] + ([] if name in WITHOUT_PATH else [str(root)])


def compare(combinations: list[tuple[str, str]], past: str, tmp_path: Path, patch: pytest.MonkeyPatch) -> Counter[str]:
    template = tmp_path / "template"
    template.mkdir()
    CASE.unpack_before(template / "copy")
    (template / "lines.jsonl").write_text('{"topic": "t", "partition": 0, "value": "x"}\n')
    place = tmp_path / "place"
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for name, reason in combinations:
        copy_tree(template, place)
        PASTS[past](place / "logs", patch)
        more, why = REASONS[reason]
        with why(place / "logs"):
            before = _everything(place)
            finished = kafkalog(*line(name, more, place))
            after = _everything(place)
        if name in NEVER_ASKS and finished.code in (0, 1):  # something new is there, and nothing else is different
            is_new = {"logs"} if name in WITHOUT_PATH and finished.code == 0 else {"new", "new.recovery"}
            before, after = ({path: held for path, held in each.items() if path.split("/")[0] not in is_new}
                             for each in (before, after))  # fmt: skip
        different = first_difference(after, before) if finished.code != 2 else ""
        wrong += [f"{name}, {reason}, {past}: {finished.code}: {different}: {finished.err}"] if different else []
        wrong += [str(finished)] if finished.code not in (0, 1, 2, 3, 4, 64) else []
        changes = finished.code == 2
        counts["changed something, and said so" if changes else f"ended with {finished.code} and changed nothing"] += 1
        shutil.rmtree(place)
    assert wrong == []
    return counts


@pytest.mark.parametrize("each", [16, pytest.param(1, marks=pytest.mark.sweep)])
@pytest.mark.parametrize("past", PASTS)
def test_what_does_not_say_that_it_changed_something_has_changed_nothing(
    past: str, each: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: Callable[[str, int], None]
) -> None:
    combinations = list(product(COMMANDS, REASONS))
    start = list(PASTS).index(past) % each
    for what, count in compare(combinations[start::each], past, tmp_path, monkeypatch).items():
        measured(f"commands that {what}", count)
