"""A power cut at any moment of a recovery or of its undo: nothing is lost, whatever of the unflushed changes is kept.

Every state that is tried is one that a file system may leave: changes that no flush has made durable are lost or kept
one by one, in any combination (`lost_writes`).  From each the next run completes, or undo gives back what was there.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkalog import RecoveryRefused
from kafkalog.log.disk.pointer import POINTER
from kafkalog.recovery import Recovery, recover, undo
from kafkalog.recovery.act import apply, descriptors, runner
from testkit.judging.every_byte import Originals
from testkit.judging.lost_writes import Recorded, recording
from testkit.judging.trees import contents, first_difference, stamps
from testkit.recorded.fixture_data import RecoveryCase, recovery_cases, recovery_families
from testkit.recorded.recovery_settings import given
from testkit.running.stopping import Stopped, beside, disturbed, just_before

COPIES = 4
"""Partition directories that need the same: what is done to one does not wait for what is done to another."""
EVERY_MOMENT = 10**9
Cut = tuple[str, Path, dict[str, Any], Originals]
FAMILIES = ("torn_tail", "bit_flip", "swap_files", "overflow", "segment_set", "clean_marker")


def cases() -> list[RecoveryCase]:
    chosen: dict[str, RecoveryCase] = {}
    for family in recovery_families():
        for case in recovery_cases([family]):
            is_left_alone = case.id == "clean_marker/on-crashed-dir"  # the marker vouches for it
            if case.outcome == "loaded" and case.case["result"]["changed"] and not is_left_alone:
                chosen.setdefault(family, case)
    return list(chosen.values())


USUAL = [case for case in cases() if case.family in FAMILIES]
EVERY = [pytest.param(case, EVERY_MOMENT, 6, marks=pytest.mark.sweep, id=case.id.replace("/", ":")) for case in cases()]
SAMPLED = [pytest.param(case, 4, 1, id=f"{case.id.replace('/', ':')}-sampled") for case in USUAL]


@pytest.fixture(autouse=True)
def many_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few changes are flushed together too, as many are."""
    monkeypatch.setattr(descriptors, "FEW", 0)


def world_of(case: RecoveryCase, base: Path, copies: int = COPIES) -> Path:
    """A log directory with several partitions that need the same, no two of their files with the same bytes."""
    base.mkdir()
    root = case.unpack_before(base / "logs")
    for partition in [each for each in sorted(root.iterdir()) if each.is_dir() and each.name.endswith("-0")]:
        for number in range(1, copies):
            copy = shutil.copytree(partition, root / f"{partition.name[:-2]}-{100 + number}", symlinks=True)
            for file in copy.iterdir():
                if file.suffix in (".log", ".index", ".timeindex", ".snapshot"):
                    with file.open("ab") as end:
                        end.write(bytes([number]) * 24)
    return root


def there(root: Path) -> dict[str, Any]:
    """What is there, but for the time of the log directory itself, which a lock file changes that a cut leaves."""
    return {path: held for path, held in stamps(root).items() if path not in (".", ".lock")}


def run(root: Path, case: RecoveryCase) -> Any:
    return recover(Recovery(accept_loss=True, **given(case)), root)[0]


def states(recorded: Recorded, most: int, chances: int, seed: str, target: Path) -> Iterator[tuple[str, Path]]:
    """Trees that cuts may leave, where the recorded one was: without all that can be lost, and without some of it.

    At most so many moments, in order.
    """
    chosen = random.Random(seed)
    count = len(recorded.moments)
    for moment in sorted(chosen.sample(range(count), min(most, count))):
        for chance in range(1 + chances):
            recorded.cut(moment, chosen if chance else None, target)
            yield f"moment {moment} of {count}, chance {chance}", target / "logs"


def complete(root: Path, case: RecoveryCase) -> None:
    while run(root, case).completed:
        pass


def take_back(root: Path) -> None:
    while True:
        try:
            undo(root)
        except RecoveryRefused as refused:
            assert refused.reason == "no_run", refused  # noqa: PT017
            return


@pytest.mark.parametrize(("case", "most", "chances"), [*SAMPLED, *EVERY])
def test_a_power_cut_of_a_recovery(
    case: RecoveryCase,
    most: int,
    chances: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    measured: Callable[[str, int], None],
) -> None:
    root = world_of(case, tmp_path / "world")
    before, originals = there(root), Originals(root)
    with recording(tmp_path / "world", tmp_path / "copy", monkeypatch) as recorded:
        assert run(root, case).changed
    want = contents(root)
    tried = 0
    for tried, (where, cut) in enumerate(states(recorded, most, chances, case.id, tmp_path / "world"), 1):
        assert originals.missing(cut, beside(cut)) == [], where
        if tried % 2:
            complete(cut, case)
            got = {path: held for path, held in contents(cut).items() if path not in (POINTER, ".lock")}
            assert first_difference(dict(got), dict(want)) == "", where
        take_back(cut)
        assert first_difference(there(cut), before) == "", where
    assert tried > 3
    measured("states that a power cut of a recovery may leave, completed or undone", tried)


