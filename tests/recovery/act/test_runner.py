"""A recovery that is stopped before any change it makes, or meets an I/O error there: nothing is lost.

Every run is repeated with the n-th changing operation replaced by a stop (the process is gone) or by an error, for
n = 1, 2, 3 … until the run ends undisturbed, which proves that every operation was visited.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from kafkalog import StorageError
from kafkalog.log.disk.pointer import POINTER
from kafkalog.recovery import Recovery, Undo, recover, undo
from kafkalog.recovery.act.quarantine import Runs
from testkit.judging.every_byte import Originals
from testkit.judging.trees import contents, copy_tree, first_difference, stamps
from testkit.recorded.fixture_data import RecoveryCase, recovery_cases, recovery_families
from testkit.recorded.recovery_settings import given
from testkit.running.elsewhere import PLACES, quarantine_at
from testkit.running.stopping import Failure, Stopped, beside, disturbed, just_before, killed_at, take_back_all


def scenario_cases() -> list[RecoveryCase]:
    chosen: dict[str, RecoveryCase] = {}
    for family in ("torn_tail", "bit_flip", "swap_files", "overflow", "segment_set", "clean_marker"):
        for case in recovery_cases([family]):
            is_left_alone = case.id == "clean_marker/on-crashed-dir"  # the marker vouches for it
            if case.outcome == "loaded" and case.case["result"]["changed"] and not is_left_alone:
                chosen.setdefault(family, case)
    return list(chosen.values())


CASES = scenario_cases()


FAILURES: dict[str, Failure] = {
    "stopped": Stopped,
    "out of space": lambda: StorageError(errno.ENOSPC, "No space left on device"),
    "failing with EIO": lambda: StorageError(errno.EIO, "Input/output error"),
    "on a read-only file system": lambda: StorageError(errno.EROFS, "Read-only file system"),
}


def combined(ways: Iterable[str]) -> pytest.MarkDecorator:
    """Every way at every place before each change; in every run of the tests each case at both places, in one way each,
    before every fourth change.
    """
    every = list(ways)

    def is_usual(number: int, place: str, how: str) -> bool:
        return how == every[0 if place == PLACES[number % 2] else 1 + number % (len(every) - 1)]

    def params() -> Iterator[Any]:
        for number, case in enumerate(CASES):
            for place in PLACES:
                for how in every:
                    name = f"{named(case)}-{place}-{how}"
                    if is_usual(number, place, how):
                        yield pytest.param(case, place, how, 1 + number % 4, 4, id=f"{name}-sampled")
                    yield pytest.param(case, place, how, 1, 1, marks=pytest.mark.sweep, id=name)

    return pytest.mark.parametrize(("case", "place", "how", "first", "stride"), list(params()))


def named(case: RecoveryCase) -> str:
    return case.id.replace("/", ":")


@combined(FAILURES)
def test_stopped_anywhere_a_second_run_completes_and_undo_restores(
    case: RecoveryCase,
    how: str,
    place: str,
    first: int,
    stride: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    measured: Callable[[str, int], None],
) -> None:
    original = case.unpack_before(tmp_path / "original")
    want = undisturbed_result(case, original, tmp_path)
    before, originals = stamps(original), Originals(original)
    for number in count(first, stride):
        again = copy_tree(original, tmp_path / "again")
        with quarantine_at(place, tmp_path) as kept:
            work = lambda: recover(Recovery(quarantine=kept, accept_loss=True, **given(case)), again)[0]  # noqa: E731, B023
            if not disturbed(work, number, FAILURES[how], monkeypatch):
                shutil.rmtree(again)
                break
            assert originals.missing(again, kept or beside(again)) == [], f"after {how}, operation {number}"
            if number // stride % 2:
                complete_and_undo(case, again, want, before, f"operation {number}", kept)
            else:
                take_back_all(again, before, f"operation {number}", kept)
    assert number > 10
    stops = (number - first) // stride
    measured(f"recoveries {how} before one of their changes, quarantine {place}, completed or undone", stops)


@combined(["stopped", "out of space"])
def test_an_undo_stopped_anywhere_is_gone_on_with(
    case: RecoveryCase,
    how: str,
    place: str,
    first: int,
    stride: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    measured: Callable[[str, int], None],
) -> None:
    original = case.unpack_before(tmp_path / "original")
    before, originals = stamps(original), Originals(original)
    for number in count(first, stride):
        again = copy_tree(original, tmp_path / "again")
        with quarantine_at(place, tmp_path) as kept:
            recover(Recovery(quarantine=kept, accept_loss=True, **given(case)), again)
            went_on = disturbed(lambda: undo(Undo(quarantine=kept), again), number, FAILURES[how], monkeypatch)  # noqa: B023
            assert originals.missing(again, kept or beside(again)) == [], f"after {how}, operation {number}"
            take_back_all(again, before, f"operation {number} of an undo", kept)
            if not went_on:
                break
    assert number > 5
    stops = (number - first) // stride
    measured(f"undos {how} before one of their changes, quarantine {place}, then gone on with", stops)


def undisturbed_result(case: RecoveryCase, original: Path, tmp_path: Path) -> dict[str, tuple[int, str]]:
    undisturbed = copy_tree(original, tmp_path / "undisturbed")
    recover(Recovery(accept_loss=True, **given(case)), undisturbed)
    return contents(undisturbed)


def complete_and_undo(
    case: RecoveryCase,
    again: Path,
    want: dict[str, tuple[int, str]],
    before: dict[str, tuple[int, int, str]],
    where: str,
    kept: Path | None = None,
) -> None:
    """Recovered until nothing was cut short it is as after an undisturbed run; undo takes back every run there is."""
    while recover(Recovery(quarantine=kept, accept_loss=True, **given(case)), again)[0].completed:
        pass
    got = {path: held for path, held in contents(again).items() if path != POINTER}
    assert first_difference(dict(got), dict(want)) == "", f"second run after {where}"
    take_back_all(again, before, where, kept)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.sweep)])
def test_a_run_killed_while_it_is_announced_and_what_follows_killed_anywhere(
    stride: int, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: Callable[[str, int], None]
) -> None:
    """Its directory may not name it yet when the next run removes what it had copied, and is killed as well."""
    (case,) = (each for each in CASES if each.family == "bit_flip")
    original = case.unpack_before(tmp_path / "original")
    want = undisturbed_result(case, original, tmp_path)
    before = stamps(original)
    announced = changes_before_it_is_announced(case, place, tmp_path, monkeypatch)
    kills = 0
    for number in range(announced, announced + 6):
        for nested in range(1 + (number - announced) % stride, 12, stride):
            again = copy_tree(original, tmp_path / "again")
            with quarantine_at(place, tmp_path) as kept:
                work = lambda: recover(Recovery(quarantine=kept, accept_loss=True, **given(case)), again)[0]  # noqa: E731, B023
                kills += killed_at(number, work) + killed_at(nested, work, may_decline=True)
                complete_and_undo(case, again, want, before, f"kills {number} and {nested}", kept)
    assert kills > 100 // stride
    measured(f"kills around the announcement of a run, quarantine {place}, each then completed and undone", kills)


def changes_before_it_is_announced(
    case: RecoveryCase, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> int:
    found: list[int] = []
    begin = Runs.begin
    with quarantine_at(place, tmp_path) as kept, just_before(0, lambda: None, monkeypatch) as count:

        def noted(self: Runs, *given: Any) -> None:
            found.append(count[0])
            begin(self, *given)

        monkeypatch.setattr(Runs, "begin", noted)
        again = copy_tree(tmp_path / "original", tmp_path / "counted")
        recover(Recovery(quarantine=kept, accept_loss=True, **given(case)), again)
    monkeypatch.setattr(Runs, "begin", begin)
    return found[0]


def many_cases() -> list[RecoveryCase]:
    """Twenty kinds of damage, one case each."""
    chosen = []
    for family in recovery_families():
        if family == "bases":
            continue
        loaded = [case for case in recovery_cases([family]) if case.outcome == "loaded"]
        chosen += [case for case in loaded if case.case["result"]["changed"]][:1]
    return chosen[: 4 if os.environ.get("KAFKALOG_SWEEP") == "ci" else 20]


@pytest.mark.sweep
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("case", many_cases(), ids=named)
def test_killed_anywhere_and_killed_again(
    case: RecoveryCase, place: str, tmp_path: Path, measured: Callable[[str, int], None]
) -> None:
    """SIGKILL before the i-th change, again before the j-th of the run that follows, then completed and undone."""
    original = case.unpack_before(tmp_path / "original")
    want = undisturbed_result(case, original, tmp_path)
    before, originals = stamps(original), Originals(original)
    kills = undos = number = 0
    second = random.Random(case.id)
    went_on = True
    while went_on:
        number += 1
        for nested in sorted({1, second.randrange(1, 40)}):
            again = copy_tree(original, tmp_path / "again")
            with quarantine_at(place, tmp_path) as kept:
                work = lambda: recover(Recovery(quarantine=kept, accept_loss=True, **given(case)), again)[0]  # noqa: E731, B023
                went_on = killed_at(number, work, may_decline=True)
                assert originals.missing(again, kept or beside(again)) == [], f"after kill {number}"
                kills += went_on + killed_at(nested, work, may_decline=True)
                assert originals.missing(again, kept or beside(again)) == [], f"after kills {number} and {nested}"
                complete_and_undo(case, again, want, before, f"kills {number} and {nested}", kept)
        again = copy_tree(original, tmp_path / "again")
        with quarantine_at(place, tmp_path) as kept:
            work = lambda: recover(Recovery(quarantine=kept, accept_loss=True, **given(case)), again)[0]  # noqa: E731, B023
            killed_at(number, work, may_decline=True)
            undos += killed_at(second.randrange(1, 20), lambda: undo(Undo(quarantine=kept), again), may_decline=True)  # noqa: B023
            assert originals.missing(again, kept or beside(again)) == [], f"kill {number}, then undo killed"
            complete_and_undo(case, again, want, before, f"kill {number}, then undo killed", kept)
    measured(f"kills of a recovery, quarantine {place}, each then completed and undone", kills)
    measured(f"kills of an undo, quarantine {place}, each then gone on with", undos)