@pytest.mark.parametrize(("case", "most", "chances"), [*SAMPLED, *EVERY])
def test_a_power_cut_of_an_undo(
    case: RecoveryCase,
    most: int,
    chances: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    measured: Callable[[str, int], None],
) -> None:
    root = world_of(case, tmp_path / "world")
    before, originals = there(root), Originals(root)
    run(root, case)
    with recording(tmp_path / "world", tmp_path / "copy", monkeypatch) as recorded:
        undo(root)
    tried = 0
    for where, cut in states(recorded, most, chances, case.id, tmp_path / "world"):
        tried += 1
        assert originals.missing(cut, beside(cut)) == [], where
        take_back(cut)
        assert first_difference(there(cut), before) == "", where
    assert tried > 3
    measured("states that a power cut of an undo may leave, taken back", tried)


def cuts_after_a_stop(case: RecoveryCase, number: int, tmp_path: Path, patch: pytest.MonkeyPatch) -> Iterator[Cut]:
    """Trees that a cut may leave of a run that was stopped before its n-th change and completed by the next process."""
    shutil.rmtree(tmp_path / "world", ignore_errors=True)
    shutil.rmtree(tmp_path / "copy", ignore_errors=True)
    root = world_of(case, tmp_path / "world")
    before, originals = there(root), Originals(root)
    with recording(tmp_path / "world", tmp_path / "copy", patch) as recorded:
        patch.setattr(descriptors, "flush_file_system", lambda descriptor: False)  # else any flush is one of everything
        assert disturbed(lambda: run(root, case), number, Stopped, patch)
        stopped = len(recorded.moments)
        complete(root, case)
    recorded.moments = recorded.moments[stopped : stopped + 60]
    for where, cut in states(recorded, 20, 2, case.id, tmp_path / "world"):
        yield f"stopped before {number}, {where}", cut, before, originals


@pytest.mark.parametrize("further", [(20,), pytest.param(range(60), marks=pytest.mark.sweep)])
def test_a_power_cut_while_a_run_is_completed_that_was_stopped(
    further: Iterable[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the stopped process had not flushed is flushed before anything relies on it."""
    (case,) = (each for each in USUAL if each.family == "bit_flip")
    begun: list[int] = []
    forward: Any = apply.roll_forward

    def noted(*given: Any) -> object:
        begun.append(count[0])
        return forward(*given)

    with just_before(0, lambda: None, monkeypatch) as count, monkeypatch.context() as patch:
        patch.setattr(runner, "roll_forward", noted)
        run(world_of(case, tmp_path / "counted"), case)
    for number in (begun[0] + each for each in further):
        for where, cut, before, originals in cuts_after_a_stop(case, number, tmp_path, monkeypatch):
            assert originals.missing(cut, beside(cut)) == [], where
            take_back(cut)
            assert first_difference(there(cut), before) == "", where


def test_without_its_barriers_a_recovery_would_lose_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The states that are tried tell: where flushing a file system does nothing, some of them lack bytes."""
    (case,) = (each for each in USUAL if each.family == "bit_flip")
    root = world_of(case, tmp_path / "world")
    originals = Originals(root)
    with recording(tmp_path / "world", tmp_path / "copy", monkeypatch, deaf=True) as recorded:
        run(root, case)
    found = states(recorded, 40, 3, case.id, tmp_path / "cut")
    assert any(originals.missing(cut, beside(cut)) for _where, cut in found)


def test_fewer_flushes_than_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions that need the same are flushed together: forty of them take no more flushes than four."""
    (case,) = (each for each in USUAL if each.family == "torn_tail")
    counts = []
    for number, copies in enumerate((4, 40)):
        root = world_of(case, tmp_path / f"world{number}", copies)
        with recording(root.parent, tmp_path / f"copy{number}", monkeypatch) as recorded:
            run(root, case)
        counts.append(recorded.flushes)
    assert counts[0] == counts[1]


def test_where_a_file_system_cannot_be_flushed_as_a_whole_each_file_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (case,) = (each for each in USUAL if each.family == "torn_tail")
    root = world_of(case, tmp_path / "world")
    before, originals = there(root), Originals(root)
    with recording(tmp_path / "world", tmp_path / "copy", monkeypatch) as recorded, monkeypatch.context() as patch:
        patch.setattr(descriptors, "flush_file_system", lambda descriptor: False)
        run(root, case)
    for where, cut in states(recorded, 4, 1, case.id, tmp_path / "cut"):
        assert originals.missing(cut, beside(cut)) == [], where
        take_back(cut)
        assert first_difference(there(cut), before) == "", where
